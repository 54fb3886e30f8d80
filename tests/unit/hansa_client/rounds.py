"""Rounds of one client, maze, in a store that a test can look into."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import UpdateManifest
from hansa.api.status import RoundSettings
from hansa.core import logs
from hansa_client.last import evaluate_only
from hansa_client.round import play_round
from hansa_client.silo import Silo
from hansa_worlds import DEMO_OPTIONS
from tests.support.memory_store import MemoryStore

UPDATE = "run/updates/maze/00001/"
SHARD = "run/experience/maze/00001.jsonl.zst"
SHOWN = "run/experience/maze/00000.jsonl.zst"
MEASURED = "run/evaluations/maze/00000.json"
BY_TASK = "run/experience/maze/evaluations/00000.json"
TINY = "builtin:tiny"
PRIVACY = {"epsilon": 100.0, "delta": 1e-3, "noiseMultiplier": 1.0, "samplingRate": 0.5}
Assign = Callable[..., Assignment]
Stores = tuple[MemoryStore, MemoryStore]
"""What a silo shares with others, and its own."""


class Killed(BaseException):
    """The process ends here, as by kill -9."""


def make_assignment(**fields: Any) -> Assignment:
    """A small one; settings by section, other fields by name."""
    sections = RoundSettings.model_fields.keys() & fields.keys()
    settings = RoundSettings.model_validate(
        {
            "exploration": {"tasksPerRound": 6, "maxNewTokens": 64},
            "experience": {"demonstrations": 3, "thoughts": False},
            "training": {"learningRate": 1e-3, "batchTokens": 1024, "epochs": 1},
            "evaluation": {"tasks": 4},
            **{name: fields.pop(name) for name in sections},
        }
    )
    given = {
        "role": "client",
        "federation": "fed",
        "seed": 7,
        "model": {"source": TINY},
        "adapter": {},
        "round": 1,
        "start": {},
        "settings": settings,
        "storage": {"bucket": "bucket", "prefix": "run"},
        "environments": ["babyai", "maze"],
        "environment": "maze",
        "world": "maze",
        "options": DEMO_OPTIONS["maze"],
    }
    return Assignment.model_validate({**given, **fields})


def play(store: MemoryStore, assignment: Assignment) -> ClientReport:
    return play_round(Silo(assignment, store, store, logs.get("client")))


def play_job(assignment: Assignment, stores: Stores) -> Any:
    """A round, or what follows the last one, of a silo with a store of its own."""
    silo = Silo(assignment, *stores, logs.get("client"))
    return play_round(silo) if assignment.role == "client" else evaluate_only(silo)


def after_round(assignment: Assignment, cache: dict[str, Any]) -> tuple[Stores, bytes]:
    """Fresh stores as they are after round 1, whose global adapter is the silo's own update.

    The round is played once for a cache.
    """
    if "objects" not in cache:
        stores = MemoryStore(), MemoryStore()
        play_job(assignment, stores)
        cache["objects"] = [dict(store.objects) for store in stores]
    stores = MemoryStore(), MemoryStore()
    for store, objects in zip(stores, cache["objects"], strict=True):
        store.objects.update(objects)
    own = stores[0].objects[UPDATE + bucket_keys.ADAPTER]
    stores[0].objects[bucket_keys.global_folder("run", 1) + bucket_keys.ADAPTER] = own
    return stores, own


def manifest(store: MemoryStore, folder: str = UPDATE) -> UpdateManifest:
    return UpdateManifest.model_validate_json(store.objects[folder + bucket_keys.MANIFEST])


def unplayable(data: bytes) -> bytes:
    """An adapter of the same shapes with which nobody can play."""
    random = np.random.RandomState(1)
    return lora.encode(
        {
            name: random.standard_normal(array.shape).astype(np.float32) * 3
            for name, array in lora.decode(data).items()
        }
    )


def result(store: MemoryStore) -> dict[str, bytes]:
    """The bytes that are promised to be equal."""
    return {
        k: v
        for k, v in store.objects.items()
        if k.endswith((bucket_keys.ADAPTER, bucket_keys.CONFIG))
    }


def play_apart(exchange: MemoryStore, private: MemoryStore, assignment: Assignment) -> ClientReport:
    """The report of a round whose private store is one of its own."""
    return play_round(Silo(assignment, exchange, private, logs.get("client")))
