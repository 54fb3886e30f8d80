"""Results of a finished run, read from its store before the folder is removed."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TypeVar

import hansa
from hansa.api import bucket_keys
from hansa.api.bucket_documents import (
    EvaluationDocument,
    GlobalManifest,
    PersonalManifest,
    TaskTallies,
    UpdateManifest,
)
from hansa.api.status import FederationStatus
from hansa.compare import results
from hansa.compare.comparison import Run
from hansa.compare.results import Communication, Row, RunResult, RunWork
from hansa.core.errors import InvalidDocument, NotFound
from hansa.plan.policy import apart
from hansa.plan.policy.apart import NONE
from hansa.store import documents
from hansa.store.base import ObjectStore
from hansa.store.documents import Document

SiloDocument = TypeVar(
    "SiloDocument", EvaluationDocument, TaskTallies, PersonalManifest, UpdateManifest
)


class Finished:
    """A finished run's documents, below one prefix of a store."""

    def __init__(self, run: Run, store: ObjectStore, prefix: str, last: int) -> None:
        """`last`: the newest round that was opened."""
        self._run = run
        self._store = store
        self._prefix = prefix
        self._rounds = range(1, last + 1)
        self._environments = sorted(e.name for e in run.federation.spec.environments)

    @property
    def is_apart(self) -> bool:
        """Whether every environment has an adapter of its own."""
        return self._run.federation.spec.aggregation.strategy == NONE

    def rows(self) -> list[Row]:
        """Every evaluation of the run; adapters of their own are scored at home here."""
        return [row for name in self._environments for row in self._rows(name)]

    def _rows(self, name: str) -> Iterator[Row]:
        for round_ in (0, *self._rounds):
            key = bucket_keys.evaluation(self._prefix, name, round_)
            document = self._read_own(EvaluationDocument, key, name)
            if document is None:
                continue
            if self._run.kind.pooled:
                yield from self._read_pooled_rows(document, round_)
            else:
                whose = name if self.is_apart and round_ else ""
                yield results.convert_evaluation(self._run, document, round_, whose)

    def _read_pooled_rows(self, document: EvaluationDocument, round_: int) -> Iterator[Row]:
        """Of a pool, which has all worlds: which task is of which is in its private store."""
        name = document.environment
        key = bucket_keys.evaluation_tasks(self._prefix, name, round_)
        tallies = self._read_own(TaskTallies, key, name)
        if tallies is None:
            raise InvalidDocument(
                f"{key}: its tasks are not in the store, so no world has a figure"
            )
        for environment, (tasks, greedy) in results.split_by_environment(
            self._run, tallies
        ).items():
            if environment not in self._run.unseen:
                yield results.row(self._run, environment, tasks, round_, "", greedy)

    def chosen(self, evaluated: int) -> list[PersonalManifest]:
        """What silos serve themselves, where they choose, after the adapter evaluated last."""
        if self._run.federation.spec.personalization == "none":
            return []
        manifests = []
        for name in self._environments:
            key = bucket_keys.personal_folder(self._prefix, name, evaluated) + bucket_keys.MANIFEST
            manifests.append(self._read_own(PersonalManifest, key, name))
        return [manifest for manifest in manifests if manifest]

    def personal_rows(self, chosen: Iterable[PersonalManifest], final: int) -> list[Row]:
        """How these do at home, which is all that they are for; a guard may keep another round's
        adapter than the one that they were chosen beside."""
        return [
            results.row(self._run, one.environment, one.tasks, final, one.environment, one.greedy)
            for one in chosen
        ]

    def own_adapters(self) -> dict[str, tuple[int, bytes]]:
        """The last adapter of each environment, with its round; none where they share one."""
        adapters: dict[str, tuple[int, bytes]] = {}
        for manifest in self._updates if self.is_apart else ():
            if manifest.trained:
                folder = bucket_keys.update_folder(
                    self._prefix, manifest.environment, manifest.round
                )
                data = self._store.get(folder + bucket_keys.ADAPTER)
                adapters[manifest.environment] = manifest.round, data
        return adapters

    def shared_adapter(self, final: int) -> bytes:
        """The adapter of all silos after the final round; round 0 has no object."""
        if not final:
            return b""
        return self._store.get(bucket_keys.global_folder(self._prefix, final) + bucket_keys.ADAPTER)

    def communication(self) -> Communication:
        """Bytes sent: adapters both ways, or the trajectories that a centre must have."""
        if self._run.kind.pooled:
            return Communication(shares="trajectories", up=sum(self._shards()))
        if self.is_apart:
            return Communication(shares="nothing")
        up = sum(entry.size for one in self._updates for entry in one.files.values())
        down = 0
        for round_ in self._rounds:  # every silo fetches each global adapter, the last one too
            key = bucket_keys.global_folder(self._prefix, round_) + bucket_keys.MANIFEST
            made = self._read(GlobalManifest, key)
            if made is not None:
                sizes = [e.size for name, e in made.files.items() if name != bucket_keys.STATE]
                down += sum(sizes) * len(self._environments)
        return Communication(shares="adapters", up=up, down=down)

    def work(self) -> RunWork:
        """Episodes, steps and seconds of all clients and aggregators."""
        counts = [manifest.counts for manifest in self._updates]
        seconds = sum(sum(manifest.seconds.values()) for manifest in self._updates)
        return RunWork(
            explored=sum(each.explored for each in counts),
            succeeded=sum(each.succeeded for each in counts),
            generated=sum(each.generated for each in counts),
            steps=sum(each.steps for each in counts),
            tokens=sum(each.tokens for each in counts),
            seconds=round(seconds, 1),
        )

    def base_model(self) -> str:
        """Digest of the base model's files; empty where nobody has trained."""
        return next((manifest.base_model for manifest in self._updates), "")

    @cached_property
    def _updates(self) -> list[UpdateManifest]:
        """All of the run, by environment and round; read once, for several figures ask for them."""
        manifests = []
        for name in self._environments:
            for round_ in self._rounds:
                key = bucket_keys.update_folder(self._prefix, name, round_) + bucket_keys.MANIFEST
                manifests.append(self._read_own(UpdateManifest, key, name))
        return [manifest for manifest in manifests if manifest]

    def _shards(self) -> Iterator[int]:
        for name in self._environments:
            for round_ in (0, *self._rounds):
                with suppress(NotFound):
                    yield self._store.size(bucket_keys.experience_shard(self._prefix, name, round_))

    def _read(self, kind: type[Document], key: str) -> Document | None:
        try:
            return documents.read_with_checksum(kind, self._store, key)
        except NotFound:
            return None

    def _read_own(self, kind: type[SiloDocument], key: str, name: str) -> SiloDocument | None:
        """A silo's document; one that names another silo is refused."""
        document = self._read(kind, key)
        if document is not None and document.environment != name:
            raise InvalidDocument(
                f"{key}: environment: got {document.environment!r}, expected {name!r}"
            )
        return document


def make_empty_result(run: Run, machine: str) -> RunResult:
    """A result without anything measured yet."""
    return RunResult(
        program=hansa.__version__,
        method=run.method,
        base=run.base,
        seed=run.seed,
        spec=run.federation.spec.to_json(),
        left_out=run.left_out,
        rows=[],
        communication=Communication(shares="nothing"),
        work=RunWork(),
        wall_seconds=0.0,
        machine=machine,
    )


def read_result(run: Run, finished: Finished, status: FederationStatus, machine: str) -> RunResult:
    """What a finished run has measured itself."""
    final = apart.find_newest_round(status, run.federation.spec.aggregation.strategy)
    chosen = finished.chosen(status.evaluated)
    return make_empty_result(run, machine).model_copy(
        update={
            "base_model": finished.base_model(),
            "rows": [*finished.rows(), *finished.personal_rows(chosen, final)],
            "final": final,
            "serves": {one.environment: one.choice for one in chosen},
            "communication": finished.communication(),
            "work": finished.work(),
        }
    )
