"""Federations of two rounds by strategies that ask something of their clients, run for real."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa import adapter, keys
from tests import small

pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    "flora": {"maxRank": 24},
    "fedex": {"maxRank": 12},
    "regmean": {"maxRank": 24, "momentsRank": 8},
    "rolora": {},
    "fedadam": {"serverLearningRate": 0.01},
    "none": {},
}


def config(out: Path) -> dict[str, Any]:
    text = (out / "adapter" / keys.CONFIG).read_text()
    return dict(json.loads(text))


@pytest.mark.parametrize("strategy", CASES)
def test_a_federation_runs_to_its_end(strategy: str, tmp_path: Path) -> None:
    settings = {"strategy": strategy, **CASES[strategy]}
    manifest = small.write_manifest(tmp_path, aggregation=settings)
    out = tmp_path / "run"
    with small.Run(manifest, out) as run:
        run.finish()
    status = small.status(out)
    assert status["completed"] == 2
    success = status["history"][-1]["success"]
    assert set(success) == set(small.ENVIRONMENTS)
    if strategy == "none":
        assert [line["adapter"]["round"] for line in status["environments"]] == [2, 2]
        assert not (out / "adapter").exists()
        return
    tensors = adapter.decode((out / "adapter" / keys.ADAPTER).read_bytes())
    rank = {"flora": 8 + 24, "regmean": 8 + 24, "fedex": 8 + 12}.get(strategy, 8)
    assert config(out)["r"] == rank
    assert config(out)["lora_alpha"] / rank == 2
    assert adapter.is_finite(tensors)
    assert not (out / "adapter" / keys.STATE).exists()
