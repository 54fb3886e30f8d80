"""One name for one thing: the glossary is whole, and code and texts use the field's words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import sources
from tests.support.sources import ROOT

TEXTS = sorted(
    file
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "docs/*.j2",
        "examples/**/*.md",
        "plugins/**/*.md",
        "charts/**/*",
    )
    for file in ROOT.glob(pattern)
    if file.is_file() and file.suffix in {".md", ".j2", ".yaml", ".txt", ".json", ".tpl"}
)
READ = [*sources.FILES, *sources.PLUGINS]
GLOSSARY = {
    *("federation", "silo", "environment", "world", "task", "kind", "episode", "trajectory"),
    *("experience", "round", "adapter", "update", "member", "strategy", "learner"),
    *("assignment", "report", "executor", "exchange"),
}
DIALECT = {
    # a name that says nothing: what to write instead
    "told": "assignment, report, spec, or what the thing is",
    "found": "what was found",
    "seen": "observation, or what the thing is",
    "heard": "observation, or what the thing is",
    "chances": "logprobs or probabilities",
    "luck": "seed or random numbers",
    "seat": "episode",
    "hall": "pool",
    "crew": "processes or GPUs",
}
PLAYED = ("found", "seen")
"""Names that stay within the worlds, where players see and find things."""
PLAIN = {
    r"\bstands? still\b": "is stalled",
    r"\bstood still\b": "was stalled",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bluck\b": "random seed, or random numbers",
    r"\bso many at most\b": "at most N",
}


def sentences(file: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module, docstrings too, and its comments."""
    for node in sources.nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if "  # " in line or line.lstrip().startswith("# "):
            yield number, line


def names(file: Path) -> Iterator[tuple[int, str]]:
    """What a module calls its variables, arguments, functions and attributes."""
    for node in sources.nodes(file):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def test_the_glossary_has_every_word_once() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.split("## Glossary")[1].split("\n## ")[0]
    words = re.findall(r"^\| (\w+) \|", table, re.MULTILINE)
    assert sorted(words) == sorted(GLOSSARY | {"word"})


def test_the_readme_leads_to_the_glossary() -> None:
    assert "docs/architecture.md#glossary" in (ROOT / "README.md").read_text()


def test_nothing_is_named_by_a_private_word() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line} has {name}: write {DIALECT[name.strip('_').lower()]}"
        for file in READ
        for line, name in names(file)
        if name.strip("_").lower() in DIALECT
        and not (name.strip("_").lower() in PLAYED and "worlds" in str(file.relative_to(ROOT)))
    ]
    assert wrong == []


@pytest.mark.parametrize("pattern", PLAIN)
def test_code_and_documents_speak_plain_english(pattern: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line} has {match[0]!r}: write {PLAIN[pattern]}"
        for file in READ
        for line, text in sentences(file)
        if (match := re.search(pattern, text))
    ] + [
        f"{file.relative_to(ROOT)}:{number} has {match[0]!r}: write {PLAIN[pattern]}"
        for file in TEXTS
        for number, text in enumerate(file.read_text().splitlines(), start=1)
        if (match := re.search(pattern, text))
    ]
    assert wrong == []


def test_a_class_name_stands_once() -> None:
    homes: dict[str, list[str]] = {}
    for file in sources.FILES:
        for node in sources.nodes(file):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
