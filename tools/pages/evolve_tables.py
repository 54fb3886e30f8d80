"""Tables and verdicts of what ways to evolve bring, from what bench/merging/evolve.py wrote.

Whatever the figures are, the words follow from them: a way is ahead or behind where the 95 %
interval of its difference leaves out zero, else it is level.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hansa.compare import statistics, text
from hansa.compare.statistics import Rate, Sample, Summary
from hansa.core.stats import Interval
from tools.pages.evolve_ways import BASE, COMPARING, LEARNERS, SETTINGS, WAYS
from tools.pages.kept import RESULTS
from tools.pages.privacy_tables import markdown

HOPED = 0.05
"""What ways were hoped to bring, as a share."""
CHANCE = 0.025
"""Share of ways that are level and seem ahead."""
COUNTS = {
    "explored": "episodes",
    "aided": "tried again",
    "aidedWon": "of these won",
    "relabelled": "relabelled",
    "tokens": "trained tokens",
    "steps": "steps",
}
"""What runs did, by name in the file and on the page."""
TINY = "all of the tiny model"
"""What those settings are called together."""
_NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Line = dict[str, Any]


@dataclass(frozen=True)
class Gain:
    """How much better a way is than another, in a setting."""

    way: str
    setting: str
    interval: Interval

    @property
    def verdict(self) -> str:
        """Ahead, behind or level."""
        return verdict(self.interval)

    @property
    def cell(self) -> str:
        """+4.7 (+1 to +8)."""
        return text.format_points_interval(
            [self.interval.low, self.interval.value, self.interval.high]
        )

    def __str__(self) -> str:
        return f"{self.cell.replace(' ', ' points ', 1)}, *{WAYS[self.way].words}*"


def verdict(difference: Interval) -> str:
    """Ahead or behind where the interval leaves out zero, else level."""
    if difference.low > 0:
        return "ahead"
    return "behind" if difference.high < 0 else "level"


class Evolved:
    """All that was measured."""

    def __init__(self, document: Line) -> None:
        self.settings: list[Line] = document["settings"]
        self._names = [each["name"] for each in self.settings]
        tasks = {each["name"]: each["tasks"] for each in self.settings}
        self._lines: dict[tuple[str, str], Line] = {
            (line["setting"], line["way"]): {**line, "tasks": tasks[line["setting"]]}
            for line in document["table"]
        }
        self._gains: dict[tuple[str, str, str, str, bool], Gain] = {}  # drawing them takes seconds

    @cached_property
    def ways(self) -> list[str]:
        """All that were tried, in the order of tables; the usual one is the first."""
        known = {way for _, way in self._lines}
        return [way for way in WAYS if way in known]

    @cached_property
    def summaries(self) -> dict[tuple[str, str], Summary]:
        """Success with its limits, by setting and way."""
        return {key: statistics.summarize(_samples(line)) for key, line in self._lines.items()}

    @property
    def counts(self) -> dict[tuple[str, str], Line]:
        """What runs did and solved, by setting and way."""
        return self._lines

    def title(self, setting: str) -> str:
        """What a setting is called, as a title."""
        return SETTINGS[setting][0].upper() + SETTINGS[setting][1:]

    # -- tables -----------------------------------------------------------------------------------

    @property
    def overview(self) -> str:
        """What each way is, and how it does against the usual one, by setting."""
        rows = [
            [
                WAYS[way].words,
                WAYS[way].described,
                WAYS[WAYS[way].control].words if way != BASE else "",
                *(self._marked(setting, way) for setting in self._names),
                _bold(pooled) if way != BASE and (pooled := self.pooled(way)) else "",
            ]
            for way in self.ways
        ]
        settings = (SETTINGS[each] for each in self._names)
        return markdown(["way", "what it changes", "control", *settings, TINY], rows)

    def _marked(self, setting: str, way: str) -> str:
        """Points over the usual way, bold where they are not level."""
        is_there = way != BASE and (setting, way) in self._lines
        return _bold(self.gain(way, BASE, setting)) if is_there else ""

    def table(self, setting: str) -> str:
        """All figures of a setting."""
        lines = [self._lines[setting, way] for way in self.ways if (setting, way) in self._lines]
        worlds = list(lines[0]["won"])
        rows = [self._row(setting, line, worlds) for line in lines]
        heads = ["way", "macro", "greedy", "against usual", "against its control", *worlds]
        return markdown([*heads, *COUNTS.values(), "seeds"], rows)

    def _row(self, setting: str, line: Line, worlds: Sequence[str]) -> list[str]:
        summary, way = self.summaries[setting, line["way"]], line["way"]
        control = self._over_control(setting, way)
        return [
            WAYS[way].words,
            _percent(summary.macro),
            "" if summary.greedy is None else f"{100 * summary.greedy:.1f}",
            self._against(setting, way),
            control.cell if control else "",
            *(_percent(summary.environments[world]) for world in worlds),
            *(_count(line[each]) for each in COUNTS),
            str(len(line["seeds"])),
        ]

    def _against(self, setting: str, way: str) -> str:
        """Points over the usual way; nothing where it was not tried."""
        is_there = way != BASE and (setting, way) in self._lines
        return self.gain(way, BASE, setting).cell if is_there else ""

    @property
    def learners(self) -> str:
        """Success by learner, sampled and greedily, in per cent, where learners were compared."""
        own = [s for s in self._names if any((s, way) in self._lines for way in COMPARING)]
        rows = [
            [words, *(cell for setting in own for cell in self._success(setting, way))]
            for way, words in LEARNERS.items()
            if any((setting, way) in self._lines for setting in own)
        ]
        heads = (head for each in own for head in (SETTINGS[each], "greedily"))
        return markdown(["learner", *heads], rows)

    def _success(self, setting: str, way: str) -> list[str]:
        summary = self.summaries.get((setting, way))
        if summary is None or summary.greedy is None:
            return ["", ""]
        return [f"{100 * summary.macro.value:.0f}", f"{100 * summary.greedy:.0f}"]

    # -- words ------------------------------------------------------------------------------------

    @property
    def verdicts(self) -> list[str]:
        """Lines for the top of the page."""
        lines = [self._best(), self._worst(), self._hope()]
        return [f"{line}. [Evidence](#ways-to-evolve-better)." for line in lines]

    @property
    def hard(self) -> list[str]:
        """The worlds that have figures of their own in the text."""
        known = {world for line in self._lines.values() for world in line["won"]}
        return sorted(known & {"textcraft", "wordle"})

    def _best(self) -> str:
        gains = self.gains()
        ahead = [gain for gain in gains if gain.verdict == "ahead"]
        count, all_ = len({gain.way for gain in ahead}), len({gain.way for gain in gains})
        verb = "are" if count > 1 else "is"
        head = f"{_number(count).capitalize()} of {all_} other ways to evolve {verb} ahead"
        by_chance = 0 < len(ahead) <= max(1, round(CHANCE * len(gains)))
        head += ", no more than by chance" if by_chance else " of the usual one"
        return f"**{head}**: at best {gains[0]}"

    def _worst(self) -> str:
        gains = self.gains()
        behind = [gain for gain in gains if gain.verdict == "behind"]
        count = len({gain.way for gain in behind})
        head = f"**{_number(count).capitalize()} {'are' if count > 1 else 'is'} behind it**"
        return f"{head}: at worst {gains[-1]}"

    def _hope(self) -> str:
        pairs = [gain for gain in self.gains() if WAYS[gain.way].is_both]
        best = (pairs or self.gains())[0]
        sure = "bring" if best.interval.value >= HOPED else "do not bring"
        who = "Two ways together" if pairs else "Other ways"
        return f"**{who} {sure} the five points that were hoped for**: at best {best}"

    @property
    def summary(self) -> str:
        """What came of it, in a sentence."""
        ahead, behind = (_ways(self.gains(), verdict) for verdict in ("ahead", "behind"))
        verbs = ["are" if count > 1 else "is" for count in (ahead, behind)]
        of = f"{_number(ahead)} of {len(self.ways) - 1} other ways to evolve"
        return (
            f"In at least one setting {of} {verbs[0]} ahead of the usual one, "
            f"and {_number(behind)} {verbs[1]} behind it."
        )

    @property
    def chance(self) -> str:
        """How many comparisons there are, and what chance alone would do to them."""
        count = len(self.gains())
        return (
            f"{count} comparisons at 95 %: if all ways were level, "
            f"about {CHANCE * count:.0f} would be ahead and as many behind by chance"
        )

    @property
    def ahead(self) -> str:
        """What is ahead of the usual way, and what else is known of it."""
        rows = [self._about(gain) for gain in self.gains() if gain.verdict == "ahead"]
        heads = ["way", "setting", "over usual", "greedily", "over its control"]
        return markdown([*heads, "times the episodes", "times the tokens"], rows)

    def _about(self, gain: Gain) -> list[str]:
        line, base = (self._lines[gain.setting, way] for way in (gain.way, BASE))
        greedy, over = self._greedily(gain), self._over_control(gain.setting, gain.way)
        played = (line["explored"] + line["aided"]) / (base["explored"] + base["aided"])
        return [
            WAYS[gain.way].words,
            SETTINGS[gain.setting],
            gain.cell,
            greedy.cell if greedy else "",
            over.cell if over else "",
            f"{played:.1f}",
            f"{line['tokens'] / base['tokens']:.1f}",
        ]

    @property
    def greedily_behind(self) -> str:
        """Ways that are behind somewhere when played greedily; none may be ahead."""
        gains = [greedy for gain in self.gains() if (greedy := self._greedily(gain))]
        assert all(gain.verdict != "ahead" for gain in gains), "the page says that none is ahead"
        behind = dict.fromkeys(gain.way for gain in gains if gain.verdict == "behind")
        names = [f"*{WAYS[way].words}*" for way in behind]
        return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]

    def _greedily(self, gain: Gain) -> Gain | None:
        lines = (self._lines[gain.setting, way] for way in (gain.way, BASE))
        if any(line["greedyWon"] is None for line in lines):
            return None
        return self.gain(gain.way, BASE, gain.setting, greedy=True)

    @property
    def hard_worlds(self) -> str:
        """In textcraft and wordle, by setting: the usual way, and the best of the others."""
        rows = [
            self._in_world(world, setting)
            for world in self.hard
            for setting in self._names
            if self.has(setting, world)
        ]
        return markdown(["world", "setting", "usual, %", "best way", "points", "verdict"], rows)

    def _in_world(self, world: str, setting: str) -> list[str]:
        base = _percent(self.summaries[setting, BASE].environments[world])
        gains = [gain for gain in self.gains(world) if gain.setting == setting]
        best = next((gain for gain in gains if gain.verdict == "ahead"), gains[0])
        return [world, SETTINGS[setting], base, WAYS[best.way].words, best.cell, best.verdict]

    def has(self, setting: str, world: str) -> bool:
        """Whether a setting has that world."""
        return world in self._lines[setting, BASE]["won"]

    # -- differences ------------------------------------------------------------------------------

    def gains(self, world: str = "") -> list[Gain]:
        """Of all ways over the usual one, the largest first; over all worlds, or in one."""
        made = [
            self.gain(way, BASE, setting, world)
            for setting, way in self._lines
            if way != BASE and (not world or self.has(setting, world))
        ]
        return sorted(made, key=lambda gain: -gain.interval.value)

    def gain(
        self, way: str, other: str, setting: str, world: str = "", *, greedy: bool = False
    ) -> Gain:
        """How much better a way is than another."""
        key = way, other, setting, world, greedy
        if key not in self._gains:
            ours, theirs = (_samples(self._lines[setting, w], world, greedy) for w in (way, other))
            interval = statistics.estimate_difference(ours, theirs)
            assert interval, f"{way} and {other} have no seed in common"
            self._gains[key] = Gain(way, setting, interval)
        return self._gains[key]

    def pooled(self, way: str) -> Gain | None:
        """Over all settings of the tiny model, for a way that was tried in each of them."""
        tiny = [each["name"] for each in self.settings if each["model"] == "builtin:tiny"]
        if not tiny or any((setting, way) not in self._lines for setting in tiny):
            return None
        ours, theirs = (
            _joined({s: _samples(self._lines[s, w]) for s in tiny}) for w in (way, BASE)
        )
        interval = statistics.estimate_difference(ours, theirs)
        return Gain(way, TINY, interval) if interval else None

    def _over_control(self, setting: str, way: str) -> Gain | None:
        control = WAYS[way].control
        other = self._lines.get((setting, control), {"seeds": []})
        if control == BASE or not set(other["seeds"]) & set(self._lines[setting, way]["seeds"]):
            return None
        return self.gain(way, control, setting)


def read(folder: Path = RESULTS) -> Evolved | None:
    """The figures, or nothing while nobody has measured them."""
    path = folder / "evolve.json"
    return Evolved(json.loads(path.read_text())) if path.exists() else None


def _joined(settings: dict[str, dict[int, Sample]]) -> dict[int, Sample]:
    """Samples of several settings as if they were one, for the seeds that all have."""
    seeds = set.intersection(*(set(samples) for samples in settings.values()))
    return {
        seed: {
            f"{setting} {world}": rate
            for setting, samples in settings.items()
            for world, rate in samples[seed].items()
        }
        for seed in sorted(seeds)
    }


def _samples(line: Line, world: str = "", greedy: bool = False) -> dict[int, Sample]:
    """Rates by seed; those of greedy play instead of sampled ones, or beside them."""
    tasks, both = line["tasks"], (line["won"], line["greedyWon"] or {})
    won, other = reversed(both) if greedy else both
    return {
        seed: {
            name: Rate(own[at] / tasks, tasks, tasks, other[name][at] / tasks if other else None)
            for name, own in won.items()
            if not world or name == world
        }
        for at, seed in enumerate(line["seeds"])
    }


def _percent(interval: Interval) -> str:
    return text.format_percent_interval([interval.low, interval.value, interval.high])


def _ways(gains: Iterable[Gain], verdict: str) -> int:
    return len({gain.way for gain in gains if gain.verdict == verdict})


def _bold(gain: Gain) -> str:
    """A figure for a table, bold where it is ahead or behind."""
    return gain.cell if gain.verdict == "level" else f"**{gain.cell}**"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
