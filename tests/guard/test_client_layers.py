"""The client's folders: few files at its top, no cycle, and no import from below to above."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support import sources

ROOT = sources.ROOT / "client_image"
PACKAGE = "hansa_client"
MOST_AT_THE_TOP = 20
LAYERS = (
    # lowest first; a name is a folder or a file
    ("privacy", "seeds", "trajectory"),
    ("models",),
    ("decoding",),
    ("endpoint", "rollout", "training"),
    ("experience",),
    ("learners",),
    ("agent",),
    ("evaluation", "figures", "send"),
    ("silo",),
    ("masks", "personalize", "probes"),
    ("round",),
    ("alone",),
    ("last",),
    ("serving",),
    ("proxy",),
    ("commands", "contract", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def module_name(file: Path) -> str:
    parts = list(file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for file in sorted((ROOT / PACKAGE).rglob("*.py"))}


def imported(file: Path) -> Iterator[str]:
    """Modules of the client that a module imports, late ones and those for types included."""
    for node in sources.nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else str(node.module)


@cache
def graph() -> dict[str, set[str]]:
    return {
        name: set(imported(file)) - {name} - {PACKAGE}
        for name, file in FILES.items()
        if name != PACKAGE
    }


def layer(module: str) -> str:
    return module.split(".")[1]


def test_every_file_has_a_layer() -> None:
    assert {layer(name) for name in graph()} == set(LEVEL)


def test_few_files_stand_at_the_top() -> None:
    top = [file for file in FILES.values() if file.parent == ROOT / PACKAGE]
    assert len(top) <= MOST_AT_THE_TOP


def test_no_modules_import_each_other() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_import_leads_from_a_lower_layer_to_a_higher_one() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in sorted(others)
        if LEVEL[layer(name)] < LEVEL[layer(other)]
    ]
    assert wrong == []
