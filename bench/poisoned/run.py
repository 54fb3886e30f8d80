"""What hostile clients do to a federation, by attack and defence: real local runs.

    python bench/poisoned/run.py --out runs/poisoned --results docs/results/poisoned.json
    python tools/poisoned_table.py docs/aggregation.md

One run per cell, half a minute each on one core. Finished cells are kept in the folder, so that it
can be stopped and started again, or started several times with other cells each.
"""

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import yaml
from hostile import ATTACKS, ENV_ATTACK, ENV_HOSTILE

import hansa_client
from hansa.cli.demo import MANIFEST
from hansa.load import load
from hansa.local import executor
from hansa.local.loop import Options, run
from hansa.local.rundir import RunDir
from hansa.manifest import sha256
from hansa.program import replace
from hansa.status import Federation

HERE = Path(__file__).parent
BASE = Path(hansa_client.__file__).parent / "builtin/tiny/model.safetensors"
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
        "mean": {"strategy": "mean"},
        "gate": {"strategy": "mean", "maxNormRatio": 3.0},
        "trimmed-mean": {"strategy": "trimmed-mean", "trim": hostile / clients},
        "median": {"strategy": "median"},
        "multi-krum": {"strategy": "multi-krum", "faulty": hostile},
        "norm-balanced": {"strategy": "norm-balanced"},
    }


def environments(clients: int) -> list[dict[str, Any]]:
    """The demo's worlds, once or twice."""
    given = yaml.safe_load(MANIFEST.read_text())["spec"]["environments"]
    if clients == len(given):
        return list(given)
    return [{**e, "name": f"{e['name']}-{twin}"} for e in given for twin in "ab"]


def manifest(clients: int, defence: str, rounds: int, tasks: int) -> dict[str, Any]:
    """The demo's federation, smaller; the silos of a world share its tasks, steps and episodes."""
    document: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    spec = document["spec"]
    silos = clients // len(spec["environments"])
    document["metadata"]["name"] = "poisoned"
    spec["rounds"] = rounds
    spec["exploration"] |= {"tasksPerRound": 16 // silos}
    spec["training"] |= {"maxSteps": 16 // silos}
    spec["evaluation"] |= {"tasks": tasks // silos, "everyRounds": 1000}
    spec["aggregation"] |= {**defences(clients)[defence], "diagnostics": False}
    spec["participation"] |= {"minimumUpdates": clients - len(SIZES[clients])}
    spec["environments"] = environments(clients)
    return document


class Quiet:
    """Shows nothing."""

    def show(self, *_: object) -> None:
        """The present state."""

    def tell(self, *_: object) -> None:
        """Something that happened."""


def federate(folder: Path, document: dict[str, Any], attack: str, hostile: list[str]) -> Federation:
    """One federation to its end, with some of its clients hostile."""
    os.environ[ENV_ATTACK] = attack
    os.environ[ENV_HOSTILE] = "" if attack == HONEST else ",".join(hostile)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "federation.yaml"
    file.write_text(yaml.safe_dump(document))
    options = Options(embedded=True, parallel=1)
    return run(load(file), RunDir(folder / "run"), options, Quiet(), lambda *_: None)


def measure(folder: Path, cell: dict[str, Any], rounds: int, tasks: int) -> dict[str, Any]:
    """One cell; its row."""
    clients, attack, defence = cell["clients"], cell["attack"], cell["defence"]
    hostile = SIZES[clients]
    began = time.monotonic()
    document = manifest(clients, defence, rounds, tasks)
    status = federate(folder, document, attack, hostile).status
    measured = [entry for entry in status.history if entry.success]
    return {
        **cell,
        "hostile": hostile,
        "aggregation": document["spec"]["aggregation"],
        "phase": status.phase,
        "completed": status.completed,
        "base": measured[0].success if measured else {},
        "last": measured[-1].success if len(measured) > 1 else {},
        "episodes": measured[0].episodes if measured else {},
        "refused": refusals(folder / "run", [e["name"] for e in document["spec"]["environments"]]),
        "seconds": round(time.monotonic() - began, 1),
    }


def refusals(out: Path, names: list[str]) -> dict[str, int]:
    """How often the gate refused each environment's update, and why."""
    found: dict[str, int] = {}
    for path in sorted(out.glob("jobs/*-aggregator-a*/report.json")):
        for index, reason in json.loads(path.read_text()).get("refused", []):
            key = f"{names[index]}: {reason}"
            found[key] = found.get(key, 0) + 1
    return found


def cells(given: argparse.Namespace) -> list[dict[str, Any]]:
    """What to run, the honest federations first."""
    return [
        {"clients": clients, "attack": attack, "defence": defence}
        for attack in given.attacks
        for clients in given.clients
        for defence in given.defences
    ]


def main() -> None:
    """Run what is missing, and write all rows after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--attacks", nargs="+", default=[HONEST, *ATTACKS])
    parser.add_argument("--clients", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--defences", nargs="+", default=list(defences(5)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=60, help="per world, over its silos")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    executor.PROGRAMS |= {"client": "hostile", "evaluate": "hostile"}
    given.out.mkdir(parents=True, exist_ok=True)
    for cell in cells(given):
        folder = given.out / "-".join(str(value) for value in cell.values())
        done = folder.with_suffix(".json")
        if not done.exists():
            row = json.dumps(measure(folder, cell, given.rounds, given.tasks))
            replace(done, row.encode())
            shutil.rmtree(folder)
            print(row, flush=True)
        collect(given)


def collect(given: argparse.Namespace) -> None:
    """Write the rows of all finished cells, by their names."""
    about = {
        "rounds": given.rounds,
        "tasks": given.tasks,
        "base": sha256(BASE.read_bytes()),
    }
    rows = ",\n".join(path.read_text() for path in sorted(given.out.glob("*.json")))
    text = f'{json.dumps(about)[:-1]}, "rows": [\n{rows}\n]}}\n'
    replace(given.results, text.encode())


if __name__ == "__main__":
    main()
