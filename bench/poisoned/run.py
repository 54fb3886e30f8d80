"""What hostile clients do to a federation, by attack and defence: real local runs.

    python bench/poisoned/run.py --out runs/poisoned --results docs/results/poisoned.json
    python tools/poisoned_table.py docs/aggregation.md

bench/README.md has the commands of the table "before and now": --before takes an aggregator whose
gate lets through what it did before.

One run per cell. Finished cells are kept in the folder: it can be stopped and started again.
What clients do in the first round depends on no defence: a cell finds it committed in its prefix,
as after a crash, and continues from there.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import yaml
from hostile import ENV_ATTACK, ENV_HOSTILE

import hansa_client
from hansa.api import bucket_keys
from hansa.api.bucket_documents import sha256
from hansa.api.status import Federation
from hansa.cli.demo import MANIFEST
from hansa.core.errors import NotFound, Precondition
from hansa.core.files import replace_file
from hansa.local import executor
from hansa.local.display import PlainDisplay
from hansa.local.loop import RunOptions, run
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.local.rundir import RunDir
from hansa.manifests.load import load
from tools.pages import kept

HERE = Path(__file__).parent
BASE = Path(hansa_client.__file__).parent / "models/builtin/tiny/model.safetensors"
NO_BOUND = 1e300
"""A ratio that nothing finite exceeds."""
SHOWN = ("clients", "attack", "defence", "before", "hostile", "last", "refused")
"""What the tables show of a cell."""
HONEST = "honest"
"""In place of an attack: everybody does as told."""
SIZES = {
    5: ["maze"],
    10: ["babyai-b", "maze-b", "wordle-b"],
}
"""Hostile environments by the number of all: one silo of each world, or two."""


def defences(clients: int) -> dict[str, dict[str, Any]]:
    """spec.aggregation of each defence, told how many are hostile."""
    hostile = len(SIZES[clients])
    return {
        "mean": {"strategy": "mean", "maxNormRatio": NO_BOUND},
        "gate": {"strategy": "mean", "maxNormRatio": 3.0},
        "trimmed-mean": {
            "strategy": "trimmed-mean",
            "options": {"trim": hostile / clients},
            "maxNormRatio": NO_BOUND,
        },
        "median": {"strategy": "median", "maxNormRatio": NO_BOUND},
        "multi-krum": {
            "strategy": "multi-krum",
            "options": {"faulty": hostile},
            "maxNormRatio": NO_BOUND,
        },
        "norm-balanced": {"strategy": "norm-balanced", "maxNormRatio": NO_BOUND},
        "default": {"strategy": "mean"},
        "weighted": {"strategy": "weighted-mean"},
    }


def environments(clients: int) -> list[dict[str, Any]]:
    """The demo's worlds, once or twice."""
    given = yaml.safe_load(MANIFEST.read_text())["spec"]["environments"]
    if clients == len(given):
        return list(given)
    return [{**e, "name": f"{e['name']}-{twin}"} for e in given for twin in "ab"]


