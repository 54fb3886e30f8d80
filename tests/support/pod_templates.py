"""Tables of Pod templates and what comes of them."""

from typing import Any

import pytest
import yaml

from tests.support.sources import ROOT
from tests.unit.hansa_operator.objects import make_federation


def two_silos(spec: Any, default: Any = None) -> Any:
    """Environment maze with this Pod spec, and wordle with Secrets of its own."""
    private = {"bucket": "private", "credentialsSecret": {"name": "hansa-wordle"}}
    return make_federation(
        {
            "name": "maze",
            "world": "maze",
            "credentialsSecret": {"name": "hansa-maze"},
            "podTemplate": {"spec": spec},
        },
        {
            "name": "wordle",
            "world": "wordle",
            "credentialsSecret": {"name": "hansa-wordle"},
            "experienceStorage": {"s3": private},
        },
        storage={
            "s3": {"bucket": "bucket", "credentialsSecret": {"name": "hansa-s3"}},
            "sealingSecret": {"name": "hansa-sealing"},
        },
        podTemplate=default or {},
    )


def cases(file: str) -> list[Any]:
    """Rows of a table, one mapping each."""
    rows = yaml.safe_load((ROOT / "tests/unit/hansa_operator" / file).read_text())
    return [pytest.param(row, id=row["case"]) for row in rows]
