"""The tables of docs/worlds.md, from the worlds themselves and the scores that were measured.

    hansa worlds babyai --score --by-group -o json > runs/babyai.json
    python -m tools.worlds_tables docs/worlds.md --levels runs/babyai.json    # without: as they are

Scores of the worlds are those that `hansa worlds` shows.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from hansa_worlds import listing
from hansa_worlds.babyai.levels import SOLVABLE
from tools.pages import kept

LEVELS = kept.RESULTS / "babyai-levels.json"
WORLDS = ("maze", "wordle", "textcraft", "babyai", "webshop")
SPLITS = ("train", "validation", "test")
PLAYERS = ("random", "legal", "greedy", "expert")


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def head(*titles: str) -> str:
    return row(*titles) + "|---" * len(titles) + "|\n"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}".replace("100.0%", "100%")


def scores() -> str:
    """One line per world: its tasks, its turns and how its players do."""
    table = head("world", *SPLITS, "turns", *PLAYERS)
    for name in WORLDS:
        description = listing.describe(name, {})
        tasks = [f"{description['tasks'][split]:,}" for split in SPLITS]
        scores = description["scores"] or {}
        done = [percent(scores.get(player, {}).get("success")) for player in PLAYERS]
        table += row(f"[{name}](#{name})", *tasks, str(description["maxTurns"]), *done)
    return table


def keep_levels(scored: Path) -> None:
    """Keep what the tables show of the scores that `hansa worlds` has written."""
    players = json.loads(scored.read_text())[0]["players"]
    lines = []
    for name, expert in sorted(players["expert"]["groups"].items()):
        _, number, title = name.split()
        own = {player: players[player]["groups"][name] for player in PLAYERS}
        if {each["episodes"] for each in own.values()} != {expert["episodes"]}:
            raise ValueError(f"{name}: got other numbers of episodes for other players")
        solved = {player: each["successes"] for player, each in own.items()}
        about = {"level": int(number), "name": title, "episodes": expert["episodes"]}
        lines.append({**about, **solved, "turns": expert["turns"]})
    kept.write(LEVELS, {"levels": lines})


def read_levels() -> list[dict[str, Any]]:
    """Solved episodes of each player, by level."""
    lines: list[dict[str, Any]] = json.loads(LEVELS.read_text())["levels"]
    return lines


def levels() -> str:
    """One line per level of BabyAI; those that 20 turns are enough for are marked."""
    table = head("level", "in 20 turns", *PLAYERS, "expert's turns")
    for line in read_levels():
        marked = "yes" if line["level"] in SOLVABLE else "no"
        shown = [percent(line[player] / line["episodes"]) for player in PLAYERS]
        table += row(f"{line['level']} {line['name']}", marked, *shown, f"{line['turns']:.1f}")
    return table


def solvable() -> str:
    """Which levels 20 turns are enough for, and how the expert does in all of these."""
    lines = read_levels()
    won, played = (
        sum(line[field] for line in lines if line["level"] in SOLVABLE)
        for field in ("expert", "episodes")
    )
    long = ", ".join(str(line["level"]) for line in lines if line["level"] not in SOLVABLE)
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--levels", type=Path, help="scores of BabyAI's levels to take over")
    given = parser.parse_args()
    if given.levels:
        keep_levels(given.levels)
    given.page.write_text(filled(given.page.read_text()))
