"""A federation as it looks after its rounds: status, manifests, evaluations and shards."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import zstandard

from hansa.api import bucket_keys
from hansa.api.bucket_documents import (
    Counts,
    EvaluationDocument,
    FileEntry,
    GlobalManifest,
    Learning,
    Member,
    StartAdapter,
    UpdateManifest,
)
from hansa.api.status import Federation, RoundSettings
from hansa.api.task_kinds import MOST_KINDS
from hansa.core.errors import HansaError
from tests.support import memory_store

PREFIX = "five-worlds"
PROGRAM = "hansa 0.1.0"
START = datetime(2026, 3, 14, 9, 26, tzinfo=UTC)
WORLDS = ("babyai", "maze", "textcraft", "webshop", "wordle")
_BASE = {"babyai": 0.18, "maze": 0.41, "textcraft": 0.43, "webshop": 0.15, "wordle": 0.54}
_GAIN = {"babyai": 0.24, "maze": 0.36, "textcraft": 0.39, "webshop": 0.16, "wordle": 0.38}


class MemoryStore(memory_store.MemoryStore):
    """A bucket in memory; `broken` maps parts of keys to the error that reading them raises."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, HansaError] = {}
        self.reads: list[str] = []

    def _object(self, key: str) -> bytes:
        self.reads.append(key)
        for part, error in self.broken.items():
            if part in key:
                raise error
        return super()._object(key)


def names(count: int) -> list[str]:
    """The five worlds, or as many silos as asked for that play them in turn."""
    if count <= len(WORLDS):
        return list(WORLDS[:count])
    return [f"silo-{number:03d}" for number in range(1, count + 1)]


def world_of(index: int) -> str:
    return WORLDS[index % len(WORLDS)]


def ratio(index: int, round_: int, rounds: int, episodes: int = 100) -> float:
    """A curve that rises fast, then slowly, and shakes like one measured on few episodes."""
    world = world_of(index)
    rise = _GAIN[world] * (1 - math.exp(-3.2 * round_ / max(rounds, 1)))
    shake = 0.028 * math.sin(1.7 * round_ + 2.3 * index) if round_ else 0.0
    return round((_BASE[world] + rise + shake) * episodes) / episodes


