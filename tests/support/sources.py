"""The product's own modules as guard tests read them: each is parsed once."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("hansa", "worlds", "client_image", "server_image", "operator")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
PLUGINS = sorted((ROOT / "plugins").glob("*/hansa_*/**/*.py"))
"""Packages of our own that are no part of the product, and read as well."""


@cache
def tree(file: Path) -> ast.Module:
    """A module's syntax."""
    return ast.parse(file.read_text())


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All that a module's syntax is made of."""
    return tuple(ast.walk(tree(file)))
