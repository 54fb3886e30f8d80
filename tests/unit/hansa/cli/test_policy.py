"""`hansa policy` for a silo whose private store has keys of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import call

SHARED = {"bucket": "hansa", "prefix": "run", "endpoint": "https://store"}
PRIVATE = {"bucket": "hansa", "prefix": "mine", "endpoint": "https://store"}


def policy(
    capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, **private: Any
) -> set[str]:
    """Folders of the bucket that a policy opens."""
    silo = {
        "name": "maze",
        "world": "maze",
        "credentialsSecret": {"name": "hansa-maze"},
        "demonstrationsFrom": "s3://shown/maze.jsonl",
        "experienceStorage": {"s3": {**PRIVATE, **private}},
    }
    document = {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "fed"},
        "spec": {
            "model": {"source": "s3://models/base"},
            "storage": {"s3": {**SHARED, "credentialsSecret": {"name": "hansa-aggregator"}}},
            "environments": [silo],
        },
    }
    file = folder / "federation.yaml"
    file.write_text(yaml.safe_dump(document))
    code, out, _ = call(capsys, "policy", "maze", "-f", file, *arguments)
    assert code == 0
    statements = json.loads(out)["Statement"]
    written = [each for each in statements if "s3:PutObject" in each["Action"]]
    assert "hansa-privacy" not in str(written), "without spec.privacy the budget is only read"
    opened = {name for each in statements for name in each["Resource"] if "/" in name}
    return {name.removeprefix("arn:aws:s3:::") for name in opened}


def test_keys_of_the_exchange_open_nothing_of_a_private_store_that_has_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = {"credentialsSecret": {"name": "clinic"}}
    shared = policy(capsys, tmp_path, **own)
    private = policy(capsys, tmp_path, "--experience", **own)
    owned = {"hansa/mine/experience/maze/*", "hansa/hansa-privacy/maze/budget.json"}
    assert private == {*owned, "shown/maze.jsonl"}
    assert not shared & private
    assert {"hansa/run/updates/maze/*", "models/base/*"} <= shared


@pytest.mark.parametrize("private", [{}, {"credentialsSecret": {"name": "hansa-maze"}}])
def test_one_identity_opens_both_places_of_a_store(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, private: dict[str, Any]
) -> None:
    shared = policy(capsys, tmp_path, **private)
    assert {"hansa/mine/experience/maze/*", "shown/maze.jsonl", "models/base/*"} <= shared
