"""docs/results.md, demo.md and privacy.md, made of their templates (.j2): words are written there,
figures and verdicts come from results.

    python -m tools.pages.comparisons examples/05-compare/tiny.yaml runs/tiny compare-tiny
    python -m tools.results_page

Nobody types a figure, so none can be another run's. Wordings stay the author's: read them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean

from jinja2 import Environment, StrictUndefined

from hansa.compare import statistics, table, text
from hansa.compare.results import RunResult
from hansa.compare.statistics import Sample
from hansa.core.stats import Interval
from tools.pages import comparisons, evolve_tables, kept, privacy_tables, private_silo

DOCS = Path(__file__).parents[1] / "docs"
PAGES = DOCS / "results.md", DOCS / "demo.md", DOCS / "privacy.md"


class Figures:
    """The results of one comparison, as a text asks for them: in per cent and points."""

    def __init__(self, name: str) -> None:
        self._table = comparisons.read(kept.RESULTS / f"{name}.json")
        self._results = self._table.results
        self._data = comparisons.to_data(self._table)
        self._lines = {line["name"]: line for line in self._data["table"]}

    # -- whole ------------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        """The table and where its runs were made."""
        machines = sorted({run.machine for run in self._results})
        models = sorted({row.model for run in self._results for row in run.rows})
        seeds = sorted({run.seed for run in self._results})
        origin = f"{', '.join(models)}; seeds {', '.join(map(str, seeds))}; {', '.join(machines)}."
        return f"{text.render_markdown(self._data)}\n{origin}"

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return len(self._results)

    def minutes(self) -> str:
        """How long all runs take, one after another."""
        return f"{sum(run.wall_seconds for run in self._results) / 60:.0f}"

    # -- success ----------------------------------------------------------------------------------

    def success(self, *lines: str, world: str = "macro", places: int = 0) -> str:
        """Success after the last round, of one line of the table, or from the least to the most."""
        return span((100 * self._mean(line, world) for line in lines), places)

    def before(self, method: str) -> str:
        """Success of the base, on the tasks of that method's runs."""
        return f"{100 * self._at(method)[0]:.0f}"

    def in_seeds(self, method: str) -> str:
        """Success by seed: 74.2, 73.3, 69.1."""
        samples = self._samples[method].values()
        means = (fmean(rate.success for rate in sample.values()) for sample in samples)
        return ", ".join(f"{100 * mean:.1f}" for mean in means)

    def mean_success(self, *places: tuple[str, str]) -> str:
        """The mean of several lines, each in a world of its own."""
        return f"{100 * fmean(self._mean(line, world) for line, world in places):.0f}"

    def points(
        self, *lines: str, over: str = "", under: str = "", world: str = "macro", places: int = 0
    ) -> str:
        """How many points lines are over another one, or under it; the words must be right."""
        sign, other = (1, self._mean(over, world)) if over else (-1, self._mean(under, world))
        gains = [100 * sign * (self._mean(line, world) - other) for line in lines]
        assert min(gains) >= 0, f"{lines} are not {'over' if over else 'under'} {over or under}"
        return span(gains, places)

    def difference(self, method: str, other: str) -> str:
        """How much better a method is than another, with its limits: +4.7 (+1 to +8)."""
        return self._shown(method, other)

    def limits(self, method: str, other: str) -> str:
        """The limits of that difference alone: +1 to +8."""
        return self._shown(method, other).partition(" ")[2].strip("()")

    def verdict(self, method: str, other: str) -> str:
        """Two cells of a table: ahead | +4.7 (+1 to +8)."""
        word = evolve_tables.verdict(self._gain(method, other))
        return f"{word} | {self._shown(method, other)}"

    def gain(self, *methods: str, since: int) -> str:
        """Points between a round and the last one."""
        return span(100 * (self._at(m)[max(self._at(m))] - self._at(m)[since]) for m in methods)

    # -- work -------------------------------------------------------------------------------------

    def times_the_tokens(self, method: str, other: str) -> str:
        """How many times the tokens of another method it trained on."""
        return span(self._tokens(method, other))

    # -- where they come from ---------------------------------------------------------------------

    @cached_property
    def _samples(self) -> dict[str, dict[int, Sample]]:
        runs: dict[str, list[RunResult]] = {}
        for run in self._results:
            runs.setdefault(run.method, []).append(run)
        return {
            name: table.list_last_rates(mine, self._table.environments)
            for name, mine in runs.items()
        }

    def _gain(self, method: str, other: str) -> Interval:
        gain = statistics.estimate_difference(self._samples[method], self._samples[other])
        assert gain, f"{method} and {other} have no seed in common"
        return gain

    def _shown(self, method: str, other: str) -> str:
        gain = self._gain(method, other)
        return text.format_points_interval([gain.low, gain.value, gain.high])

    def _mean(self, line: str, world: str) -> float:
        shown = self._lines[line]
        return float((shown["macro"] if world == "macro" else shown["environments"][world])[1])

    def _at(self, method: str) -> dict[int, float]:
        return {round_: value for round_, _, value, _ in self._lines[method]["curve"]}

    def _tokens(self, method: str, other: str) -> list[float]:
        ours, theirs = (
            {run.seed: run.work.tokens for run in self._results if run.method == m}
            for m in (method, other)
        )
        return [ours[seed] / theirs[seed] for seed in ours]


def span(values: Iterable[float], places: int = 0) -> str:
    """One value, or the least and the greatest of several: 11 to 22."""
    shown = [f"{value:.{places}f}" for value in sorted(values)]
    return shown[0] if shown[0] == shown[-1] else f"{shown[0]} to {shown[-1]}"


def filled(template: str, folder: Path = kept.RESULTS) -> str:
    """A text with its figures; some are in a folder once they are measured."""
    engine = Environment(undefined=StrictUndefined, keep_trailing_newline=True)  # noqa: S701
    return engine.from_string(template).render(
        results=Figures,
        privacy=partial(privacy_tables.read, folder=folder),
        evolve=partial(evolve_tables.read, folder=folder),
        private_silo=private_silo.render_table,
    )


def template(page: Path) -> Path:
    """Where the words of a page are written."""
    return page.with_name(f"{page.name}.j2")


def made(page: Path) -> str:
    """A page as it should be."""
    own = template(page)
    note = f"<!-- made by tools/results_page.py of {own.name}: change that -->\n"
    return note + filled(own.read_text())


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(made(each))
