"""A federation of many environments, run for real: every round is the merge of all of them."""

from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from tests.support import small

pytestmark = pytest.mark.slow

CHEAPEST: dict[str, Any] = {
    "exploration": {**small.SPEC["exploration"], "tasksPerRound": 1},
    "experience": {"demonstrations": 1, "thoughts": False},
    "training": {**small.SPEC["training"], "maxSteps": 1},
    "evaluation": {"tasks": 1, "everyRounds": 1000},
}


@pytest.mark.parametrize(
    "count, rounds",
    [
        pytest.param(12, 1, id="12 environments, one round"),
        pytest.param(36, 3, id="36 environments, three rounds", marks=pytest.mark.full),
    ],
)
def test_a_federation_of_many_environments_aggregates_every_round(
    count: int, rounds: int, tmp_path: Path
) -> None:
    maze = small.SPEC["environments"][0]
    environments = [{**maze, "name": f"maze-{index:02d}"} for index in range(count)]
    manifest = small.write_manifest(tmp_path, rounds=rounds, **CHEAPEST, environments=environments)
    out = tmp_path / "run"
    small.finish(manifest, out)
    history = small.status(out)["history"]
    assert [entry["outcome"] for entry in history] == ["base", *["aggregated"] * rounds]
    assert [entry["updates"] for entry in history[1:]] == [f"{count}/{count}"] * rounds
    assert len(history[-1]["success"]) == count
    tensors = lora.decode((out / "adapter" / bucket_keys.ADAPTER).read_bytes())
    assert lora.is_finite(tensors) and any(array.any() for array in tensors.values())
