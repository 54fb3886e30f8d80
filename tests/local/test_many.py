"""A federation of 36 environments, run for real: every round is the merge of all of them."""

from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from tests.support import small

pytestmark = pytest.mark.slow

COUNT = 36
CHEAPEST: dict[str, Any] = {
    "exploration": {**small.SPEC["exploration"], "tasksPerRound": 1},
    "experience": {"demonstrations": 1, "thoughts": False},
    "training": {**small.SPEC["training"], "maxSteps": 1},
    "evaluation": {"tasks": 1, "everyRounds": 1000},
}


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(1, id="one round"),
        pytest.param(3, id="three rounds", marks=pytest.mark.full),
    ],
)
def test_a_federation_of_36_environments_aggregates_every_round(
    rounds: int, tmp_path: Path
) -> None:
    maze = small.SPEC["environments"][0]
    environments = [{**maze, "name": f"maze-{index:02d}"} for index in range(COUNT)]
    manifest = small.write_manifest(tmp_path, rounds=rounds, **CHEAPEST, environments=environments)
    out = tmp_path / "run"
    small.finish(manifest, out)
    history = small.status(out)["history"]
    assert [entry["outcome"] for entry in history] == ["base", *["aggregated"] * rounds]
    assert [entry["updates"] for entry in history[1:]] == [f"{COUNT}/{COUNT}"] * rounds
    assert len(history[-1]["success"]) == COUNT
    tensors = lora.decode((out / "adapter" / bucket_keys.ADAPTER).read_bytes())
    assert lora.is_finite(tensors) and any(array.any() for array in tensors.values())
