"""The tables of what differential privacy costs and protects, from what bench/privacy measured.

Its scripts write `docs/results/privacy*.json` and print these tables; pages take them from the same
files. A page has no section of what was not measured yet: `read` then finds nothing.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.pages.kept import RESULTS

TINY = "builtin:tiny"
SMOLLM2 = "path:.cache/models/smollm2-135m"
_MODELS = {TINY: "The tiny model", SMOLLM2: "SmolLM2-135M-Instruct"}
_WHO = {"start": "before", "alone": "alone", "federated": "together"}
_TIMES = ("plain", "private", "plainWithoutGraphs", "privateWithoutGraphs")
"""Seconds of a step on a GPU, by name in the file."""
_RATIOS = ("times", "timesWithoutGraphs")
Line = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """One file's figures."""

    lines: list[Line]
    """Of its table."""
    table: str
    """As Markdown."""
    machine: str
    """Where it was measured."""
    more: Line
    """The whole document."""

    @property
    def seeds(self) -> str:
        """Of all its runs: 1, 2, 3."""
        return ", ".join(map(str, sorted({seed for each in self.lines for seed in each["seeds"]})))

    @property
    def has_start(self) -> bool:
        """Whether the tiny model was measured before any training, too."""
        return any(each["who"] == "start" and each["model"] == TINY for each in self.lines)

    @property
    def smollm2(self) -> str | None:
        """SmolLM2's name in the lines, where it was measured, too."""
        return next((each["model"] for each in self.lines if each["model"] == SMOLLM2), None)

    def line(self, **wanted: Any) -> Line:
        """The line with these figures."""
        found = [e for e in self.lines if all(e[name] == value for name, value in wanted.items())]
        assert len(found) == 1, f"{len(found)} lines have {wanted}"
        return found[0]

    def success(self, sigma: float, who: str, strategy: str = "mean", model: str = TINY) -> str:
        """In per cent over all worlds, with its limits: 58.3 (55 to 61)."""
        return _share(self.line(model=model, sigma=sigma, who=who, strategy=strategy)["macro"])

    def epsilon(self, sigma: float, who: str = "alone", model: str = TINY) -> str:
        """What a silo has given away of one task at this noise."""
        return f"{self.line(model=model, sigma=sigma, who=who, strategy='mean')['epsilon']:.1f}"


def read(name: str, folder: Path = RESULTS) -> Measured | None:
    """The figures of a file, or nothing while nobody has measured them."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    document = json.loads(path.read_text())
    lines = document[_TABLES[name][0]]
    return Measured(lines, _TABLES[name][1](lines), document["machine"], document)


def document(lines: Sequence[Line], results: Sequence[Line]) -> Line:
    """What a script writes: its table as data, and on what it was measured."""
    kinds = sorted({f"{run['device']}, torch {run['torch']}" for run in results})
    return {"machine": "; ".join(kinds), "table": list(lines)}


def gpu_document(measured: Line) -> Line:
    """What pages show of what bench/privacy/gpu.py measured."""
    return {
        "machine": measured["machine"],
        "trajectories": measured["check"][0]["trajectories"],
        "mixed": {name: measured["mixed"][1][name] for name in _TIMES[1::2]},
        "time": [{n: line[n] for n in ("length", *_TIMES, *_RATIOS)} for line in measured["time"]],
    }


def success(lines: Sequence[Line]) -> str:
    """Success by noise, one table for each model."""
    models = sorted({line["model"] for line in lines})
    tables = [_success([e for e in lines if e["model"] == model]) for model in models]
    if len(models) == 1:
        return tables[0]
    titled = zip((_MODELS.get(model, model) for model in models), tables, strict=True)
    return "\n\n".join(f"**{title}**\n\n{table}" for title, table in titled)


def _success(lines: Sequence[Line]) -> str:
    worlds = sorted({name for line in lines for name in line["worlds"]})
    rows = [
        [
            *_noise(line),
            line["strategy"] or "–",
            _WHO[line["who"]],
            _share(line["macro"]),
            *(_share(line["worlds"].get(name)) for name in worlds),
        ]
        for line in lines
    ]
    return markdown(["noise", "ε", "strategy", "silos", "all worlds", *worlds], rows)


def canary(lines: Sequence[Line]) -> str:
    """Ranks of the planted code in all runs, and how much likelier it became."""
    rows = [
        [
            *_noise(line),
            _adapter(line),
            str(line["runs"]),
            *(_ranks(line[name]) for name in ("likelihood", "growth")),
            f"{line['grown']:.1f}",
        ]
        for line in lines
    ]
    head = ["noise", "ε", "adapter", "runs", "rank by likelihood", "rank by growth", "nats gained"]
    return markdown(head, rows)


def membership(lines: Sequence[Line]) -> str:
    """AUC, and members found at one false alarm in a hundred."""
    rows = [
        [
            *_noise(line),
            _adapter(line),
            str(line["runs"]),
            str(line["tasks"]),
            "{:.3f} ({:.3f} to {:.3f})".format(*line["auc"]),
            "{:.1f} ({:.1f} to {:.1f})".format(*(100 * each for each in line["found"])),
        ]
        for line in lines
    ]
    head = ["noise", "ε", "adapter", "runs", "tasks", "AUC", "members found at 1 % of others, %"]
    return markdown(head, rows)


def gpu(lines: Sequence[Line]) -> str:
    """Milliseconds of a step."""
    rows = [
        [
            str(line["length"]),
            *(f"{1000 * line[name]:.0f}" for name in _TIMES),
            *(f"{line[name]:.1f}" for name in _RATIOS),
        ]
        for line in lines
    ]
    head = ["tokens", "plain, ms", "private, ms"]
    head += [f"{name} without CUDA graphs, ms" for name in ("plain", "private")]
    return markdown([*head, "times plain", "times plain, both without graphs"], rows)


_TABLES: dict[str, tuple[str, Callable[[Sequence[Line]], str]]] = {
    "privacy": ("table", success),
    "privacy-canary": ("table", canary),
    "privacy-membership": ("table", membership),
    "privacy-gpu": ("time", gpu),
}
"""By file: where its lines are, and what makes a table of them."""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _noise(line: Line) -> list[str]:
    spent = line["epsilon"]
    return [f"{line['sigma']:g}" if line["sigma"] else "none", f"{spent:.1f}" if spent else "–"]


def _adapter(line: Line) -> str:
    return "shared" if line["who"] == "shared" else "the silo's update"


def _share(three: Sequence[float] | None) -> str:
    if three is None:
        return "–"
    value, low, high = (100 * each for each in three)
    return f"{value:.1f} ({low:.0f} to {high:.0f})"


def _ranks(ranks: Sequence[int]) -> str:
    return f"median {statistics.median(ranks):g} ({', '.join(map(str, ranks))})"
