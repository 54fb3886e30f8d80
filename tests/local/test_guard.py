"""The guard against adapters that do worse, in federations that are run for real."""

from pathlib import Path

import pytest

from tests.support import small
from tests.support.processes import until

pytestmark = pytest.mark.slow

STEP = 8.0
"""A server step that is too large: without a guard the federation loses what it has won."""
EVALUATION = {"tasks": 8, "validationTasks": 40}


def manifest(folder: Path) -> Path:
    folder.mkdir()
    aggregation, guard = {"serverStep": STEP}, {"maxDrop": 0.1}
    return small.write_manifest(
        folder, rounds=4, aggregation=aggregation, evaluation=EVALUATION, guard=guard
    )


def means(out: Path) -> dict[int, float]:
    """Mean success of every adapter on the tasks by which the best is chosen."""
    return {
        entry["round"]: sum(entry["validation"].values()) / len(small.ENVIRONMENTS)
        for entry in small.status(out)["history"]
        if len(entry.get("validation") or {}) == len(small.ENVIRONMENTS)
    }


def test_a_federation_whose_step_is_too_large_ends_near_its_best_and_a_kill_changes_nothing(
    tmp_path: Path,
) -> None:
    out = tmp_path / "guarded" / "run"
    with small.Run(manifest(out.parent), out) as process:
        process.finish()
    status, seen = small.status(out), means(out)
    assert [entry["outcome"] for entry in status["history"]].count("rolled-back") >= 1
    assert status["guard"]["stepFactor"] < 1
    assert seen[status["adapter"]["round"]] >= max(seen.values()) - 0.05

    again = tmp_path / "killed" / "run"
    manifest_file = manifest(again.parent)
    with small.Run(manifest_file, again) as process:
        until(lambda: "RolledBack" in process.events, "a rollback")
        process.kill()
    with small.Run(manifest_file, again) as process:
        process.finish()
    assert small.adapter(again) == small.adapter(out)
    assert small.status(again)["guard"] == status["guard"]