def manifest(
    clients: int, defence: str, rounds: int, tasks: int, before: bool = False
) -> dict[str, Any]:
    """The demo's federation, smaller; the silos of a world share its tasks, steps and episodes."""
    document: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    spec = document["spec"]
    silos = clients // len(spec["environments"])
    document["metadata"]["name"] = "poisoned"
    spec["rounds"] = rounds
    spec["exploration"] |= {"tasksPerRound": 16 // silos}
    spec["training"] |= {"maxSteps": 16 // silos}
    spec["evaluation"] |= {"tasks": tasks // silos, "everyRounds": 1000}
    aggregation = {"serverStep": 3.0, "diagnostics": False, **defences(clients)[defence]}
    if before:
        aggregation["maxNormRatio"] = NO_BOUND
        if aggregation["strategy"] == "weighted-mean":
            aggregation["options"] = {"maxWeightRatio": NO_BOUND}
    spec["aggregation"] |= aggregation
    spec["participation"] |= {"minimumUpdates": clients - len(SIZES[clients]), "retries": 1}
    spec["environments"] = environments(clients)
    return document


def first_round(prefix: str, name: str) -> list[str]:
    """Keys that an environment has written when its first round is over."""
    shards = [bucket_keys.experience_shard(prefix, name, round_) for round_ in (0, 1)]
    folder = bucket_keys.update_folder(prefix, name, 1)
    files = [
        folder + file for file in (bucket_keys.ADAPTER, bucket_keys.CONFIG, bucket_keys.MANIFEST)
    ]
    return [bucket_keys.evaluation(prefix, name, 0), *shards, *files]


class Quiet(PlainDisplay):
    """Shows nothing."""

    def _print(self, text: str) -> None:
        del text


class Table:
    """Runs cells one after another, each in a prefix of the same store."""

    def __init__(
        self, folder: Path, weed: LocalStore, rounds: int, tasks: int, before: bool
    ) -> None:
        self._folder = folder
        self._before = before
        self._weed = weed
        self._rounds = rounds
        self._tasks = tasks

    def measure(self, name: str, clients: int, attack: str, defence: str) -> dict[str, Any]:
        """One cell; its row."""
        began = time.monotonic()
        hostile = [] if attack == HONEST else SIZES[clients]
        document = manifest(clients, defence, self._rounds, self._tasks, self._before)
        document["spec"]["storage"] = {"s3": {**self._weed.s3.to_json(), "prefix": name}}
        names = [e["name"] for e in document["spec"]["environments"]]
        for other in ("mean", "default"):
            self.share(f"{clients}-{attack}-{other}", name, names)
            self.share(f"{clients}-{HONEST}-{other}", name, [n for n in names if n not in hostile])
        status = self.federate(name, document, attack, hostile).status
        measured = [entry for entry in status.history if entry.success]
        row = {
            "clients": clients,
            "attack": attack,
            "defence": defence,
            "before": self._before,
            "hostile": SIZES[clients],
            "aggregation": document["spec"]["aggregation"],
            "phase": status.phase,
            "completed": status.completed,
            "base": measured[0].success if measured else {},
            "last": measured[-1].success if len(measured) > 1 else {},
            "episodes": measured[0].episodes if measured else {},
            "refused": refusals(self._folder / name, names),
            "seconds": round(time.monotonic() - began, 1),
        }
        shutil.rmtree(self._folder / name)
        return row

    def share(self, source: str, target: str, names: list[str]) -> None:
        """Copy what these committed in another cell's first round, if that has run."""
        store = self._weed.store()
        for name in names:
            places = zip(first_round(source, name), first_round(target, name), strict=True)
            for key, copy in places:
                with contextlib.suppress(NotFound, Precondition):
                    store.put_if_absent(copy, store.get(key))

    def federate(
        self, name: str, document: dict[str, Any], attack: str, hostile: list[str]
    ) -> Federation:
        """One federation to its end, with some of its clients hostile."""
        os.environ[ENV_ATTACK] = attack
        os.environ[ENV_HOSTILE] = ",".join(hostile)
        shutil.rmtree(self._folder / name, ignore_errors=True)  # what it made is in the store
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(document))
        options = RunOptions(parallel=1, credentials={"default": self._weed.environ(RUNNER)})
        return run(load(file), RunDir(self._folder / name), options, Quiet(), lambda *_: None)


def refusals(out: Path, names: list[str]) -> dict[str, int]:
    """How often the gate refused each environment's update, and why."""
    found: dict[str, int] = {}
    for path in sorted(out.glob("jobs/*-aggregator-a*/report.json")):
        for index, reason in json.loads(path.read_text()).get("refused", []):
            key = f"{names[index]}: {reason}"
            found[key] = found.get(key, 0) + 1
    return found


def main() -> None:
    """Run what is missing, and write all rows after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--attacks", nargs="+", default=[HONEST, "flipped", "long", "noise", "nan"])
    parser.add_argument("--clients", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--defences", nargs="+", default=list(defences(5))[:6])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=60, help="per world, over its silos")
    parser.add_argument("--before", action="store_true", help="with the gate as it was")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    executor.PROGRAMS |= {"client": "hostile", "evaluate": "hostile"}
    if given.before:
        executor.PROGRAMS |= {"aggregator": "lenient"}
    check_same(given)
    asked = itertools.product(given.attacks, given.clients, given.defences)
    with LocalStore(given.out / "store", ()) as weed:
        table = Table(given.out, weed, given.rounds, given.tasks, given.before)
        for attack, clients, defence in asked:
            name = f"{clients}-{attack}-{defence}{'-before' if given.before else ''}"
            done = given.out / f"{name}.json"
            if not done.exists():
                row = json.dumps(table.measure(name, clients, attack, defence))
                replace_file(done, row.encode())
                print(row, flush=True)
            collect(given)


def about(given: argparse.Namespace) -> dict[str, Any]:
    """What all cells of a table have in common."""
    return {
        "rounds": given.rounds,
        "tasks": given.tasks,
        "base": sha256(BASE.read_bytes()),
        "demo": sha256(MANIFEST.read_bytes()),
    }


def check_same(given: argparse.Namespace) -> None:
    """Refuse to continue in a folder whose cells were of another base or demo."""
    given.out.mkdir(parents=True, exist_ok=True)
    note = given.out / "about.txt"
    if not note.exists():
        replace_file(note, json.dumps(about(given)).encode())
    if json.loads(note.read_text()) != about(given):
        raise SystemExit(f"--out: got {given.out} of {note.read_text()}, expected {about(given)}")


def collect(given: argparse.Namespace) -> None:
    """Write what the tables show of all finished cells, by their names."""
    cells = [json.loads(path.read_text()) for path in sorted(given.out.glob("*.json"))]
    base = {str(cell["clients"]): cell["base"] for cell in cells if cell["base"]}
    rows = [{name: cell[name] for name in SHOWN} for cell in cells]
    kept.write(given.results, {"base": base, "rows": rows})


if __name__ == "__main__":
    main()
