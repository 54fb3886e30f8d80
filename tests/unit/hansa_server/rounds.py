"""A round in a memory store, in one line: members with their updates, and their assignment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from hansa.adapter import lora
from hansa.adapter.tensor_file import encode
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import AggregatorReport, Assignment
from hansa.api.bucket_documents import (
    Counts,
    FileEntry,
    GlobalManifest,
    Member,
    StartAdapter,
    UpdateManifest,
)
from hansa.api.spec import S3, Adapter, Aggregation, ModelSource
from hansa.api.status import RoundSettings
from hansa.core.logs import Log
from hansa_server.round import aggregate
from tests.support.memory_store import MemoryStore
from tests.support.merging import draw_moments

RANK = 2
MODULES = ("model.layers.0.mlp.up_proj", "model.layers.0.self_attn.q_proj")
SHAPES: lora.Shapes = {
    f"base_model.model.{module}.lora_{side}.weight": shape
    for module in MODULES
    for side, shape in (("A", (RANK, 6)), ("B", (5, RANK)))
}
SEED = 7
BASE_MODEL = "b" * 64
PREFIX = "demo"
ENVIRONMENTS = ("babyai", "maze", "wordle")


def tensors(seed: int, scale: float = 1.0) -> lora.Tensors:
    """An adapter of the round's shapes as training might make it: any B, and an A that is longer.

    Training moves A and does not turn it; the gate refuses what is turned.
    """
    random = np.random.default_rng(seed)
    made = {}
    for name, start in lora.init_adapter(SHAPES, RANK, SEED).items():
        values = random.standard_normal(start.shape) * scale
        made[name] = values if lora.side(name) == "B" else start * (1 + np.abs(values))
    return {name: made[name].astype(np.float32) for name in SHAPES}


@dataclass
class Round:
    """A store with the updates of some members; change anything, then aggregate."""

    environments: Sequence[str] = ENVIRONMENTS
    number: int = 1
    start: StartAdapter = field(default_factory=StartAdapter)
    server_step: float | Literal["auto"] = 1.0
    aggregation: dict[str, Any] = field(default_factory=dict)
    minimum: int = 1
    seed: int = SEED
    target_modules: Any = "all-linear"
    store: MemoryStore = field(default_factory=MemoryStore)
    members: dict[str, Member] = field(default_factory=dict)

    def assignment(self, **changes: Any) -> Assignment:
        """What the aggregator is told."""
        fields: dict[str, Any] = {
            "role": "aggregator",
            "federation": "demo",
            "seed": self.seed,
            "model": ModelSource(),
            "adapter": Adapter(rank=RANK, target_modules=self.target_modules),
            "round": self.number,
            "start": self.start,
            "settings": RoundSettings(
                aggregation=Aggregation(server_step=self.server_step, **self.aggregation)
            ),
            "storage": S3(bucket="hansa", prefix=PREFIX),
            "environments": sorted(self.environments),
            "members": list(self.members.values()),
            "minimum": self.minimum,
        }
        return Assignment(**{**fields, **changes})

    def client_inputs(self, environment: str) -> dict[str, Any]:
        """Inputs as this round's client of an environment writes them."""
        return self.assignment(
            role="client", environment=environment, world="maze", members=[]
        ).inputs()

    def send(
        self,
        environment: str,
        data: bytes | lora.Tensors,
        /,
        moments: bytes | None = None,
        **changes: Any,
    ) -> None:
        """Commit an update and make it a member; changes go into its manifest as they are."""
        content = data if isinstance(data, bytes) else lora.encode(data)
        self.store.objects[self.key(environment, bucket_keys.ADAPTER)] = content
        files = {bucket_keys.ADAPTER: content}
        if Aggregation(**self.aggregation).needs_moments:
            seed = sorted(self.environments).index(environment)
            files[bucket_keys.MOMENTS] = moments or encode(draw_moments(seed, SHAPES))
            self.store.objects[self.key(environment, bucket_keys.MOMENTS)] = files[
                bucket_keys.MOMENTS
            ]
        inputs = changes.get("inputs", self.client_inputs(environment))
        document = UpdateManifest(
            program="0",
            environment=environment,
            round=self.number,
            fingerprint=bucket_documents.fingerprint(inputs),
            inputs=inputs,
            base_model=BASE_MODEL,
            start=self.start,
            trained=True,
            files={
                name: FileEntry(sha256=bucket_documents.sha256(stored), size=len(stored))
                for name, stored in files.items()
            },
            counts=Counts(explored=4, succeeded=3),
            norm=0.5,
            loss=1.5,
            seconds={"train": 2.0},
        ).to_json()
        self.send_manifest(environment, bucket_documents.canonical({**document, **changes}))

    def trained(self, seed: int) -> lora.Tensors:
        """What an honest client might send: of the half that is not trained, the start's."""
        half, made = Aggregation(**self.aggregation).half(self.number), tensors(seed)
        if half == "both":
            return made
        start = lora.init_adapter(SHAPES, RANK, self.seed)
        if self.start.round:
            folder = bucket_keys.global_folder(PREFIX, self.start.round)
            start = lora.decode(self.store.objects[folder + bucket_keys.ADAPTER])
        return {name: made[name] if lora.side(name) == half else start[name] for name in made}

    def send_manifest(self, environment: str, data: bytes) -> None:
        """Store a manifest of any bytes and name it as a member's."""
        self.store.objects[self.key(environment, bucket_keys.MANIFEST)] = data
        digest = bucket_documents.sha256(data)
        self.members[environment] = Member(environment=environment, manifest=digest)

    def key(self, environment: str, name: str) -> str:
        """Key of a file of an update."""
        return bucket_keys.update_folder(PREFIX, environment, self.number) + name

    def global_key(self, name: str) -> str:
        """Key of a file of the round's result."""
        return bucket_keys.global_folder(PREFIX, self.number) + name

    def aggregate(self, **changes: Any) -> AggregatorReport:
        """Run the server's round."""
        return aggregate(self.assignment(**changes), self.store, Log("server"), lambda: 0.0)

    def result(self) -> lora.Tensors:
        """The global adapter that the round stored."""
        return lora.decode(self.store.objects[self.global_key(bucket_keys.ADAPTER)])


