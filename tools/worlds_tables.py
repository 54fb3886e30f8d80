"""The tables of docs/worlds.md, from the worlds themselves and the scores that were measured.

    hansa worlds babyai --score --by-group -o json > docs/results/babyai-levels.json
    python tools/worlds_tables.py docs/worlds.md

Scores of the worlds are those that `hansa worlds` shows.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from hansa_worlds import listing
from hansa_worlds.babyai.levels import SOLVABLE

ROOT = Path(__file__).parents[1]
LEVELS = ROOT / "docs/results/babyai-levels.json"
WORLDS = ("maze", "wordle", "textcraft", "babyai", "webshop")
SPLITS = ("train", "validation", "test")
PLAYERS = ("random", "legal", "greedy", "expert")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def head(*titles: str) -> str:
    return row(*titles) + "|---" * len(titles) + "|\n"


def percent(figures: dict[str, Any] | None) -> str:
    return f"{figures['success']:.1%}".replace("100.0%", "100%") if figures else ""


def scores() -> str:
    """One line per world: its tasks, its turns and how its players do."""
    table = head("world", *SPLITS, "turns", *PLAYERS)
    for name in WORLDS:
        told = listing.describe(name, {})
        tasks = [f"{told['tasks'][split]:,}" for split in SPLITS]
        done = [percent((told["scores"] or {}).get(player)) for player in PLAYERS]
        table += row(f"[{name}](#{name})", *tasks, str(told["maxTurns"]), *done)
    return table


def levels() -> str:
    """One line per level of BabyAI; those that 20 turns are enough for are marked."""
    table = head("level", "in 20 turns", *PLAYERS, "expert's turns")
    players = json.loads(LEVELS.read_text())[0]["players"]
    for name in sorted(players["expert"]["groups"]):
        number = int(name.split()[1])
        done = {player: players[player]["groups"][name] for player in PLAYERS}
        marked = "yes" if number in SOLVABLE else "no"
        shown = [percent(done[player]) for player in PLAYERS]
        table += row(
            f"{number} {name.split()[2]}", marked, *shown, f"{done['expert']['turns']:.1f}"
        )
    return table


def solvable() -> str:
    """Which levels 20 turns are enough for, and how the expert does in all of these."""
    groups = json.loads(LEVELS.read_text())[0]["players"]["expert"]["groups"]
    done = {int(name.split()[1]): figures for name, figures in groups.items()}
    won, played = (
        sum(done[level][field] for level in SOLVABLE) for field in ("successes", "episodes")
    )
    long = ", ".join(str(level) for level in sorted(done) if level not in SOLVABLE)
    return (
        f"Twenty turns are enough for {len(SOLVABLE)} of the levels: the expert succeeds in\n"
        f"{won / played:.1%} of their test tasks. The others ({long}) ask for several things to\n"
        "be carried or done in an order, and often take longer.\n"
    )


TABLES = {"scores": scores, "levels": levels, "solvable": solvable}


def filled(page: str) -> str:
    """The page with its tables made again."""
    pattern = r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)"
    return re.sub(
        pattern, lambda found: found[1] + TABLES[found[2]]() + found[3], page, flags=re.DOTALL
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(filled(target.read_text()))
