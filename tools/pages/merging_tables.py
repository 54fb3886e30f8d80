"""The tables of bench/README.md on ways to merge, from what bench/merging/table.py has kept.

python -m tools.pages.merging_tables
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean

from tools.pages import kept
from tools.pages.privacy_tables import markdown

FILE = kept.RESULTS / "merging.json"
WORLDS = ("babyai", "maze", "textcraft", "webshop", "wordle")
MERGES = {"mean": "mean", "auto": "auto", "bounded": "auto, at most 4", "regmean": "regmean"}
"""By name in files and in the table; with five silos no step is longer than 4."""
STEPS = (3, 4, 5, 6)
"""Longest steps that were tried."""
Row = tuple[str, str, str]
"""Words, a run's name, and after which round, greedily where it says so."""
LAST = (("", "10"), (", greedy", "10 greedy"))


def _each_round(runs: dict[str, str]) -> list[Row]:
    rows = [(f"{name}, after round 5", run, "5") for name, run in runs.items()]
    last = ((f"{n}, after round 10{end}", run, at) for n, run in runs.items() for end, at in LAST)
    return [*rows, *last]


BOUNDED = _each_round({"auto": "auto-capped", "regmean": "regmean-capped"})
UNBOUNDED = _each_round({"auto": "auto", "regmean": "regmean"})
BESIDE: list[Row] = [
    ("regmean, the product", "product/regmean", "10"),
    ("each silo alone, at home", "alone-capped", "10"),
    ("one silo with all worlds, at most 1,280 steps", "pooled-capped", "10"),
    ("auto, demonstrations only", "fedit-auto-capped", "10"),
    ("regmean, demonstrations only", "fedit-regmean-capped", "10"),
]
MAZES: list[Row] = [
    ("auto", "related-auto", "10"),
    ("regmean", "related-regmean", "10"),
    ("each silo alone", "related-alone", "10"),
    ("regmean, demonstrations only", "related-fedit-regmean", "10"),
]
VALIDATED: list[Row] = [
    ("regmean, at most 256 steps", "validation/regmean-capped", "5"),
    ("regmean, learning rate 1e-3", "validation/regmean-half-rate", "5"),
    ("auto, at most 256 steps", "validation/auto-capped", "5"),
    ("auto, learning rate 1e-3", "validation/auto-half-rate", "5"),
]


@cache
def _runs() -> dict[str, dict[int, dict[str, float]]]:
    """Mean success over all worlds in per cent, by run, seed and round."""
    runs: dict[str, dict[int, dict[str, float]]] = {}
    for line in json.loads(FILE.read_text())["runs"]:
        success = {at: 100 * share for at, share in line["success"].items()}
        runs.setdefault(line["run"], {})[line["seed"]] = success
    return runs


@cache
def _worlds() -> dict[str, dict[str, dict[str, float]]]:
    """Success in each world in per cent, mean over seeds, by run and round."""
    lines = json.loads(FILE.read_text())["worlds"]
    return {
        line["run"]: {
            at: {name: 100 * share for name, share in zip(WORLDS, shares, strict=True)}
            for at, shares in line["success"].items()
        }
        for line in lines
    }


def by_seed(title: str, rows: Sequence[Row], more: str = "") -> str:
    """Success of each seed and their mean; `more`: greedily as well, or in each world."""
    seeds = list(_runs()[rows[0][1]])
    heads = {"": (), "greedy": ("greedy",), "worlds": WORLDS}[more]
    lines = []
    for words, run, at in rows:
        own = [figures[at] for figures in _runs()[run].values()]
        cells = [f"{each:.1f}" for each in (*own, fmean(own))]
        if more == "greedy":
            greedy = [figures.get(f"{at} greedy") for figures in _runs()[run].values()]
            known = [each for each in greedy if each is not None]
            cells.append(f"{fmean(known):.1f}" if known else "not played")
        elif more:
            cells += [f"{each:.0f}" for each in _worlds()[run][at].values()]
        lines.append([words, *cells])
    return markdown([title, *(f"seed {seed}" for seed in seeds), "mean", *heads], lines)


def scale() -> str:
    """Success by merge and number of silos: mean over seeds, each of them, and greedily."""

    def cell(merge: str, silos: int) -> str:
        runs = _runs().get(f"scale/{merge}-{silos}") or _runs()[f"scale/auto-{silos}"]
        own, greedy = ([each[at] for each in runs.values()] for at in ("4", "4 greedy"))
        seeds = ", ".join(f"{each:.1f}" for each in own)
        return f"{fmean(own):.1f} ({seeds}; greedy {fmean(greedy):.1f})"

    rows = [[str(silos), *(cell(merge, silos) for merge in MERGES)] for silos in (5, 10, 20, 40)]
    return markdown(["silos", *MERGES.values()], rows)


def longest_steps() -> str:
    """Success by the longest step, over two seeds; greedily in brackets."""

    def mean(silos: int, step: int, at: str) -> float:
        return fmean(e[at] for e in _runs()[f"validation/scale-most{step}-{silos}"].values())

    def row(words: str, counts: Sequence[int]) -> list[str]:
        cells = []
        for step in STEPS:
            both = (fmean(mean(silos, step, at) for silos in counts) for at in ("4", "4 greedy"))
            cells.append("{:.1f} ({:.1f})".format(*both))
        return [words, *cells]

    rows = [row(str(silos), [silos]) for silos in (10, 20, 40)]
    heads = ["silos", *(f"at most {step}" for step in STEPS)]
    return markdown(heads, [*rows, row("all", [10, 20, 40])])


TABLES: dict[str, Callable[[], str]] = {
    "bounded": lambda: by_seed("at most 256 steps a round", BOUNDED, "worlds"),
    "beside": lambda: by_seed("at most 256 steps a round", BESIDE, "greedy"),
    "mazes": lambda: by_seed("mazes", MAZES, "greedy"),
    "unbounded": lambda: by_seed("all steps", UNBOUNDED),
    "validated": lambda: by_seed("validation, after round 5", VALIDATED),
    "scale": scale,
    "longest steps": longest_steps,
}


if __name__ == "__main__":
    print("\n\n".join(make() for make in TABLES.values()))
