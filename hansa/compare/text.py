"""The table as text: columns for a terminal, and Markdown for docs, from the same data."""

from collections.abc import Collection, Sequence
from typing import Any

Data = dict[str, Any]
GAP = 2
"""Spaces between two columns in a terminal."""


def heads(data: Data) -> list[str]:
    """Titles of the columns; what decides comes first, for a narrow screen shows little more."""
    against = [f"against {data['reference']}"] if data["reference"] else []
    greedy = ["greedy"] if has_greedy(data) else []
    return [
        "method",
        "macro",
        *greedy,
        *against,
        *data["environments"],
        "micro",
        "MB",
        "time",
        "seeds",
    ]


def format_cells(data: Data, line: Data) -> list[str]:
    """One line's cells, in per cent."""
    against = [format_points_interval(line["against"])] if data["reference"] else []
    share = line.get("greedy")
    greedy = ["" if share is None else f"{100 * share:.1f}"] if has_greedy(data) else []
    own = bool(line["shares"])
    return [
        line["name"],
        format_percent_interval(line["macro"]),
        *greedy,
        *against,
        *(format_percent_interval(line["environments"][name]) for name in data["environments"]),
        format_percent_interval(line["micro"]),
        f"{line['megabytes']:.2f}" if own else "",
        format_span(line["seconds"]) if own else "",
        str(line["seeds"]),
    ]


def has_greedy(data: Data) -> bool:
    """Whether any line says what is solved greedily."""
    return any(line.get("greedy") is not None for line in data["table"])


def format_percent_interval(figure: Sequence[float]) -> str:
    """A rate with its limits: 61.3 (58 to 65)."""
    low, value, high = (100 * part for part in figure)
    return f"{value:.1f} ({low:.0f} to {high:.0f})"


def format_points_interval(figure: Sequence[float] | None) -> str:
    """A difference with its limits, in percentage points: +3.1 (-1 to +7)."""
    if figure is None:
        return ""
    low, value, high = (100 * part for part in figure)
    return f"{value:+.1f} ({low:+.0f} to {high:+.0f})"


def format_span(seconds: float) -> str:
    """Seconds as 43 s, 5.2 min or 1.4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def split_columns(rows: Sequence[Sequence[str]], width: int) -> list[list[list[str]]]:
    """Rows cut into blocks that fit a width, each with the first column again; none is lost."""
    widths = [max(len(row[column]) for row in rows) + GAP for column in range(len(rows[0]))]
    groups: list[list[int]] = [[]]
    for column in range(1, len(widths)):
        used = widths[0] + sum(widths[other] for other in groups[-1])
        if groups[-1] and used + widths[column] > width:
            groups.append([])
        groups[-1].append(column)
    return [[[row[0], *(row[column] for column in group)] for row in rows] for group in groups]


def name_missing(runs: Sequence[str], begun: Collection[str]) -> str:
    """Runs without a result; a method of which no run is over is named once, not seed by seed."""
    methods = [run.rpartition("-")[0] for run in runs]
    named = (run if method in begun else method for run, method in zip(runs, methods, strict=True))
    return ", ".join(dict.fromkeys(named))


def render_markdown(data: Data) -> str:
    """The table for a page of the docs; a run that is missing is named below it."""
    rows = [
        heads(data),
        ["---"] * len(heads(data)),
        *(format_cells(data, e) for e in data["table"]),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if data["missing"]:
        begun = {run["method"] for run in data["runs"]}
        lines += ["", f"Missing: {name_missing(data['missing'], begun)}."]
    return "\n".join(lines) + "\n"
