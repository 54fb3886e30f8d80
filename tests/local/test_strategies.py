"""Federations of two rounds by strategies that ask something of their clients, run for real."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from tests.support import small

pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    "regmean": {"maxRank": 24, "momentsRank": 8},
    "rolora": {},
    "fedadam": {"serverLearningRate": 0.01},
    "none": {},
}
"""One of those that grow the rank (the others differ in the merge alone), and all others."""


def config(out: Path) -> dict[str, Any]:
    text = (out / "adapter" / bucket_keys.CONFIG).read_text()
    return dict(json.loads(text))


@pytest.mark.parametrize("strategy", CASES)
def test_a_federation_runs_to_its_end(strategy: str, tmp_path: Path) -> None:
    settings = {"strategy": strategy, "options": CASES[strategy]}
    manifest = small.write_manifest(tmp_path, aggregation=settings)
    out = tmp_path / "run"
    small.finish(manifest, out)
    status = small.status(out)
    assert status["completed"] == 2
    success = status["history"][-1]["success"]
    assert set(success) == set(small.ENVIRONMENTS)
    if strategy == "none":
        assert [line["adapter"]["round"] for line in status["environments"]] == [2, 2]
        assert not (out / "adapter").exists()
        return
    tensors = lora.decode((out / "adapter" / bucket_keys.ADAPTER).read_bytes())
    rank = 8 + CASES[strategy].get("maxRank", 0)
    assert config(out)["r"] == rank
    assert config(out)["lora_alpha"] / rank == 2
    assert lora.is_finite(tensors)
    assert not (out / "adapter" / bucket_keys.STATE).exists()
