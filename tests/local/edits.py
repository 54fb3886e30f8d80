"""A good manifest, and edits of one field of it."""

from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
Edit = Callable[[Document], None]

GOOD: Document = {
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


def setter(path: str, value: Any) -> Edit:
    def edit(document: Document) -> None:
        *parents, last = path.split(".")
        node: Any = document
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        node[int(last) if isinstance(node, list) else last] = value

    return edit


def remover(path: str) -> Edit:
    def edit(document: Document) -> None:
        *parents, last = path.split(".")
        node: Any = document
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node[part]
        del node[last]

    return edit
