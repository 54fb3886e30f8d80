"""The tables of docs/compare.md and docs/results.md, from the methods and from committed results.

    cp runs/demo-compare/compare.json docs/results/compare-tiny.json
    python tools/compare_tables.py docs/compare.md docs/results.md

A table `<!-- table: NAME -->` of docs/results.md is that of docs/results/NAME.json.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from hansa.compare import text
from hansa.compare.methods import METHODS

RESULTS = Path(__file__).parents[1] / "docs/results"


def methods() -> str:
    """One line per known method."""
    return "".join(f"| `{name}` | {method.about} |\n" for name, method in METHODS.items())


def results(name: str) -> str:
    """A comparison's table and what it cost; one that is missing is named."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return "Not run yet.\n"
    data = json.loads(path.read_text())
    machines = sorted({run["machine"] for run in data["runs"]})
    models = sorted({row["model"] for row in data["rows"]})
    seeds = sorted({run["seed"] for run in data["runs"]})
    told = f"{', '.join(models)}; seeds {', '.join(map(str, seeds))}; {', '.join(machines)}."
    return f"{text.markdown(data)}\n{told}\n"


def filled(page: str) -> str:
    """The page with its tables made again."""
    pattern = r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)"

    def made(found: re.Match[str]) -> str:
        table = methods() if found[2] == "methods" else results(found[2])
        return found[1] + table + found[3]

    return re.sub(pattern, made, page, flags=re.DOTALL)


if __name__ == "__main__":
    for target in map(Path, sys.argv[1:]):
        target.write_text(filled(target.read_text()))
