"""Manifests with one thing wrong each, and in which words they are refused."""

import copy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ABSENT = object()
"""In place of a value: the field is taken away."""
GOOD: dict[str, Any] = {
    "apiVersion": "hansa.dev/v1alpha1",
    "kind": "Federation",
    "metadata": {"name": "two-worlds"},
    "spec": {
        "rounds": 3,
        "storage": {"s3": {"endpoint": "http://localhost:9000", "bucket": "hansa"}},
        "environments": [
            {"name": "maze", "world": "maze"},
            {"name": "wordle", "world": "wordle"},
        ],
    },
}


class Bad(NamedTuple):
    """A field with a value that does not fit, and what is in the sentence of the refusal."""

    path: str
    value: Any
    said: list[str]
    door: str = ""
    """What is in the sentence of an apiserver that has the CRD; nothing where it cannot know."""

    def __str__(self) -> str:
        return f"{self.path}: {'nothing' if self.value is ABSENT else str(self.value)[:40]}"

    def manifest(self) -> dict[str, Any]:
        """The good one with this in it."""
        if self.path == "spec" and isinstance(self.value, dict):
            return {**GOOD, "spec": {**GOOD["spec"], **self.value}}
        return edited(self.path, self.value)


def edited(path: str, value: Any) -> dict[str, Any]:
    """A good manifest with another value of one field, or without it."""
    document = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    node: Any = document
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    if value is ABSENT:
        del node[last]
    else:
        node[int(last) if isinstance(node, list) else last] = value
    return document


def _rows() -> list[Bad]:
    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return [Bad(row["at"], row.get("is", ABSENT), row["said"], row.get("door", "")) for row in rows]


BAD = [
    *_rows(),
    Bad(
        "spec.environments",
        [{"name": f"e{number}", "world": "maze"} for number in range(101)],
        ["spec.environments: got 101 entries", "a list of 1 to 100 entries"],
        "spec.environments: Too many: 101: must have at most 100 items",
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
