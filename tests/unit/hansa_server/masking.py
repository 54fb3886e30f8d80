"""A round of masked updates in a memory store, sent as clients send them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hansa.adapter import lora, masking
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts, FileEntry, Member, UpdateManifest
from hansa.api.secure_aggregation import Masking
from hansa.crypto import sealing
from hansa.store import claims
from hansa.store.claims import Claim
from tests.unit.hansa_server.rounds import BASE_MODEL, PREFIX, RANK, SHAPES, Round

NAMES = ("babyai", "maze", "webshop", "wordle")
KEYS = {name: sealing.generate_opening_key() for name in NAMES}


@dataclass
class MaskedRound(Round):
    """Silos claim, send their bodies, and commit them; any of it can be left out."""

    environments: tuple[str, ...] = NAMES
    epoch: int = 0
    peers: tuple[str, ...] = NAMES
    secure: dict[str, Any] = field(default_factory=dict)
    minimum: int = 3
    plain: dict[str, lora.Tensors] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.aggregation = {**self.aggregation, "secure": self.secure}

    def masking(self) -> Masking:
        peers = {name: KEYS[name].public for name in self.peers}
        return Masking(epoch=self.epoch, peers=peers)

    def assignment(self, **changes: Any) -> Assignment:
        return super().assignment(**{"masking": self.masking(), **changes})

    def client(self, name: str) -> Assignment:
        return self.assignment(role="client", environment=name, world="maze", members=[])

    def origin(self) -> lora.Tensors:
        """What all silos started from."""
        if not self.start.round:
            return lora.init_adapter(SHAPES, RANK, self.seed)
        folder = bucket_keys.global_folder(PREFIX, self.start.round)
        return lora.decode(self.store.objects[folder + bucket_keys.ADAPTER])

    def play(self, *names: str, scale: float = 0.05) -> None:
        """Make the plain updates of some silos: each a small step from the start."""
        half = self.assignment().settings.aggregation.half(self.number)
        for name in names or self.environments:
            random = np.random.default_rng(NAMES.index(name) + 10 * self.number)
            self.plain[name] = {
                key: array
                if half not in ("both", lora.side(key))
                else array + (scale * random.standard_normal(array.shape)).astype(np.float32)
                for key, array in self.origin().items()
            }
            self.counts[name] = Counts(explored=4, succeeded=3, kept=100 * (1 + NAMES.index(name)))

    def body(self, name: str) -> bytes:
        """What a silo sends of its plain update."""
        own, start = self.plain[name], self.origin()
        norm = lora.distance(own, start)
        assignment = self.client(name)
        return masking.mask_update(assignment, KEYS[name], own, start, norm, self.counts[name])

    def claim(self, name: str, body: bytes) -> Claim:
        own = Claim(sha256=bucket_documents.sha256(body))
        return claims.put_claim(self.store, PREFIX, name, self.number, self.epoch, own)

    def offer(self, name: str, body: bytes | None = None, **changes: Any) -> None:
        """Claim, send and commit, and be a member."""
        body = self.body(name) if body is None else body
        self.claim(name, body)
        self.store.objects[self.key(name, bucket_keys.masked_body(self.epoch))] = body
        self.commit(name, body, **changes)

    def commit(self, name: str, body: bytes, **changes: Any) -> None:
        assignment, counts = self.client(name), self.counts[name]
        inputs = assignment.inputs()
        entry = FileEntry(sha256=bucket_documents.sha256(body), size=len(body))
        document = UpdateManifest(
            program="0",
            environment=name,
            round=self.number,
            fingerprint=bucket_documents.fingerprint(inputs),
            inputs=inputs,
            base_model=BASE_MODEL,
            start=self.start,
            trained=True,
            masked=masking.describe_masked(assignment, counts),
            files={bucket_keys.masked_body(self.epoch): entry},
            counts=counts,
        ).to_json()
        data = bucket_documents.canonical({**document, **changes})
        self.store.objects[self.key(name, bucket_keys.masked_manifest(self.epoch))] = data
        self.members[name] = Member(environment=name, manifest=bucket_documents.sha256(data))

    def next_epoch(self, *names: str) -> None:
        """Those who are left mask again."""
        self.epoch, self.peers, self.members = self.epoch + 1, names, {}
        for name in names:
            self.offer(name)

    def expected(self, *names: str) -> lora.Tensors:
        """The mean by plain whole numbers, clipped and weighed: no mask is made for it."""
        chosen, start, assignment = names or self.peers, self.origin(), self.assignment()
        secure, _ = masking.require_masking(assignment)
        total = {name: np.zeros(array.shape) for name, array in start.items()}
        weights = 0
        for silo in chosen:
            said = masking.describe_masked(assignment, self.counts[silo])
            norm = lora.distance(self.plain[silo], start)
            factor = min(1.0, secure.clip_norm / norm) * said.weight / masking.UNIT
            weights += said.weight
            for name, array in self.plain[silo].items():
                change = array.astype(np.float64) - start[name]
                total[name] += np.rint(change * factor * 2.0**said.bits)
        scale = weights / masking.UNIT * 2.0**said.bits
        return {n: (start[n] + a / scale).astype(np.float32) for n, a in total.items()}


def masked_round(*names: str, **changes: Any) -> MaskedRound:
    """A round in which these silos, or all, have sent what they should."""
    made = MaskedRound(**changes)
    made.play()
    for name in names or made.peers:
        made.offer(name)
    return made
