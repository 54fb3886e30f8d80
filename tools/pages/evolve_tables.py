"""Tables and verdicts of what ways to evolve bring, from what bench/merging/evolve.py wrote.

Whatever the figures are, the words follow from them: a way is ahead or behind where the 95 %
interval of its difference leaves out zero, else it is level.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hansa.compare import statistics, text
from hansa.compare.statistics import Rate, Sample
from hansa.intervals import Interval
from tools.pages.evolve_ways import BASE, LEARNERS, SETTINGS, WAYS, place, way_of
from tools.pages.privacy_tables import RESULTS, markdown

HOPED = 0.05
"""What ways were hoped to bring, as a share."""
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
        if self.interval.low > 0:
            return "ahead"
        return "behind" if self.interval.high < 0 else "level"

    @property
    def cell(self) -> str:
        """+4.7 (+1 to +8)."""
        return text.points([self.interval.low, self.interval.value, self.interval.high])

    def __str__(self) -> str:
        return f"{self.cell.replace(' ', ' points ', 1)}, *{way_of(self.way).words}*"


class Evolved:
    """All that was measured."""

    def __init__(self, document: Line) -> None:
        self.settings: list[Line] = document["settings"]
        self._names = [each["name"] for each in self.settings]
        self._lines: dict[tuple[str, str], Line] = {
            (line["setting"], line["way"]): line for line in document["table"]
        }
        self._gains: dict[tuple[str, str, str, str, bool], Gain] = {}  # drawing them takes seconds

    @cached_property
    def ways(self) -> list[str]:
        """All that were tried, in the order of tables; the usual one is the first."""
        return sorted({way for _, way in self._lines}, key=place)

    def title(self, setting: str) -> str:
        """What a setting is called, as a title."""
        return SETTINGS[setting][0].upper() + SETTINGS[setting][1:]

    # -- tables -----------------------------------------------------------------------------------

    @property
    def described(self) -> str:
        """What each way is, where it is from, and what plays as much without it."""
        rows = [
            [own.words, own.about, own.after, way_of(own.control).words if way != BASE else ""]
            for way, own in WAYS.items()
            if way in self.ways
        ]
        return markdown(["way", "what it changes", "after", "control"], rows)

    @property
    def overview(self) -> str:
        """Each way against the usual one, by setting."""
        rows = [
            [
                way_of(way).words,
                *(text.points(self._lines.get((s, way), {}).get("against")) for s in self._names),
            ]
            for way in self.ways[1:]
        ]
        return markdown(["way", *(SETTINGS[each] for each in self._names)], rows)

    def table(self, setting: str) -> str:
        """All figures of a setting."""
        lines = [self._lines[setting, way] for way in self.ways if (setting, way) in self._lines]
        worlds = list(lines[0]["worlds"])
        rows = [
            [
                way_of(line["way"]).words,
                text.percent(line["macro"]),
                f"{100 * line['greedy']:.1f}",
                text.points(line["against"]),
                control.cell if (control := self._over_control(setting, line["way"])) else "",
                *(text.percent(line["worlds"][world]["success"]) for world in worlds),
                *(_count(line[each]) for each in ("explored", "aided", "tokens", "steps")),
                str(len(line["seeds"])),
            ]
            for line in lines
        ]
        heads = ["way", "macro", "greedy", "against usual", "against its control", *worlds]
        return markdown([*heads, "episodes", "aided", "trained tokens", "steps", "seeds"], rows)

    @property
    def learners(self) -> str:
        """Success by learner and setting, in per cent."""
        rows = [
            [words, *(self._success(setting, way) for setting in self._names)]
            for way, words in LEARNERS.items()
            if way in self.ways
        ]
        return markdown(["learner", *(SETTINGS[each] for each in self._names)], rows)

    def _success(self, setting: str, way: str) -> str:
        line = self._lines.get((setting, way))
        return f"{100 * line['macro'][1]:.0f}" if line else ""

    # -- words ------------------------------------------------------------------------------------

    @property
    def verdicts(self) -> list[str]:
        """Lines for the top of the page."""
        lines = [self._best(), self._worst(), self._hope(), *map(self._best, self.hard)]
        return [f"{line}. [Evidence](#ways-to-evolve-better)." for line in lines]

    @property
    def hard(self) -> list[str]:
        """The worlds that are told of by themselves."""
        known = {world for line in self._lines.values() for world in line["worlds"]}
        return sorted(known & {"textcraft", "wordle"})

    def _best(self, world: str = "") -> str:
        gains = self.gains(world)
        ahead = [gain for gain in gains if gain.verdict == "ahead"]
        count = len({gain.way for gain in ahead})
        who = f"In {world} {_number(count)}"
        if not world:
            who = f"{_number(count).capitalize()} of {len(self.ways) - 1} other ways to evolve"
        head = f"**{who} {'are' if count > 1 else 'is'} ahead of the usual one**"
        return f"{head}: most {ahead[0]}" if ahead else f"{head}: at best {gains[0]}"

    def _worst(self) -> str:
        gains = self.gains()
        behind = [gain for gain in gains if gain.verdict == "behind"]
        count = len({gain.way for gain in behind})
        head = f"**{_number(count).capitalize()} {'are' if count > 1 else 'is'} behind it**"
        return f"{head}: most {behind[-1]}" if behind else f"{head}: at worst {gains[-1]}"

    def _hope(self) -> str:
        pairs = [gain for gain in self.gains() if "-" in gain.way]
        best = (pairs or self.gains())[0]
        missed = 100 * (HOPED - best.interval.value)
        end = f"{missed:.1f} too few" if missed > 0 else "reached"
        return f"**Five points were hoped for{' of two together' if pairs else ''}**: {best}, {end}"

    @property
    def summary(self) -> str:
        """What came of it, in a sentence."""
        gains = self.gains()
        ahead, behind = (_ways(gains, verdict) for verdict in ("ahead", "behind"))
        where = "in the one setting" if len(self.settings) == 1 else "in a setting or more"
        return (
            f"Of {len(self.ways) - 1} other ways to evolve {_number(ahead)} "
            f"{'are' if ahead > 1 else 'is'} ahead of the usual one {where}, "
            f"and {_number(behind)} behind it."
        )

    @property
    def chance(self) -> str:
        """How many comparisons there are, and what chance alone would do to them."""
        count = len(self.gains())
        return (
            f"{count} comparisons at 95 %: if all ways were level, "
            f"about {count * 0.025:.0f} would be ahead and as many behind by chance"
        )

    @property
    def findings(self) -> str:
        """A list: what is ahead and what else is known of it, what is behind, worlds apart."""
        ahead = [self._about(gain) for gain in self.gains() if gain.verdict == "ahead"]
        lines = ahead or ["**Ahead of the usual way**: none, in any setting"]
        lines.append(self._hope())
        lines.append(f"**Played greedily** {self._greedily()}")
        for setting in self._names:
            mine = [gain for gain in self.gains() if gain.setting == setting]
            words = [f"*{way_of(g.way).words}*" for g in mine if g.verdict == "behind"]
            if words:
                lines.append(f"**Behind the usual way**, {SETTINGS[setting]}: {', '.join(words)}")
        for world in self.hard:
            told = [self._in_world(world, s) for s in self._names if self.has(s, world)]
            lines.append(f"**{world.capitalize()} by itself**: {'; '.join(told)}")
        return "\n".join(f"- {line}." for line in lines)

    def _about(self, gain: Gain) -> str:
        line, base = (self._lines[gain.setting, way] for way in (gain.way, BASE))
        greedy = self.gain(gain.way, BASE, gain.setting, greedy=True)
        parts = [f"greedily {greedy.cell}, {greedy.verdict}"]
        if over := self._over_control(gain.setting, gain.way):
            words = way_of(way_of(gain.way).control).words
            parts.append(f"against its control, *{words}*, {over.cell}, {over.verdict}")
        played = (line["explored"] + line["aided"]) / (base["explored"] + base["aided"])
        trained = line["tokens"] / base["tokens"]
        parts.append(f"{played:.1f} times the episodes, {trained:.1f} times the trained tokens")
        return f"**Ahead of the usual way**, {SETTINGS[gain.setting]}: {gain}; {'; '.join(parts)}"

    def _greedily(self) -> str:
        gains = [self.gain(g.way, BASE, g.setting, greedy=True) for g in self.gains()]
        ahead = [f"{gain} ({SETTINGS[gain.setting]})" for gain in gains if gain.verdict == "ahead"]
        count = _ways(gains, "behind")
        return f"ahead: {'; '.join(ahead) or 'none'}; behind: {_number(count)}"

    def _in_world(self, world: str, setting: str) -> str:
        base = text.percent(self._lines[setting, BASE]["worlds"][world]["success"])
        best = next(gain for gain in self.gains(world) if gain.setting == setting)
        return f"{SETTINGS[setting]}, the usual way {base} %, at best {best}, {best.verdict}"

    def has(self, setting: str, world: str) -> bool:
        """Whether a setting has that world."""
        return world in self._lines[setting, BASE]["worlds"]

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
            interval = statistics.difference(ours, theirs)
            assert interval, f"{way} and {other} have no seed in common"
            self._gains[key] = Gain(way, setting, interval)
        return self._gains[key]

    def _over_control(self, setting: str, way: str) -> Gain | None:
        control = way_of(way).control
        other = self._lines.get((setting, control), {"seeds": []})
        if control == BASE or not set(other["seeds"]) & set(self._lines[setting, way]["seeds"]):
            return None
        return self.gain(way, control, setting)


def read(folder: Path = RESULTS) -> Evolved | None:
    """The figures, or nothing while nobody has measured them."""
    path = folder / "evolve.json"
    return Evolved(json.loads(path.read_text())) if path.exists() else None


def _samples(line: Line, world: str, greedy: bool) -> dict[int, Sample]:
    """Rates by seed, as bench/merging/evolve.py took them."""
    won = "greedyWon" if greedy else "won"
    return {
        seed: {
            name: Rate(own[won][at] / own["tasks"][at], own["tasks"][at], own["tasks"][at])
            for name, own in line["worlds"].items()
            if not world or name == world
        }
        for at, seed in enumerate(line["seeds"])
    }


def _ways(gains: Iterable[Gain], verdict: str) -> int:
    return len({gain.way for gain in gains if gain.verdict == verdict})


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
