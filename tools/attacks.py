"""docs/attacks.md: every attack that a test tries, from the markers in the tests' syntax.

tools/python tools/attacks.py            writes the page
tools/python tools/attacks.py --check    only says whether it is stale, and ends with 1 if it is
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "attacks.md"
PARTIES = {
    "a silo": "Who has a silo's S3 keys, or runs its client.",
    "the coordinator": "Who runs the federation: orders rounds, merges updates, writes the log.",
    "a reader of the bucket": "Its owner, or who has keys that read it.",
    "a writer of the bucket": "Its owner, or a thief of somebody's S3 keys.",
    "the author of a Federation": "Who may write the object, in the cluster where silos' Jobs run.",
    "a thief of the operator's token": "Who acts on the cluster as the operator does.",
    "a Pod, a world or an endpoint": "What runs beside an agent, and what it leaves behind.",
    "a reader of what is published": "Who reads a hub, a registry or a tracker.",
    "another user of the machine": "On which `hansa run` or `hansa join` works.",
    "a caller of hansa serve": "Who reaches its port, also through its owner's browser.",
    "an honest party": "Controls: what must work, or the attacks above would show nothing.",
}
"""Who attacks, in the order of the page, with a sentence about them."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FIELDS = ("by", "does", "result")
HEAD = """<!-- made by tools/attacks.py from the tests' markers: change those, then run it -->
# Attacks, and the tests that try them

The tests in a row try its attack, and show what happens. [Security](security.md) says who can do
what, and [what stays open](security.md#what-hansa-does-not-protect-against).

`make test`, `make test-runs` and `make test-cluster` run these tests, `make test-all` also the
20,000 files of the fuzz test. A test names its attack by
`@pytest.mark.attack(by="...", does="...", result="...")`.
"""


class Attack(NamedTuple):
    """One marker of one test."""

    by: str
    does: str
    result: str
    test: str
    """As pytest takes it, from the repository's folder."""


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit code says whether it is fresh."""
    page = render_page(read_attacks(ROOT))
    if PAGE.exists() and PAGE.read_text() == page:
        return 0
    if "--check" in arguments:
        print(f"stale: docs/{PAGE.name}; run tools/python tools/attacks.py")
        return 1
    PAGE.write_text(page)
    print(f"wrote docs/{PAGE.name}")
    return 0


def read_attacks(root: Path) -> list[Attack]:
    """Every marker below tests/, by file and line; nothing is imported."""
    files = sorted((root / "tests").rglob("test_*.py"))
    marked = [file for file in files if "mark.attack" in file.read_text()]  # few are parsed
    return [each for file in marked for _, found in read_tests(file, root) for each in found]


def read_tests(file: Path, root: Path) -> Iterator[tuple[str, list[Attack]]]:
    """Every test function of a file, with its attacks."""
    name = file.relative_to(root).as_posix()
    for test, function in _find_tests(ast.parse(file.read_text()), name):
        yield test, [_parse_marker(mark, test) for mark in _find_markers(function)]


def _find_tests(parent: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef):
            yield from _find_tests(node, f"{name}::{node.name}")
        elif isinstance(node, FUNCTIONS) and node.name.startswith("test"):
            yield f"{name}::{node.name}", node


def _find_markers(function: ast.AST) -> Iterator[ast.Call]:
    for decorator in getattr(function, "decorator_list", []):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.attack":
            yield decorator


def _parse_marker(mark: ast.Call, test: str) -> Attack:
    given = {
        keyword.arg: " ".join(keyword.value.value.split())
        for keyword in mark.keywords
        if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    }
    if mark.args or tuple(given) != FIELDS:
        came = ", ".join(ast.unparse(each) for each in (*mark.args, *mark.keywords))
        raise ValueError(f"{test}: attack({came}), expected three texts: {', '.join(FIELDS)}")
    if given["by"] not in PARTIES:
        raise ValueError(f"{test}: by={given['by']!r}, expected one of {', '.join(PARTIES)}")
    return Attack(given["by"], given["does"], given["result"], test)


def render_page(attacks: list[Attack]) -> str:
    """The page: a table for each party that attacks, tests with the same texts in one row."""
    parts = [HEAD]
    for party, about in PARTIES.items():
        rows: dict[tuple[str, str], list[str]] = {}
        for attack in attacks:
            if attack.by == party:
                rows.setdefault((attack.does, attack.result), []).append(f"`{attack.test}`")
        if rows:
            parts += [f"## {party[0].upper()}{party[1:]}\n", f"{about}\n"]
            parts.append("| the attacker | what happens | tests |\n|---|---|---|")
            parts += [
                f"| {escape(does)} | {escape(result)} | {', '.join(tests)} |"
                for (does, result), tests in rows.items()
            ]
            parts[-1] += "\n"
    return "\n".join(parts)


def escape(text: str) -> str:
    """A text as a cell of a table shows it; what stands between backticks stays code."""
    pieces = re.split(r"(`[^`]*`)", text)
    pieces[::2] = [re.sub(r"([\\`*_<\[\]])", r"\\\1", plain) for plain in pieces[::2]]
    return "".join(pieces).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
