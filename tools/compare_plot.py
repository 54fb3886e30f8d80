"""Success of each method of a comparison with its interval, as one SVG for docs/results.md.

python -m tools.compare_plot docs/results/compare-tiny.json > docs/images/compare-tiny.svg
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Any

from tools.pages import comparisons

LEFT, RIGHT, ROW, TOP = 190, 60, 24, 34
WIDTH = 760
OWN, SHARED, GRID = "#8d6a9f", "#0b6e4f", "#ddd"
TICKS = range(0, 101, 25)


def drawn(data: dict[str, Any]) -> str:
    """All lines of the table, the macro average of each as a dot on its interval."""
    lines = data["table"]
    bottom = TOP + ROW * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 26}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="20" font-weight="bold">{escape(data["title"])}: success, %</text>',
    ]
    for tick in TICKS:
        x = place(tick / 100)
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{GRID}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick}</text>')
    for index, line in enumerate(lines):
        parts += row(line, TOP + ROW * (index + 0.5))
    return "\n".join([*parts, "</svg>"]) + "\n"


def row(line: dict[str, Any], y: float) -> list[str]:
    """One method; what silos keep for themselves has another colour than what they share."""
    low, value, high = line["macro"]
    colour = SHARED if line["shares"] in ("adapters", "trajectories") else OWN
    return [
        f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(line["name"])}</text>',
        f'<path d="M{place(low):.1f} {y:.1f}H{place(high):.1f}" stroke="{colour}" '
        'stroke-width="3" stroke-opacity="0.5"/>',
        f'<circle cx="{place(value):.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>',
        f'<text x="{place(high) + 8:.1f}" y="{y + 4:.1f}">{100 * value:.1f}</text>',
    ]


def place(ratio: float) -> float:
    """Where a rate lies."""
    return LEFT + ratio * (WIDTH - LEFT - RIGHT)


if __name__ == "__main__":
    sys.stdout.write(drawn(comparisons.to_data(comparisons.read(Path(sys.argv[1])))))
