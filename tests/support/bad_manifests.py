"""Manifests with one thing wrong each, where they are refused and in which words."""

import copy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ABSENT = object()
"""In place of a value: the field is taken away."""
KEY = "ed25519:" + "A" * 43
STORAGE = {"s3": {"endpoint": "http://localhost:9000", "bucket": "hansa"}}


def _write_federation(**spec: Any) -> dict[str, Any]:
    """A good federation with this spec."""
    return {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": "two-worlds"},
        "spec": {"storage": STORAGE, **spec},
    }


def _write_silo(name: str, **fields: Any) -> dict[str, Any]:
    """An environment with a private store."""
    private = {"s3": {"bucket": f"{name}-own"}}
    return {"name": name, "world": "maze", "experienceStorage": private, **fields}


GOOD = _write_federation(
    rounds=3,
    environments=[{"name": "maze", "world": "maze"}, {"name": "wordle", "world": "wordle"}],
)
GOODS: dict[str, dict[str, Any]] = {
    "two worlds": GOOD,
    "private": _write_federation(
        rounds=2,
        privacy={"epsilon": 8.0, "delta": 1e-4},
        training={"maxSteps": 40},
        environments=[_write_silo("maze")],
    ),
    "masked": _write_federation(
        aggregation={"secure": {}},
        environments=[_write_silo(name, maskingKey=f"x25519:{name * 43}") for name in "abc"],
    ),
    "sealed": _write_federation(
        aggregation={"sealTo": "x25519:" + "A" * 43}, environments=[_write_silo("maze")]
    ),
    "member": {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "FederationMember",
        "metadata": {"name": "clinic"},
        "spec": {
            "federation": {
                "name": "five",
                "run": "a" * 64,
                "environment": "clinic",
                "publicKeys": [KEY],
            },
            "storage": {"s3": {"bucket": "shared", "credentialsSecret": {"name": "clinic"}}},
            "signingSecret": {"name": "clinic-signing"},
            "publicKeys": [KEY],
            "world": "maze",
            "experienceStorage": {"s3": {"bucket": "own"}},
            "agreed": {
                "seed": 7,
                "rounds": 3,
                "model": {"source": "builtin:tiny", "sha256": "b" * 64},
                "adapter": {"rank": 8, "shapes": "d" * 64},
                "settings": {},
            },
        },
    },
}
"""What a row begins with: a manifest that everything takes."""


class Bad(NamedTuple):
    """A field with a value that does not fit, and what is in the sentence of the refusal."""

    path: str
    value: Any
    said: list[str]
    """What a program says that reads it; the sentence begins with the first part."""
    door: str = ""
    """What is in the sentence of an apiserver that has the CRD; nothing where it cannot know."""
    good: str = "two worlds"
    """The manifest that is changed."""
    case: str = ""
    """What is wrong, where path and value do not show it."""
    only_on_a_cluster: bool = False
    """A machine takes it: `said` is what the operator says, and `hansa validate --cluster`."""
    operator: str = ""
    """How a cluster's operator is asked, too: with the CRD (`strict`) or without (`loose`)."""

    def __str__(self) -> str:
        shown = "nothing" if self.value is ABSENT else str(self.value)[:60]
        return self.case or f"{self.good}: {self.path}: {shown}"

    @property
    def kind(self) -> str:
        """What kind of object it is."""
        return str(GOODS[self.good]["kind"])

    def manifest(self) -> dict[str, Any]:
        """The good one with this in it."""
        good = GOODS[self.good]
        if self.path == "spec" and isinstance(self.value, dict):
            return {**good, "spec": {**copy.deepcopy(good["spec"]), **self.value}}
        return edited(self.path, self.value, good)


def edited(path: str, value: Any, good: dict[str, Any] = GOOD) -> dict[str, Any]:
    """A good manifest with another value of one field, or without it."""
    document = copy.deepcopy(good)
    *parents, last = path.split(".")
    node: Any = document
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    place: Any = int(last) if isinstance(node, list) else last
    if value is ABSENT:
        del node[place]
    else:
        node[place] = value
    return document


def _rows() -> list[Bad]:
    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return [Bad(row.pop("at"), row.pop("is", ABSENT), row.pop("said"), **row) for row in rows]


BAD = [
    *_rows(),
    Bad(
        "spec.environments",
        [{"name": f"e{number}", "world": "maze"} for number in range(101)],
        ["spec.environments: got 101 entries", "a list of 1 to 100 entries"],
        "spec.environments: Too many: 101: must have at most 100 items",
        operator="loose",
    ),
    Bad(
        "spec.probes",
        [{"name": f"p{number}", "texts": ["a"]} for number in range(9)],
        ["spec.probes: got 9 entries", "at most 8"],
        "spec.probes: Too many: 9: must have at most 8 items",
    ),
    Bad(
        "spec.probes",
        [{"name": "p", "texts": ["a" * 4000] * 5}],
        ["spec.probes: got 20", "expected at most 16000"],
    ),
    Bad(
        "spec.model.source",
        f"path:{Path(__file__).parent}",
        ["spec.model.source: got", "it has no config.json"],
    ),
]
