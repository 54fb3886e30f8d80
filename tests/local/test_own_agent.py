"""Harnesses take part in a federation beside maze, and what they record is learned from."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import own_environment, small
from tests.support.processes import until
from tests.support.small import hansa
from tests.support.sources import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples/07-own-agent"
HARNESS = [sys.executable, str(ROOT / "tests/support/harness.py")]
ALLOWED = {"HANSA_WORLD_COMMANDS": " ".join(HARNESS)}


def write(folder: Path, command: list[str], **changes: Any) -> Path:
    options = {"command": command, "max_turns": 6, "timeout_seconds": 300}
    spec: dict[str, Any] = {
        "rounds": 1,
        "exploration": {"tasksPerRound": 6, "batchEpisodes": 6, "maxNewTokens": 32},
        "evaluation": {"tasks": 4, "validationTasks": 2, "greedy": True},
        "participation": {"retries": 0},
        "environments": [
            {"name": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}},
            {"name": "own", "world": "proxy", "options": options, "demonstrations": 0},
        ],
    }
    return small.write_manifest(folder, **{**spec, **changes})


def running() -> list[str]:
    """Harnesses and their keepers that are still there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        found += [" ".join(words)] if "tests/support/harness.py" in " ".join(words) else []
    return found


def test_a_harness_takes_part_in_a_federation_beside_maze(tmp_path: Path) -> None:
    """Some of its episodes change their chat, so that an update is learned from several chats."""
    manifest, out = write(tmp_path, [*HARNESS, "mixed"]), tmp_path / "run"
    small.finish(manifest, out, "--embedded-store", **ALLOWED)
    assert running() == []
    status = small.status(out)
    assert status["phase"] == "Succeeded"
    last = status["history"][-1]
    assert last["updates"] == "2/2" and set(last["success"]) == {"maze", "own"}
    assert last["success"]["own"] > 0
    played = [show(out, each) for each in range(1, 4)]
    begins = [any(turn.get("begins") for turn in episode["turns"]) for episode in played]
    assert set(begins) == {True, False}
    assert all(episode["turns"][0]["messages"][0]["role"] == "user" for episode in played)


def show(out: Path, number: int) -> dict[str, Any]:
    printed = hansa("trajectories", out, "-e", "own", "--show", str(number), "-o", "json")
    assert printed.returncode == 0, printed.stderr
    episode: dict[str, Any] = json.loads(printed.stdout)
    return episode


def test_harnesses_that_all_fail_stop_the_silo_with_their_sentence(tmp_path: Path) -> None:
    manifest = write(tmp_path, [*HARNESS, "crash"])
    with small.Run(manifest, tmp_path / "run", "--embedded-store", **ALLOWED) as run:
        assert run.wait() != 0
        assert "world proxy failed in" in run.said
        assert "the harness ended with exit status 3, expected 0" in run.said


def test_the_pages_show_one_line_for_the_example() -> None:
    assert typed().endswith(" --embedded-store")


def test_a_command_that_nobody_allowed_is_refused_before_anything_runs(tmp_path: Path) -> None:
    refused = hansa("validate", write(tmp_path, [*HARNESS, "talk"]))
    assert refused.returncode == 2
    assert "expected one that begins with a command in HANSA_WORLD_COMMANDS (now nothing)" in (
        refused.stderr
    )


@pytest.mark.full
def test_a_run_that_was_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    manifest = write(tmp_path, [*HARNESS, "mixed"])
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    small.finish(manifest, whole, "--embedded-store", **ALLOWED)
    with small.Run(manifest, killed, "--embedded-store", **ALLOWED) as run:
        run.wait_for_phase("explore")
        run.kill()
    until(lambda: not running(), "harnesses to end with their client")
    small.finish(manifest, killed, "--embedded-store", **ALLOWED)
    assert small.adapter(killed) == small.adapter(whole)


def typed() -> str:
    """The line that both pages show."""
    pages = [EXAMPLE / "README.md", ROOT / "docs/worlds.md"]
    lines = [re.findall(r"^HANSA_WORLD_COMMANDS=.*$", page.read_text(), re.M) for page in pages]
    assert lines[0] == lines[1] and len(lines[0]) == 1
    return lines[0][0]


@pytest.mark.full
def test_the_example_gets_better_beside_maze_as_the_pages_say(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hansa").write_text(f"#!/bin/sh\nexec {sys.executable} -m hansa.cli.main $@\n")
    (tmp_path / "bin/hansa").chmod(0o755)
    path = f"{tmp_path}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", f"{typed()} --out run"],
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert ran.returncode == 0, ran.stderr
    history = small.status(tmp_path / "run")["history"]
    for name in ("cart", "maze"):
        assert history[-1]["success"][name] > history[0]["success"][name] + 0.1


@pytest.mark.full
def test_smolagents_takes_part_in_a_federation_beside_maze(tmp_path: Path) -> None:
    """Its framework writes another history than the model's own: each turn is a chat."""
    python = own_environment.install("smolagents") / "python"
    command = [str(python), shutil.copy(EXAMPLE / "smol.py", tmp_path)]
    manifest = write(
        tmp_path,
        command,
        training={"epochs": 1, "learningRate": 1e-3, "batchTokens": 1024, "maxLength": 4096},
        evaluation={"tasks": 1},
        exploration={"tasksPerRound": 2, "maxNewTokens": 16},
    )
    allowed = {"HANSA_WORLD_COMMANDS": " ".join(command)}
    small.finish(manifest, tmp_path / "run", "--embedded-store", **allowed)
    assert set(small.status(tmp_path / "run")["history"][-1]["success"]) == {"maze", "own"}
