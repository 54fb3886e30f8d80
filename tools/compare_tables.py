"""The table of methods in docs/compare.md, from what the program knows of them.

python tools/compare_tables.py docs/compare.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hansa.compare.methods import METHODS


def methods() -> str:
    """One line per known method."""
    return "".join(f"| `{name}` | {method.about} |\n" for name, method in METHODS.items())


def filled(page: str) -> str:
    """The page with its table made again."""
    pattern = r"(<!-- table: methods -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda match: match[1] + methods() + match[2], page, flags=re.DOTALL)


if __name__ == "__main__":
    for target in map(Path, sys.argv[1:]):
        target.write_text(filled(target.read_text()))
