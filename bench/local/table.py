"""The tables of docs/demo.md, from the results that marks.py left.

python bench/local/table.py collect runs/marks > docs/results/demo.json
python bench/local/table.py print docs/results/demo.json
"""

import json
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

NAMES = {
    "fed-se": "the demo (server step 3)",
    "plain-mean": "server step 1, the paper's plain mean",
    "no-history": "no history: demonstrations and this round only",
    "no-filter": "no filter: failures are trained on too",
    "no-limit": "up to 60 steps a round, which is no limit",
    "wordle-by-secret": "wordle split by secret word",
}


def collect(folder: Path) -> dict[str, Any]:
    """All results in one document: variant, seed, world, decoding, successes and episodes."""
    rows = []
    for path in sorted(folder.glob("*-[0-9]*.json")):
        variant, _, seed = path.stem.rpartition("-")
        for world, played in json.loads(path.read_text())["worlds"].items():
            for adapter in ("base", "last"):
                for result in played[adapter]:
                    rows.append(
                        {
                            "variant": variant,
                            "seed": int(seed),
                            "world": world,
                            "adapter": adapter,
                            "temperature": result["temperature"],
                            "successes": result["successes"],
                            "episodes": result["episodes"],
                        }
                    )
    return {"rows": rows}


def macro(rows: list[dict[str, Any]], variant: str, adapter: str, greedy: bool) -> dict[int, float]:
    """Mean success over worlds, by seed."""
    seeds: dict[int, list[float]] = {}
    for row in rows:
        what = (row["variant"], row["adapter"], row["temperature"] == 0)
        if what == (variant, adapter, greedy):
            seeds.setdefault(row["seed"], []).append(row["successes"] / row["episodes"])
    return {seed: mean(values) for seed, values in sorted(seeds.items())}


def spread(values: list[float]) -> str:
    """Mean and standard deviation over seeds, in percent."""
    if len(values) == 1:
        return f"{values[0]:.1%}"
    return f"{mean(values):.1%} ± {stdev(values) * 100:.1f}"


def variants_table(rows: list[dict[str, Any]]) -> list[str]:
    """One line per variant."""
    lines = [
        "| variant | seeds | base | after 6 rounds | rise, by seed | greedy base | greedy after |",
        "|---|---|---|---|---|---|---|",
    ]
    for variant, name in NAMES.items():
        base = macro(rows, variant, "base", greedy=False)
        if not base:
            continue
        last = macro(rows, variant, "last", greedy=False)
        rises = ", ".join(f"{(last[seed] - base[seed]) * 100:+.1f}" for seed in base)
        cells = [
            name,
            str(len(base)),
            spread(list(base.values())),
            spread(list(last.values())),
            rises,
            spread(list(macro(rows, variant, "base", greedy=True).values())),
            spread(list(macro(rows, variant, "last", greedy=True).values())),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def worlds_table(rows: list[dict[str, Any]]) -> list[str]:
    """The demo's worlds, base and last adapter of each seed."""
    mine = [row for row in rows if row["variant"] == "fed-se"]
    seeds = sorted({row["seed"] for row in mine})
    heads = "".join(f" seed {seed} | seed {seed}, greedy |" for seed in seeds)
    lines = [f"| world |{heads}", "|---|" + "---|---|" * len(seeds)]
    for world in sorted({row["world"] for row in mine}):
        cells = []
        for seed in seeds:
            for greedy in (False, True):
                found = {
                    row["adapter"]: row["successes"] / row["episodes"]
                    for row in mine
                    if (row["world"], row["seed"]) == (world, seed)
                    and (row["temperature"] == 0) == greedy
                }
                cells.append(f"{found['base']:.1%} → {found['last']:.1%}")
        lines.append(f"| {world} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Collect or print."""
    verb, path = sys.argv[1], Path(sys.argv[2])
    if verb == "collect":
        rows = collect(path)["rows"]
        print('{"rows": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]}")
        return
    rows = json.loads(path.read_text())["rows"]
    print("\n".join([*variants_table(rows), "", *worlds_table(rows)]))


if __name__ == "__main__":
    main()
