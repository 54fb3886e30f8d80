"""Files stay short enough to read in one go, functions on one screen, the product small."""

import ast

from tests.support import sources
from tests.support.sources import ROOT

FILE_LINES = 400
FUNCTION_LINES = 60
PRODUCT_LINES = 65_910
"""Of all packages. A feature pays for its lines with others: whoever raises this says why."""
READ = [*sources.FILES, *sources.PLUGINS]


def test_no_file_is_longer_than_400_lines() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in READ
        if (lines := len(file.read_text().splitlines())) > FILE_LINES
    }
    assert long == {}


def test_the_product_stays_within_its_lines() -> None:
    lines = sum(len(file.read_text().splitlines()) for file in sources.FILES)
    assert lines <= PRODUCT_LINES, f"got {lines:,} lines, expected at most {PRODUCT_LINES:,}"


def test_no_function_is_longer_than_60_lines() -> None:
    long = {
        f"{file.relative_to(ROOT)}:{node.name}": lines
        for file in READ
        for node in sources.nodes(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


def test_every_module_opens_with_a_sentence() -> None:
    silent = [
        str(file.relative_to(ROOT))
        for file in READ
        if not (ast.get_docstring(sources.tree(file)) or "")
        .split("\n\n")[0]
        .endswith((".", ":", "?"))
    ]
    assert silent == []