def full_round(**changes: Any) -> Round:
    """A round to which all environments have sent sound updates."""
    made = Round(**changes)
    for position, environment in enumerate(made.environments):
        made.send(environment, made.trained(position))
    return made


def read_manifest(round_: Round) -> GlobalManifest:
    """The manifest of the round's global adapter."""
    return GlobalManifest.model_validate_json(
        round_.store.objects[round_.global_key(bucket_keys.MANIFEST)]
    )


class Killed(BaseException):
    """Stands for kill -9: no program code handles it."""


def kill_before_write(round_: Round, number: int) -> None:
    """Aggregate up to a write, and no further."""

    def kill(key: str) -> None:
        if len(round_.store.written) == number:
            raise Killed

    round_.store.before_put = kill
    with pytest.raises(Killed):
        round_.aggregate()
    round_.store.before_put = lambda key: None


def refusal_of_maze(round_: Round) -> str:
    """The reason against the one update that a test has spoiled; the others must count."""
    report = round_.aggregate()
    assert report.members == [0, 2]
    [(index, reason)] = report.refused
    assert index == 1
    return reason


def reshaped(**shapes: tuple[int, ...]) -> lora.Tensors:
    ends = {f".lora_{side}.weight": shape for side, shape in shapes.items()}
    return {
        name: np.zeros(next((s for e, s in ends.items() if name.endswith(e)), shape), np.float32)
        for name, shape in SHAPES.items()
    }


def later_round() -> Round:
    before = lora.encode(tensors(77))
    start = StartAdapter(round=2, sha256=bucket_documents.sha256(before))
    round_ = full_round(number=3, start=start)
    round_.store.objects[bucket_keys.global_folder("demo", 2) + bucket_keys.ADAPTER] = before
    return round_
