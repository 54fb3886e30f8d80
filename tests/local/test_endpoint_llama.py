"""Federations in which a silo plays through a server that is not ours: llama.cpp's own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import llamas, small
from tests.support.sources import ROOT

pytestmark = pytest.mark.slow


def run_with(tmp_path: Path, model: Path, file: Path, **changes: Any) -> small.Run:
    """A federation to its end: maze by llama.cpp, webshop by the client itself."""
    offered = tmp_path / "offered"
    offered.mkdir()
    with llamas.serving(file, offered) as url:
        endpoint = {
            "url": url,
            "server": "llama.cpp",
            "adapterFolder": str(offered),
            "concurrency": 4,
            "timeoutSeconds": 600,  # two cores, and other tests beside it
            "patienceSeconds": 600,
            "loadSeconds": 600,
        }
        maze, webshop = small.SPEC["environments"]
        settings = {
            "model": {"source": f"path:{model}"},
            "environments": [{**maze, "endpoint": endpoint}, webshop],
            **changes,
        }
        manifest = small.write_manifest(tmp_path, **settings)
        run = small.finish(manifest, tmp_path / "run")
    for round_ in range(1, changes.get("rounds", 2) + 1):
        log = (run.out / f"jobs/small-r{round_}-maze-a1/log.txt").read_text()
        assert f"engine={url}" in log and "episodes_dropped" not in log, log
        assert "engine=slots" in (run.out / f"jobs/small-r{round_}-webshop-a1/log.txt").read_text()
    return run


def test_a_round_of_a_random_llama_and_its_evaluation(tmp_path: Path) -> None:
    model, file = llamas.make(tmp_path)
    exploration = {"tasksPerRound": 4, "maxNewTokens": 8}
    short = {"rounds": 1, "exploration": exploration, "evaluation": {"tasks": 4}}
    run = run_with(tmp_path, model, file, **short)
    (_, round_) = small.status(run.out)["history"]
    assert round_["updates"] == "2/2" and "maze" in round_["success"]


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_round_of_smollm2_and_its_evaluation(tmp_path: Path) -> None:
    llamas.python()
    run = run_with(
        tmp_path,
        smollm2(tmp_path),
        llamas.smollm2(),
        rounds=1,
        exploration={"tasksPerRound": 4, "maxNewTokens": 16},
        experience={**small.SPEC["experience"], "demonstrations": 2},
        evaluation={"tasks": 2},
        training={**small.SPEC["training"], "learningRate": 1.0e-3, "maxSteps": 1},
    )
    (_, round_) = small.status(run.out)["history"]
    assert round_["updates"] == "2/2" and "maze" in round_["success"]
    log = (run.out / "jobs/small-r1-maze-a1/log.txt").read_text()
    assert "turns_unreadable" not in log, "it writes what it can read"


def smollm2(folder: Path) -> Path:
    """The package's file as a folder of Hugging Face's, by the project's own tool."""
    file, site = llamas.smollm2(), folder / "site"
    site.mkdir()
    for path in file.parents[1].glob("gguf*"):  # that package alone, and no other of its neighbours
        (site / path.name).symlink_to(path)
    environ = {**os.environ, "PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, ROOT / "tools/smollm2.py", "--gguf", file]
    made = subprocess.run(command, check=True, env=environ, stdout=subprocess.PIPE, text=True)
    return Path(made.stdout.strip())