def history(rounds: int, environments: int, failed: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number in range(rounds + 1):
        opened = START + timedelta(seconds=41 * max(number - 1, 0))
        entry: dict[str, Any] = {"round": number, "outcome": "base"}
        if number:
            entry["openedAt"] = opened.isoformat()
            entry["closedAt"] = (opened + timedelta(seconds=38)).isoformat()
            entry["updates"] = f"{environments}/{environments}"
            entry["outcome"] = "failed" if number in failed else "aggregated"
        if number not in failed:
            by_index = dict(enumerate(names(environments)))
            entry["success"] = {name: ratio(i, number, rounds) for i, name in by_index.items()}
            entry["episodes"] = dict.fromkeys(by_index.values(), 100)
        entries.append(entry)
    return entries


def federation(
    rounds: int = 8,
    silos: int = 5,
    *,
    planned: int | None = None,
    failed: tuple[int, ...] = (),
    phase: str = "Succeeded",
    finished: bool = True,
    **spec: Any,
) -> Federation:
    """The object after `rounds` rounds; finished=False is one whose base is not evaluated yet."""
    status: dict[str, Any] = {"phase": phase, "round": rounds, "completed": rounds - len(failed)}
    if finished:
        status["history"] = history(rounds, silos, failed)
    if finished and rounds:
        made = max(number for number in range(rounds + 1) if number not in failed)
        uri = f"s3://hansa/{PREFIX}/global/{made:05d}/"
        status["adapter"] = {"round": made, "uri": uri, "sha256": "7d" * 32}
    if phase == "Failed":
        status["failed"] = {
            "round": rounds,
            "generation": 1,
            "reason": "TooFewUpdates",
            "message": "2 of 5 environments answered, 5 are needed: see the log of maze.",
        }
    status["conditions"] = [_condition(phase)]
    worlds = {name: world_of(index) for index, name in enumerate(names(silos))}
    document = {
        "metadata": {"name": "five-worlds"},
        "spec": {
            "rounds": planned or max(rounds, 1),
            "evaluation": {"tasks": 100},
            "storage": {"s3": {"bucket": "hansa", "prefix": PREFIX}},
            "environments": [{"name": name, "world": world} for name, world in worlds.items()],
            **spec,
        },
        "status": status,
    }
    return Federation.model_validate_json(json.dumps(document))


def _condition(phase: str) -> dict[str, Any]:
    done = phase == "Succeeded"
    return {
        "type": "Succeeded",
        "status": "True" if done else "False",
        "reason": "AllRoundsDone" if done else "Running",
        "message": "all rounds are done" if done else "",
        "lastTransitionTime": START.isoformat(),
    }


def inputs(environment: str, changed: dict[str, Any]) -> dict[str, Any]:
    """What a round was computed from: the defaults, with some leaves changed by their paths."""
    shared = ("exploration", "experience", "training", "aggregation")
    used = {name: RoundSettings().to_json()[name] for name in shared}
    used |= {"world": environment, "environment": environment, "options": {"size": 6}, "seed": 7}
    for path, value in changed.items():
        group, _, leaf = path.partition(".")
        used[group] = {**used[group], leaf: value}
    return used


def write_inputs(
    store: MemoryStore, given: Federation, changed: dict[int, dict[str, Any]] | None = None
) -> MemoryStore:
    """Manifests that say what each round used; `changed` has the leaves that differ, by round."""
    names = [environment.name for environment in given.spec.environments]
    for entry in given.status.history[1:]:
        for name in names:
            used = inputs(name, (changed or {}).get(entry.round, {}))
            folder = bucket_keys.update_folder(PREFIX, name, entry.round)
            store.objects[folder + bucket_keys.MANIFEST] = update(name, entry.round, inputs=used)
        merged = manifest(entry.round, names, inputs={"aggregation": used["aggregation"]})
        store.objects[bucket_keys.global_folder(PREFIX, entry.round) + bucket_keys.MANIFEST] = (
            _dump(merged)
        )
    return store


def write_kinds(store: MemoryStore, given: Federation) -> MemoryStore:
    """Manifests of updates with as many kinds of tasks as may be, and the longest names."""
    names = [f"{'kind ' * 5}  {number:03d}" for number in range(MOST_KINDS)]
    learning = Learning(groups={name: [at % 4, 4] for at, name in enumerate(names)})
    for entry in given.status.history[1:]:
        for environment in given.spec.environments:
            folder = bucket_keys.update_folder(PREFIX, environment.name, entry.round)
            manifest = update(environment.name, entry.round, learning=learning)
            store.objects[folder + bucket_keys.MANIFEST] = manifest
    return store


def fill(store: MemoryStore, given: Federation, *, evaluations: bool = False) -> MemoryStore:
    """Put into the bucket what the federation's rounds would have left there."""
    environments = [environment.name for environment in given.spec.environments]
    for entry in given.status.history:
        if entry.outcome == "aggregated":
            key = bucket_keys.global_folder(PREFIX, entry.round) + bucket_keys.MANIFEST
            store.objects[key] = _dump(manifest(entry.round, environments))
        for index, name in enumerate(environments if entry.round else ()):
            key = bucket_keys.experience_shard(PREFIX, name, entry.round)
            store.objects[key] = shard([episode(index, entry.round)])
        for name in environments if evaluations else ():
            key = bucket_keys.evaluation(PREFIX, name, entry.round)
            store.objects[key] = _dump(evaluation(name, entry.round, entry.success[name]))
    return store


def _dump(document: GlobalManifest | EvaluationDocument | UpdateManifest) -> bytes:
    return document.model_dump_json(by_alias=True).encode()


def manifest(round_: int, environments: list[str], **fields: Any) -> GlobalManifest:
    values: dict[str, Any] = {
        "program": PROGRAM,
        "round": round_,
        "fingerprint": "ab" * 32,
        "inputs": {},
        "base_model": "0c" * 32,
        "start": StartAdapter(round=round_ - 1),
        "files": {bucket_keys.ADAPTER: FileEntry(sha256="7d" * 32, size=497_664)},
        "members": [Member(environment=name, manifest="1f" * 32) for name in environments],
        "norm": round(2.4 / math.sqrt(round_), 4),
        "updates": {name: part(i, round_) for i, name in enumerate(environments)},
        "seconds": {"read": 0.2, "aggregate": 0.11, "write": 0.24},
    }
    return GlobalManifest(**{**values, **fields})


def part(index: int, round_: int) -> dict[str, Any]:
    explored = 48
    succeeded = round(explored * ratio(index, round_ - 1, 8))
    counts = Counts(
        explored=explored,
        succeeded=succeeded,
        experience=24 + explored * round_,
        kept=24 + round_ * succeeded,
        steps=12 + 4 * round_,
        tokens=9_000 + 2_700 * round_,
        generated=4_100,
    )
    slow = 1 + 0.35 * (index % 5)
    return {
        "counts": counts.to_json(),
        "norm": round(3.1 / math.sqrt(round_) * (0.8 + 0.1 * (index % 5)), 4),
        "loss": round(0.9 * math.exp(-0.25 * round_) + 0.08 * (index % 5) + 0.1, 4),
        "seconds": {
            "load": 0.4,
            "evaluate": round(3.1 * slow, 2),
            "explore": round(1.9 * slow, 2),
            "train": round((2.2 + 0.7 * round_) * slow, 2),
            "send": 0.3,
        },
    }


def update(name: str, round_: int, **fields: Any) -> bytes:
    """An update that was no member: nothing to learn from yet."""
    values: dict[str, Any] = {
        "program": PROGRAM,
        "environment": name,
        "round": round_,
        "fingerprint": "ab" * 32,
        "inputs": {},
        "base_model": "0c" * 32,
        "start": StartAdapter(),
        "trained": False,
        "counts": Counts(explored=48, experience=48),
    }
    return _dump(UpdateManifest(**{**values, **fields}))


def evaluation(name: str, round_: int, success: float) -> EvaluationDocument:
    return EvaluationDocument(
        program=PROGRAM,
        environment=name,
        adapter=StartAdapter(round=round_),
        fingerprint="ab" * 32,
        inputs={},
        temperature=1.0,
        episodes=100,
        successes=round(success * 100),
    )


def shard(episodes: list[dict[str, Any]]) -> bytes:
    header = {"kind": "experience", "program": PROGRAM}
    lines = [json.dumps(line) for line in (header, *episodes)]
    return zstandard.compress(("\n".join(lines) + "\n").encode())


_PLAYS: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "maze": (
        [
            (
                "Reach the goal. Actions: move up, move down, move left, move right.\n"
                "The goal is at position 8, 6. Your position is 5, 3. "
                "There is a wall below you, to your left.",
                "move left",
            ),
            ("Your position is 5, 3. There is a wall below you, to your left.", "move up"),
            ("Your position is 4, 3. There are walls to your left, to your right.", "move up"),
            ("Your position is 3, 3. There are walls to your left, to your right.", "move down"),
        ],
        [
            (
                "Reach the goal. Actions: move up, move down, move left, move right.\n"
                "The goal is at position 8, 6. Your position is 5, 5. There is a wall below you.",
                "move right",
            ),
            ("Your position is 5, 6.", "move down"),
            ("Your position is 6, 6. There are walls to your left, to your right.", "move down"),
            ("Your position is 7, 6. There are walls to your left, to your right.", "move down"),
        ],
    ),
    "wordle": (
        [("Guess the word: apple beach brave bread chair ... zebra", "house"), ("b b y b g", "a")],
        [("Guess the word: apple beach brave bread chair ... zebra", "crane"), ("g g b b g", "")],
    ),
}


def episode(index: int, round_: int, **fields: Any) -> dict[str, Any]:
    world = world_of(index)
    early, late = _PLAYS.get(world, ([("You see a room.", "look")], [("Goal ahead.", "go on")]))
    turns = []
    for observation, action in early if round_ == 1 else late:
        turns.append({"role": "user", "text": observation, "tokens": [1, 2]})
        turns.append({"role": "agent", "text": action, "tokens": [3]})
    success = round_ > 1
    turns.append({"role": "user", "text": "Success" if success else "Out of turns.", "tokens": []})
    values = {
        "task": f"{world}-train-{round_ * 7}",
        "sample": 0,
        "round": round_,
        "source": "exploration",
        "seed": 1,
        "success": success,
        "reward": 1.0 if success else 0.0,
        "turns": turns,
    }
    return {**values, **fields}
