"""Worlds of others take part in a federation with maze: they are shown, explored and measured."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import foreign, small
from tests.support.small import hansa

MAZE = {"name": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}}


def write(folder: Path, *others: dict[str, Any]) -> Path:
    return small.write_manifest(
        folder,
        rounds=1,
        experience={"demonstrations": 2, "thoughts": False},
        exploration={"tasksPerRound": 2, "batchEpisodes": 4, "maxNewTokens": 16},
        evaluation={"tasks": 2},
        participation={"retries": 0},
        training={**small.SPEC["training"], "maxLength": 1024, "maxSteps": 2},
        environments=[MAZE, *others],
    )


def expect_federation(folder: Path, *others: dict[str, Any]) -> None:
    """Run it to its end; every silo has played, and shown its expert's episodes."""
    manifest, out = write(folder, *others), folder / "run"
    environ = {"PYTHONPATH": foreign.path()}
    checked = hansa("validate", manifest, **environ)
    assert checked.returncode == 0, checked.stderr
    with small.Run(manifest, out, "--embedded-store", **environ) as run:
        run.finish()
    status = small.status(out)
    names = {"maze", *(other["name"] for other in others)}
    assert status["phase"] == "Succeeded"
    assert set(status["history"][-1]["success"]) == names
    for line in status["environments"]:
        assert line["explored"] == 2
        assert line.get("broken", 0) == 0
        assert line["experience"] >= 2, "the expert's demonstrations"


def test_reasoning_gym_and_textworld_take_part_with_maze(tmp_path: Path) -> None:
    sums = {
        "name": "sums",
        "world": "reasoning-gym",
        "options": {"families": ["chain_sum"], "prompt": "brief"},
    }
    rooms = {
        "name": "rooms",
        "world": "textworld",
        "options": {"level": 1, "max_turns": 3, "prompt": "brief"},
    }
    expect_federation(tmp_path, sums, *([rooms] if foreign.HAS_TEXTWORLD else []))


@pytest.mark.skipif(shutil.which("java") is None, reason="needs the program java")
def test_scienceworld_takes_part_with_maze(tmp_path: Path) -> None:
    options = {"tasks": ["lifespan-longest-lived"], "max_turns": 8, "prompt": "brief"}
    expect_federation(tmp_path, {"name": "lab", "world": "scienceworld", "options": options})


def test_a_run_without_the_package_is_refused_before_it_starts(tmp_path: Path) -> None:
    manifest = write(tmp_path, {"name": "rooms", "world": "textworld"})
    said = hansa("run", manifest, "--out", tmp_path / "run")
    assert said.returncode == 2
    assert (
        "spec.environments[1].world: got 'textworld', but the package is not installed here,"
        " expected pip install 'hansa-more-worlds[textworld]'" in said.stderr
    )
