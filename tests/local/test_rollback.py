"""A run that one silo has ruined, in a build whose gate lets it: `hansa rollback` goes back."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.local.results import open_store
from hansa.local.rundir import RunDir
from tests.support import small
from tests.support.processes import until

pytestmark = pytest.mark.slow

RUINED = 2
"""Round in which maze sends finite values that no model survives."""
ROUNDS = 3
SPEC = {"rounds": ROUNDS, "evaluation": {"tasks": 60}}
BUILD = f"""
import numpy
from hansa_client import send
from hansa_server import gate

def lenient(check):
    def checked(*arguments, **named):
        try:
            return check(*arguments, **named)
        except gate.UpdateRefused:
            return None
    return checked

for name in [name for name in dir(gate) if name.startswith("check_")]:
    setattr(gate, name, lenient(getattr(gate, name)))
honest = send.store_adapter

def store_adapter(store, assignment, tensors):
    if assignment.environment == "maze" and assignment.round == {RUINED}:
        tensors = {{name: numpy.full_like(value, 1e30) for name, value in tensors.items()}}
    return honest(store, assignment, tensors)

send.store_adapter = store_adapter
"""
"""What every program of that build does when it starts: maze lies once, and no check refuses."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which programs are of that build."""
    site = tmp_path_factory.mktemp("build")
    (site / "sitecustomize.py").write_text(BUILD)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path}


@pytest.fixture(scope="module")
def ruined(tmp_path_factory: pytest.TempPathFactory, build: dict[str, str]) -> Iterator[Path]:
    """A run in ruins, stopped when the first round begins that would play with them."""
    folder = tmp_path_factory.mktemp("ruined")
    out = folder / "run"
    with small.Run(small.write_manifest(folder, **SPEC), out, **build) as run:
        until(lambda: f"RoundOpened round {RUINED + 1}" in run.events, "the round after it")
        run.kill()
    with open_store(RunDir(out).load(), RunDir(out)) as store:
        made = store.get(bucket_keys.global_folder(small.NAME, RUINED) + bucket_keys.ADAPTER)
    assert max(abs(value).max() for value in lora.decode(made).values()) > 1e29
    yield out


class Rollback(small.Run):
    """`hansa rollback FOLDER` in a process of its own."""

    command = "rollback"
    is_of_manifest = False


def success(out: Path) -> float:
    """Mean success of the adapter that a run ended with."""
    return float(small.status(out)["success"])


@pytest.mark.attack(
    by="a silo",
    does="ruins the adapter by values that pass the gate",
    result="`hansa rollback` goes back; killed in the middle, it gives the same bytes",
)
def test_it_ends_near_the_clean_run_and_a_kill_changes_no_byte(
    ruined: Path, build: dict[str, str], tmp_path: Path
) -> None:
    clean = tmp_path / "clean" / "run"
    clean.parent.mkdir()
    manifest = small.write_manifest(clean.parent, **SPEC)
    small.finish(manifest, clean)

    killed = tmp_path / "killed" / "run"
    shutil.copytree(ruined, killed)
    with Rollback(manifest, ruined, "--to", str(RUINED - 1), **build) as run:
        run.finish()
    assert success(ruined) >= success(clean) - 0.05
    assert small.status(ruined)["completed"] == ROUNDS
    outcomes = [entry["outcome"] for entry in small.status(ruined)["history"]]
    assert outcomes == ["base", "aggregated", "undone", "undone", "aggregated", "aggregated"]
    assert "RolledBack continues from the adapter of round 1, as asked" in run.events

    with Rollback(manifest, killed, "--to", str(RUINED - 1), **build) as run:
        run.wait_for_phase("train", RUINED + 2)  # the first round after going back
        run.kill()
    again = small.hansa("retry", killed, **build)
    assert again.returncode == 0, again.stderr
    assert small.adapter(killed) == small.adapter(ruined)


def test_under_a_guard_it_comes_back_by_itself(build: dict[str, str], tmp_path: Path) -> None:
    """Every client breaks over the ruins, so that nobody can evaluate them."""
    quick = {"rounds": 4, "evaluation": {"tasks": 4}, "guard": {"maxDrop": 1.0}}
    out = tmp_path / "run"
    run = small.finish(small.write_manifest(tmp_path, **quick), out, **build)
    outcomes = [entry["outcome"] for entry in small.status(out)["history"]]
    assert outcomes == ["base", "aggregated", "rejected", "rolled-back", "aggregated"]
    assert "nobody could evaluate the adapter of round 2" in run.events
    assert small.status(out)["adapter"]["round"] in (1, 4)
