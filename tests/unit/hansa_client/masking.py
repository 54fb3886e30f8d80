"""A client that masks, with an exchange and a store of its own that a test can look into."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import UpdateManifest
from hansa.core import logs
from hansa.crypto import sealing
from hansa.store.staged import open_staged_store
from hansa_client.round import play_round
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import UPDATE, Assign

NAMES = ("babyai", "maze", "webshop", "wordle")
KEYS = {name: sealing.generate_opening_key() for name in NAMES}
PRIVATE = "mine/experience/maze/masking/00001/"
CLAIM = "run/claims/maze/00001-0.json"
RECORD = PRIVATE + "epoch-0.json"
BODY = UPDATE + "masked-0.bin"


@dataclass
class Place:
    """The exchange and the silo's own store."""

    exchange: MemoryStore = field(default_factory=MemoryStore)
    private: MemoryStore = field(default_factory=MemoryStore)

    def play(self, assignment: Assignment, *opening: sealing.OpeningKey) -> ClientReport:
        store = open_staged_store(self.exchange, self.private, assignment)
        given = list(opening or [KEYS["maze"]])
        log = logs.get("client")
        return play_round(Silo(assignment, store, self.private, log, masking_keys=lambda: given))

    def copy(self) -> "Place":
        made = Place()
        made.exchange.objects = copy(self.exchange.objects)
        made.private.objects = copy(self.private.objects)
        return made

    def manifest(self, name: str = bucket_keys.MANIFEST) -> UpdateManifest:
        return UpdateManifest.model_validate_json(self.exchange.objects[UPDATE + name])

    def before_put(self, act: Callable[[str], None]) -> None:
        self.exchange.before_put = self.private.before_put = act


def peers(*names: str) -> dict[str, str]:
    return {name: KEYS[name].public for name in names or NAMES}


def secured(assign: Assign, **changes: Any) -> Assignment:
    fields = {
        "aggregation": {"secure": {}},
        "experience_storage": {"bucket": "own", "prefix": "mine"},
        "environments": list(NAMES),
        "environment": "maze",
        "masking": {"peers": peers()},
        **changes,
    }
    return assign(**fields)


def again(assignment: Assignment, epoch: int, *names: str) -> Assignment:
    """What the silo is told once others dropped out."""
    masks = {"epoch": epoch, "peers": peers(*names)}
    return Assignment.model_validate(
        {**assignment.model_dump(), "evaluate": False, "masking": masks}
    )
