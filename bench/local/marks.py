"""The demo's marks: base against last adapter on the same held-out tasks, for several seeds.

    python bench/local/marks.py --out runs/marks [--seeds 7 8 9] [--tasks 250]

For each seed and variant it runs the demo, then plays the base and the last adapter on the same
tasks of every world, sampled and greedily, through `hansa evaluate`, which loads the adapter with
PEFT and knows nothing of the run. Resumable: finished parts are kept as JSON in the folder.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import yaml

from hansa.processes.capacity import usable_cores

VARIANTS: dict[str, dict[str, dict[str, object]]] = {
    "fed-se": {},
    "no-filter": {"experience": {"filter": "none"}},
    "no-history": {"experience": {"history": False}},
    "plain-mean": {"aggregation": {"serverStep": 1.0}},
    "no-limit": {"training": {"maxSteps": 60}},
    "wordle-by-secret": {},
}
OPTIONS: dict[str, dict[str, dict[str, object]]] = {
    "wordle-by-secret": {"wordle": {"split": "secrets"}},
}
"""By variant and environment: options that differ from the demo's."""


def hansa(*arguments: str) -> str:
    """A command of this installation; its data."""
    command = [sys.executable, "-m", "hansa.cli.main", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def manifest(variant: str, seed: int) -> dict[str, Any]:
    """The demo's manifest with one thing changed."""
    document: dict[str, Any] = yaml.safe_load(hansa("demo", "--print"))
    document["metadata"]["name"] = f"{variant}-{seed}"
    document["spec"]["seed"] = seed
    for part, fields in VARIANTS[variant].items():
        document["spec"][part] = {**document["spec"].get(part, {}), **fields}
    for environment in document["spec"]["environments"]:
        environment["options"].update(OPTIONS.get(variant, {}).get(environment["name"], {}))
    return document


def run(folder: Path, variant: str, seed: int) -> dict[str, Any]:
    """One federation to its end; its history."""
    out = folder / f"{variant}-{seed}"
    file = folder / f"{variant}-{seed}.yaml"
    file.write_text(yaml.safe_dump(manifest(variant, seed)))
    hansa("run", str(file), "--out", str(out))
    status = json.loads(hansa("status", "--out", str(out), "-o", "json"))["status"]
    return {"history": [[e["round"], e["success"]] for e in status["history"]]}


def play(
    world: dict[str, Any], seed: int, tasks: int, adapter: Path | None
) -> list[dict[str, Any]]:
    """One world's held-out tasks, sampled and greedily."""
    command = ["evaluate", "--world", world["world"], "--greedy", "-o", "json"]
    command += ["--options", json.dumps(world.get("options", {}))]
    command += ["--tasks", str(tasks), "--seed", str(seed)]
    command += ["--adapter", str(adapter)] if adapter else []
    results: list[dict[str, Any]] = json.loads(hansa(*command))["results"]
    return results


class Plays:
    """Plays side by side; the base's are the same for all variants that share a world's options."""

    def __init__(self, tasks: int, pool: ThreadPoolExecutor) -> None:
        self._tasks, self._pool = tasks, pool
        self._base: dict[str, Future[list[dict[str, Any]]]] = {}

    def base(self, world: dict[str, Any], seed: int) -> Future[list[dict[str, Any]]]:
        """The base's play, begun when it is first asked for."""
        key = json.dumps([world, seed])
        if key not in self._base:
            self._base[key] = self._pool.submit(play, world, seed, self._tasks, None)
        return self._base[key]

    def adapted(
        self, world: dict[str, Any], seed: int, adapter: Path
    ) -> Future[list[dict[str, Any]]]:
        """An adapter's play."""
        return self._pool.submit(play, world, seed, self._tasks, adapter)


def measure(folder: Path, variant: str, seed: int, plays: Plays) -> dict[str, Any]:
    """Run one federation and play its base and its last adapter on the same tasks."""
    done = folder / f"{variant}-{seed}.json"
    if done.exists():
        earlier: dict[str, Any] = json.loads(done.read_text())
        return earlier
    result = run(folder, variant, seed)
    adapter = folder / f"{variant}-{seed}" / "adapter"
    worlds = {e["name"]: e for e in manifest(variant, seed)["spec"]["environments"]}
    base = {name: plays.base(e, seed) for name, e in worlds.items()}
    last = {name: plays.adapted(e, seed, adapter) for name, e in worlds.items()}
    result["worlds"] = {
        name: {"base": base[name].result(), "last": last[name].result()} for name in worlds
    }
    done.write_text(json.dumps(result, indent=1))
    return result


def main() -> None:
    """Run what is missing and print a line per variant and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8, 9])
    parser.add_argument("--tasks", type=int, default=250)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--runs", type=int, default=1, help="federations side by side")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    asked = [(variant, seed) for variant in given.variants for seed in given.seeds]
    with (
        ThreadPoolExecutor(usable_cores()) as pool,
        ThreadPoolExecutor(given.runs) as runs,
    ):
        plays = Plays(given.tasks, pool)
        futures = {
            runs.submit(measure, given.out, variant, seed, plays): (variant, seed)
            for variant, seed in asked
        }
        for future in as_completed(futures):
            print(line(*futures[future], future.result()["worlds"]), flush=True)


def line(variant: str, seed: int, worlds: dict[str, Any]) -> str:
    """Macro success before and after, sampled and greedy, and each world's rise."""
    cells = []
    for index, decoding in enumerate(("sampled", "greedy")):
        before = sum(w["base"][index]["success"] for w in worlds.values()) / len(worlds)
        after = sum(w["last"][index]["success"] for w in worlds.values()) / len(worlds)
        cells.append(f"{decoding} {before:.1%} -> {after:.1%} ({(after - before) * 100:+.1f})")
    rises = [
        f"{name} {(w['last'][0]['success'] - w['base'][0]['success']) * 100:+.1f}"
        for name, w in sorted(worlds.items())
    ]
    return f"{variant} seed {seed}: {'; '.join(cells)}; {', '.join(rises)}"


if __name__ == "__main__":
    main()
