"""Time and memory over the number of adapters, as one SVG from what compare.py wrote.

python bench/aggregate/plot.py docs/results/aggregate.json > docs/images/aggregate.svg
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, TOP = 430, 280, 62, 34
COLOURS = {
    "command": "#69a82f",
    "hansa": "#0b6e4f",
    "flower": "#d1495b",
    "nvflare": "#30638e",
    "peft": "#8d6a9f",
}
"""`command` is all of `hansa aggregate`, diagnostics included; `hansa` its merge alone."""
PANELS = (("seconds", "seconds"), ("peakMB", "peak memory, MB"))


def series(rows: Sequence[dict[str, Any]], field: str) -> dict[str, list[tuple[int, float]]]:
    """Points of each contender's mean."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        who, _, what = row["way"].partition(":")
        if what == "mean" and field in row:
            found.setdefault(who, []).append((row["count"], row[field]))
    return found


def panel(rows: Sequence[dict[str, Any]], field: str, title: str, x: int) -> str:
    """One chart with both axes from zero, so that a straight line means what it says."""
    lines = series(rows, field)
    most = max(count for points in lines.values() for count, _ in points)
    top = max(value for points in lines.values() for _, value in points)

    def place(count: float, value: float) -> tuple[float, float]:
        return x + LEFT + count / most * (WIDTH - LEFT - 70), TOP + (1 - value / top) * HEIGHT

    parts = [f'<text x="{x + LEFT}" y="20" font-weight="bold">{title}</text>']
    for share in (0, 0.5, 1):
        (left, y), (right, _) = place(0, share * top), place(most, 0)
        parts.append(f'<path d="M{left:.0f} {y:.0f}H{right:.0f}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{left - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{share * top:.4g}</text>'
        )
    for count in sorted({count for points in lines.values() for count, _ in points}):
        at, y = place(count, 0)
        parts.append(f'<text x="{at:.0f}" y="{y + 18:.0f}" text-anchor="middle">{count}</text>')
    for who, points in lines.items():
        drawn = [place(count, value) for count, value in points]
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in drawn)
        colour = COLOURS[who]
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in drawn
        ]
        px, py = drawn[-1]
        parts.append(f'<text x="{px + 7:.0f}" y="{py + 4:.0f}" fill="{colour}">{who}</text>')
    return "\n".join(parts)


def main() -> None:
    rows = json.loads(Path(sys.argv[1]).read_text())["rows"]
    size = f'width="{2 * WIDTH}" height="{HEIGHT + TOP + 40}"'
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    )
    print('<rect width="100%" height="100%" fill="white"/>')
    for index, (field, title) in enumerate(PANELS):
        print(panel(rows, field, f"{title}: mean of 80 MB adapters", index * WIDTH))
    print("</svg>")


if __name__ == "__main__":
    main()
