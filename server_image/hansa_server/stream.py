"""The members of a round as a stream: one update in memory at a time, refusals noted on the way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from hansa import adapter, keys
from hansa.assignment import AggregatorReport, Assignment
from hansa.errors import NotFound, TooFewUpdates
from hansa.logs import Log
from hansa.manifest import Member
from hansa.store.base import ObjectStore
from hansa_server import gate
from hansa_server.gate import Offer, RefusalReason, Refused
from hansa_server.strategies.base import Update

FIRST_READ = 64 * 2**10
"""Bytes of an update read to learn its shapes; most headers fit."""


class TooFewMembers(TooFewUpdates):
    """Too few updates passed; carries the report that tells the executor whose did not, and why."""

    def __init__(self, message: str, report: AggregatorReport) -> None:
        super().__init__(message, hint="the log has one line for each update that was refused")
        self.report = report


class Members:
    """The updates that an assignment names; iterating reads and checks each one's adapter.

    A pass can be repeated: what was refused once stays out, and the digests keep the rest the same.
    """

    def __init__(self, store: ObjectStore, assignment: Assignment, log: Log) -> None:
        self._store = store
        self._assignment = assignment
        self._log = log
        self._shapes: adapter.Shapes = {}
        self._limit = 0
        self.offers: dict[str, Offer] = {}
        """Members that no check has refused so far, sorted by environment."""
        self.refused: dict[str, RefusalReason] = {}
        """Members that were, with the reason."""

    def read_manifests(self) -> None:
        """Learn what each member offers; nothing large is read yet."""
        for member in sorted(self._assignment.members, key=lambda member: member.environment):
            with self._gated(member.environment):
                self.offers[member.environment] = self._offer(member)
        self.require_enough()

    def agree_on_base_model(self, known: str | None) -> str:
        """The run's base model: the known one, or in a first round what most members used."""
        said = [offer.manifest.base_model for offer in self.offers.values()]
        expected = known or gate.most_common(said)
        for environment, offer in list(self.offers.items()):
            with self._gated(environment):
                gate.check_base_model(offer, expected)
        self.require_enough()
        return expected

    def agree_on_shapes(self) -> adapter.Shapes:
        """The adapter's shapes where no global adapter tells them: what most headers say."""
        found: dict[str, adapter.Shapes] = {}
        for environment, offer in list(self.offers.items()):
            with self._gated(environment):
                shapes = self._read_shapes(offer)
                gate.check_shapes(shapes, self._assignment)
                found[environment] = shapes
        self.require_enough()
        said = {json.dumps(shapes): shapes for shapes in found.values()}
        return said[gate.most_common([json.dumps(shapes) for shapes in found.values()])]

    def expect(self, start: adapter.Tensors) -> None:
        """Hold every update against the start adapter from here on."""
        self._shapes = adapter.shapes(start)
        payload = sum(array.nbytes for array in start.values())
        self._limit = payload + adapter.MAX_HEADER

    def __iter__(self) -> Iterator[Update]:
        for environment, offer in list(self.offers.items()):
            tensors: adapter.Tensors | None = None
            with self._gated(environment):
                tensors = self._read_tensors(offer)
            if tensors is not None:
                yield Update(environment=environment, tensors=tensors)
        self.require_enough()

    def require_enough(self) -> None:
        """End the round when too few members are left, naming each refusal."""
        if len(self.offers) >= self._assignment.minimum:
            return
        named = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.refused.items()))
        raise TooFewMembers(
            f"{len(self.offers)} of {len(self._assignment.members)} updates passed the gate, "
            f"expected {self._assignment.minimum} or more; refused: {named or 'none'}",
            AggregatorReport(
                round=self._assignment.round,
                manifest="",
                adapter="",
                bytes=0,
                members=[],
                refused=self.refused_by_index(),
            ),
        )

    def refused_by_index(self) -> list[tuple[int, str]]:
        """Refusals as reports carry them."""
        index = self._assignment.environments.index
        return sorted((index(name), str(reason)) for name, reason in self.refused.items())

    @contextmanager
    def _gated(self, environment: str) -> Iterator[None]:
        try:
            yield
        except Refused as refused:
            self.offers.pop(environment, None)
            self.refused[environment] = refused.reason
            self._log.warning(
                "update_refused",
                environment=environment,
                reason=refused.reason,
                message=gate.HELP[refused.reason],
                detail=refused.detail,
            )

    def _offer(self, member: Member) -> Offer:
        key = self._folder(member.environment) + keys.MANIFEST
        try:
            gate.check_manifest_size(self._store.size(key))
            data = self._store.get(key)
        except NotFound:
            raise Refused("manifest-missing") from None
        return gate.read_manifest(data, member, self._assignment)

    def _read_shapes(self, offer: Offer) -> adapter.Shapes:
        key = self._adapter_key(offer)
        try:
            size = self._store.size(key)
            gate.check_size(offer, size, offer.entry.size)
            head = self._store.get_range(key, 0, FIRST_READ)
            needed = gate.head_size(head)
            if needed > len(head):
                head = self._store.get_range(key, 0, needed)
        except NotFound:
            raise Refused("file-missing", key) from None
        return gate.read_shapes(head, size)

    def _read_tensors(self, offer: Offer) -> adapter.Tensors:
        key = self._adapter_key(offer)
        try:
            gate.check_size(offer, self._store.size(key), self._limit)
            data = self._store.get(key)
        except NotFound:
            raise Refused("file-missing", key) from None
        gate.check_sha256(offer, data)
        tensors = gate.read_tensors(data)
        shapes = adapter.shapes(tensors)
        gate.check_shapes(shapes, self._assignment)
        gate.check_same_shapes(shapes, self._shapes)
        gate.check_finite(tensors)
        return tensors

    def _adapter_key(self, offer: Offer) -> str:
        return self._folder(offer.member.environment) + keys.ADAPTER

    def _folder(self, environment: str) -> str:
        prefix = self._assignment.storage.prefix
        return keys.update_folder(prefix, environment, self._assignment.round)
