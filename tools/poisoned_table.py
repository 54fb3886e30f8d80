"""The tables of hostile clients in docs/aggregation.md, from the rows that were measured.

python tools/poisoned_table.py docs/aggregation.md
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import mean
from typing import Any

ROWS = Path(__file__).parents[1] / "docs/results/poisoned.json"
GATE_ROWS = ROWS.with_name("poisoned_gate.json")
ATTACKS = {
    "honest": "nobody is hostile",
    "flipped": "sign flipped",
    "long": "1,000 times as long",
    "noise": "noise, 10 times as long",
    "nan": "one NaN",
}
DEFENCES = {
    "mean": "`mean`",
    "gate": "`mean`, `maxNormRatio: 3`",
    "trimmed-mean": "`trimmed-mean`",
    "median": "`median`",
    "multi-krum": "`multi-krum`",
    "norm-balanced": "`norm-balanced`",
}


def shown(success: dict[str, float], hostile: list[str]) -> str:
    """Mean success over all environments, and over those whose clients are hostile."""
    if not success:
        return "the run fails"
    theirs = mean(success[name] for name in hostile)
    return f"{mean(success.values()):.0%} ({theirs:.0%})"


def cell(rows: list[dict[str, Any]], attack: str, defence: str) -> str:
    """What one federation came to; a star where an honest client's update was refused."""
    for row in rows:
        if (row["attack"], row["defence"]) == (attack, defence):
            refused = {key.partition(":")[0] for key in row["refused"]}
            hostile = set() if attack == "honest" else set(row["hostile"])
            return shown(row["last"], row["hostile"]) + ("*" if refused - hostile else "")
    return ""


def table(clients: int) -> str:
    """One line per defence, one column per attack."""
    document = json.loads(ROWS.read_text())
    rows = [row for row in document["rows"] if row["clients"] == clients]
    whole = len(ATTACKS) * len(DEFENCES)
    if len(rows) < whole:
        return f"Not measured yet: {len(rows)} of {whole} federations have run.\n"
    lines = [["", *ATTACKS.values()], ["---"] * (len(ATTACKS) + 1)]
    before = shown(document["base"][str(clients)], rows[0]["hostile"])
    lines.append(["before", before, *[""] * (len(ATTACKS) - 1)])
    for defence, name in DEFENCES.items():
        lines.append([name, *(cell(rows, attack, defence) for attack in ATTACKS)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


GATE = {
    ("honest", "default"): "nobody is hostile, `mean`",
    ("huge", "default"): "values of 1e30, `mean`",
    ("turned", "default"): "both signs flipped (−A, −B), `mean`",
    ("honest", "weighted"): "nobody is hostile, `weighted-mean`",
    ("claims", "weighted"): "sign flipped and 2⁵³ episodes claimed, `weighted-mean`",
}
"""What the third table tells, by attack and defence."""


def gate_table() -> str:
    """One line per attack: by a gate that lets it through, and by the gate as it is."""
    rows = json.loads(GATE_ROWS.read_text())["rows"]
    lines = [["", "before", "now", "refused now"], ["---"] * 4]
    for (attack, defence), name in GATE.items():
        old, new = (
            [row for row in rows if row["before"] is before and row["attack"] == attack]
            for before in (True, False)
        )
        refused = {key.partition(": ")[2] for row in new for key in row["refused"]}
        cells = [cell(part, attack, defence) for part in (old, new)]
        lines.append([name, *cells, ", ".join(f"`{reason}`" for reason in sorted(refused))])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


TABLES = {"five": lambda: table(5), "ten": lambda: table(10), "gate": gate_table}


def filled(page: str) -> str:
    """The page with its tables made again."""
    pattern = r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)"
    return re.sub(
        pattern, lambda found: found[1] + TABLES[found[2]]() + found[3], page, flags=re.DOTALL
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(filled(target.read_text()))
