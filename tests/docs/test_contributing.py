"""CONTRIBUTING.md's ways to add a world, a tracker, a strategy and a learner work as written.

Each test takes the steps of one section, literally, in a copy of the tree: it writes the files and
lines that the text shows, where the text says, and runs the text's commands.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
_STEP = re.compile(r"^\d+\. ", flags=re.MULTILINE)
_BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"`([^`]+)` in\s+`([^`]+)`")
_ROW = re.compile(r"table of\s+`([^`]+)`")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the project's files, with the commands of its environment."""
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    commands = tmp_path / ".venv/bin"
    commands.mkdir(parents=True)
    for name, module in (("python", ""), ("hansa", " -m hansa.cli.main")):
        script = f'#!/bin/sh\nexec "{tmp_path}/tools/python"{module} "$@"\n'
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    return tmp_path


def steps(title: str) -> list[str]:
    """The numbered steps of a section."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert section, f"CONTRIBUTING.md has no section '{title}'"
    return _STEP.split(section[1])[1:]


def follow(tree: Path, title: str) -> None:
    """Take every step of a section."""
    taken = [
        take(tree, step.partition("```")[0], language, textwrap.dedent(block))
        for step in steps(title)
        for language, block in _BLOCK.findall(step)
    ]
    assert {"file", "lines", "commands"} <= set(taken), f"'{title}' shows too little to follow it"


def take(tree: Path, words: str, language: str, code: str) -> str:
    """One block of a step: a file, lines of a table, a row of a page, or commands."""
    if language == "sh":
        run(tree, code)
        return "commands"
    if written := re.match(r"Write `([^`]+)`", words):
        assert not (tree / written[1]).exists()
        (tree / written[1]).write_text(code)
        return "file"
    if language == "md":
        insert(tree / _ROW.findall(words)[-1], "|---|", code)
        return "row"
    table, name = _TABLE.findall(words)[-1]
    insert(tree / name, table, code)
    return "lines"


def insert(file: Path, table: str, code: str) -> None:
    """Put lines below the one that opens a table; imports go above the file's first import."""
    lines = file.read_text().splitlines()
    imports = [line for line in code.splitlines() if line.startswith(("from ", "import "))]
    rest = [line for line in code.splitlines() if line and line not in imports]
    opens = [i for i, line in enumerate(lines) if re.match(rf"{re.escape(table)}(?!\w)", line)]
    assert opens, f"{file}: no line begins with {table}"
    indent = re.match(r" *", lines[opens[0] + 1])
    lines[opens[0] + 1 : opens[0] + 1] = [f"{indent[0] if indent else ''}{line}" for line in rest]
    first = next((i for i, line in enumerate(lines) if line.startswith(("from ", "import "))), 0)
    lines[first:first] = imports
    file.write_text("\n".join(lines) + "\n")


def run(tree: Path, commands: str) -> None:
    """Run commands as somebody who has set the tree up; each must succeed."""
    install(tree)
    path = os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tree,
        env={**os.environ, "HANSA_PYTHON": sys.executable, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ended.returncode == 0, f"{commands}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"


def install(tree: Path) -> None:
    """What `make setup` registers of pyproject.toml: the entry points, with the copy's first."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    folder = tree / "hansa-0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: hansa\nVersion: 0\n")
    groups = project["entry-points"].items()
    text = [f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in g.items()) for group, g in groups]
    (folder / "entry_points.txt").write_text("\n".join(text) + "\n")


PYTEST = "tools/python -m pytest -q -p no:cacheprovider"
FRESH = f"""
{PYTEST} tests/unit/hansa/manifests/test_crd.py tests/guard/test_size.py \\
    tests/unit/hansa/manifests/test_reference.py tests/unit/tools/test_reference_page.py
tools/python -m ruff check -q hansa worlds client_image server_image
"""
"""What must be true of the tree afterwards."""


def test_a_strategy_is_added_as_the_text_says(tree: Path) -> None:
    follow(tree, "Add an aggregation strategy")
    run(tree, FRESH)
    run(tree, f"{PYTEST} tests/contract/test_strategies.py -k registered")
    run(tree, f"{PYTEST} tests/docs/test_aggregation.py -k named")


def test_a_learner_is_added_as_the_text_says(tree: Path) -> None:
    follow(tree, "Add a learner")
    run(tree, FRESH)
    suite = "tests/unit/hansa_client/learners/test_learners.py"
    run(tree, f"{PYTEST} {suite} -k every_learner_of_the_spec")


def test_a_world_is_added_as_the_text_says(tree: Path) -> None:
    follow(tree, "Add a world")
    run(tree, ".venv/bin/hansa worlds sums -o json | grep '\"sums\"'")
    run(tree, "tools/python -m ruff check -q hansa worlds client_image")


def test_a_tracker_is_added_as_the_text_says(tree: Path) -> None:
    follow(tree, "Add a tracker")
    run(tree, "tools/python -m ruff check -q hansa tests/contract")
