"""The rooms of `hansa/`: each imports only the rooms before it, and nothing imports in a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from tests.support.sources import FOLDERS, ROOT, nodes

ROOMS = (
    *("version", "core", "validation", "crypto", "api", "adapter", "store", "manifests", "plan"),
    *("runtime", "members", "kubernetes", "tracking", "report", "local", "publish", "compare"),
    *("sdk", "cli"),
)
"""Lowest first. Imports inside functions and for type checkers count like any other."""
PLAN = {"core", "validation", "api", "plan"}
"""All that the plan may know: it has no I/O, no clock and no randomness."""
TOP = {"__init__.py", "sdk.py", "version.py"}


def modules() -> dict[str, Path]:
    """Every module of `hansa` by its dotted name."""
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (ROOT / "hansa").rglob("*.py")
    }


MODULES = modules()


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Modules of `hansa` that a module imports, wherever in its text."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in MODULES:
                    yield node.lineno, name
                elif node.module in MODULES:
                    yield node.lineno, node.module


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_a_room_imports_only_the_rooms_before_it() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for module, file in MODULES.items()
        for line, name in imported(file)
        if room(module) and room(name) and ROOMS.index(room(name)) > ROOMS.index(room(module))
    ]
    assert wrong == []


def test_every_folder_is_a_room_of_the_list() -> None:
    folders = {path.name for path in (ROOT / "hansa").iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == set(ROOMS) - {"version", "sdk"}


def test_the_plan_imports_the_contract_alone() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for module, file in MODULES.items()
        for line, name in imported(file)
        if room(module) == "plan" and room(name) not in PLAN
    ]
    assert wrong == []


def test_the_top_of_hansa_has_three_files() -> None:
    assert {file.name for file in (ROOT / "hansa").glob("*.py")} == TOP


def test_no_file_stands_beside_a_folder_of_its_name() -> None:
    wrong = [
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        if file.with_suffix("").is_dir()
    ]
    assert wrong == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    """`hansa/__init__.py` is left out: its functions import what they need when they are called."""
    arrows = {
        module: {name for _, name in imported(file)} - {module}
        for module, file in MODULES.items()
        if module != "hansa"
    }
    TopologicalSorter(arrows).prepare()  # CycleError names the modules of one circle


def test_nothing_is_imported_from_a_test() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for node in nodes(file)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith("tests.")
        and node.module.rpartition(".")[2].startswith("test_")
    ]
    assert wrong == []
