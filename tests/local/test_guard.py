"""The guard against adapters that do worse, in federations that are run for real."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import small
from tests.processes import until

pytestmark = pytest.mark.slow

STEPS = (8.0, 16.0, 32.0)
"""Server steps, one of which is too large for the small federation."""
EVALUATION = {"tasks": 8, "validationTasks": 40}


def run(folder: Path, step: float, **changes: Any) -> Path:
    """A federation of four rounds with a server step, run to its end."""
    folder.mkdir()
    out = folder / "run"
    with small.Run(manifest(folder, step, **changes), out) as process:
        process.finish()
    return out


def manifest(folder: Path, step: float, **changes: Any) -> Path:
    aggregation = {"serverStep": step}
    return small.write_manifest(
        folder, rounds=4, aggregation=aggregation, evaluation=EVALUATION, **changes
    )


def means(out: Path) -> dict[int, float]:
    """Mean success of every adapter on the tasks by which the best is chosen."""
    return {
        entry["round"]: sum(entry["validation"].values()) / len(small.ENVIRONMENTS)
        for entry in small.status(out)["history"]
        if len(entry.get("validation") or {}) == len(small.ENVIRONMENTS)
    }


@pytest.fixture(scope="module")
def collapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[float]:
    """A step with which a federation without a guard loses what it had won."""
    folder = tmp_path_factory.mktemp("plain")
    for step in STEPS:
        seen = means(run(folder / f"{step:g}", step))
        if max(seen.values()) - seen[4] > 0.15:
            yield step
            return
    raise AssertionError(f"none of the steps {STEPS} is too large")


def test_a_federation_whose_step_is_too_large_ends_near_its_best_and_a_kill_changes_nothing(
    collapse: float, tmp_path: Path
) -> None:
    out = run(tmp_path / "guarded", collapse, guard={"maxDrop": 0.1})
    status, seen = small.status(out), means(out)
    assert [entry["outcome"] for entry in status["history"]].count("rolled-back") >= 1
    assert status["guard"]["stepFactor"] < 1
    assert seen[status["adapter"]["round"]] >= max(seen.values()) - 0.05

    again = tmp_path / "killed" / "run"
    again.parent.mkdir()
    told = manifest(again.parent, collapse, guard={"maxDrop": 0.1})
    with small.Run(told, again) as process:
        until(lambda: "RolledBack" in process.events, "a rollback")
        process.kill()
    with small.Run(told, again) as process:
        process.finish()
    assert small.adapter(again) == small.adapter(out)
    assert small.status(again)["guard"] == status["guard"]
