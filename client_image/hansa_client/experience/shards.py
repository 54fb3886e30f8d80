"""Shards: the episodes of each round in the silo's private store.

One immutable shard per round holds all its episodes with their success flags; shard 0 holds the
demonstrations. Nothing here ever leaves the silo's own store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import zstandard
from pydantic import ValidationError

import hansa
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Count, Sha256, canonical, check_same_run, fingerprint, sha256
from hansa.api.spec import Model
from hansa.core.errors import Corrupt, NotFound
from hansa.store.base import ObjectStore, get_if_present, put_once
from hansa_client import trajectory
from hansa_client.trajectory import Episode

DEMONSTRATIONS = 0
"""Round of the shard that holds the demonstrations."""
_LEVEL = 3


class ShardHeader(Model):
    """First line of a shard."""

    kind: Literal["experience"] = "experience"
    """What the file is."""
    program: str
    """Version of the program that wrote it."""
    environment: str
    """Silo it belongs to."""
    round: Count
    """Round that played it; 0 for demonstrations."""
    fingerprint: Sha256
    """Digest of `inputs`."""
    inputs: dict[str, Any]
    """What the episodes were played from."""
    episodes: Count
    """Lines that follow."""
    generated: Count = 0
    """Tokens that the model wrote to play them."""
    broken: Count = 0
    """Episodes that were dropped, since the world failed in them."""


@dataclass(frozen=True)
class Shard:
    """One round's episodes."""

    header: ShardHeader
    """Where they come from."""
    episodes: list[Episode]
    """All of them, failed ones too."""
    sha256: str = ""
    """Digest of its stored bytes."""


class Shards:
    """One environment's shards in its private store."""

    def __init__(self, store: ObjectStore, assignment: Assignment) -> None:
        self._store = store
        self._assignment = assignment
        self._prefix = assignment.private_storage.prefix

    def find(self, round_: int) -> Shard | None:
        """A round's shard; None when it was not played yet."""
        data = get_if_present(self._store, self._key(round_))
        return self._decode_checked(round_, data) if data is not None else None

    def has_round(self, round_: int) -> bool:
        """Whether a round was played already; its shard is not read."""
        try:
            self._store.size(self._key(round_))
        except NotFound:
            return False
        return True

    def write(
        self,
        round_: int,
        episodes: Sequence[Episode],
        *,
        generated: int = 0,
        broken: int = 0,
        more_inputs: Mapping[str, Any] | None = None,
    ) -> Shard:
        """Store a round's episodes; the stored shard, which may be that of another attempt."""
        inputs = {**self._inputs(round_), **(more_inputs or {})}
        header = ShardHeader(
            program=hansa.__version__,
            environment=self._assignment.environment,
            round=round_,
            fingerprint=fingerprint(inputs),
            inputs=inputs,
            episodes=len(episodes),
            generated=generated,
            broken=broken,
        )
        own = encode(header, episodes)
        stored = put_once(self._store, self._key(round_), own)
        if stored is own:
            return Shard(header, list(episodes), sha256(own))
        return self._decode_checked(round_, stored)

    def list_rounds(self) -> list[int]:
        """Rounds with a shard, up to the present one: later ones belong to another attempt."""
        rounds = list_rounds(self._store, self._prefix, self._assignment.environment)
        return [round_ for round_ in rounds if round_ <= self._assignment.round]

    def _key(self, round_: int) -> str:
        return bucket_keys.experience_shard(self._prefix, self._assignment.environment, round_)

    def _inputs(self, round_: int) -> dict[str, Any]:
        assignment = self._assignment
        return assignment.inputs() if round_ == assignment.round else assignment.evaluation_inputs()

    def _decode_checked(self, round_: int, data: bytes) -> Shard:
        shard = decode(data, self._key(round_))
        theirs, ours = shard.header.inputs, self._inputs(round_)
        if round_ != self._assignment.round:
            # Settings may have changed since; the run, the silo and its world must not.
            own = [*self._assignment.identity(), "environment", "world"]
            theirs, ours = ({name: d.get(name) for name in own} for d in (theirs, ours))
        check_same_run(self._assignment.private_place, theirs, ours)
        return shard


def list_rounds(store: ObjectStore, prefix: str, environment: str) -> list[int]:
    """Rounds with a shard of an environment; 0 holds the demonstrations."""
    root = bucket_keys.experience_root(prefix, environment)
    names = [key.removeprefix(root).partition(".")[0] for key in store.list(root)]
    return sorted(int(name) for name in names if name.isdecimal())


def encode(header: ShardHeader, episodes: Sequence[Episode]) -> bytes:
    """A shard's bytes: a header line, then one line per episode, zstd."""
    lines = [canonical(header.to_json()), *(trajectory.encode(episode) for episode in episodes)]
    return zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(lines))


def decode(data: bytes, where: str) -> Shard:
    """The shard in these bytes; Corrupt, with the file's name, when it is damaged."""
    try:
        first, *lines = zstandard.ZstdDecompressor().decompress(data).splitlines()
        header = ShardHeader.model_validate_json(first)
    except (zstandard.ZstdError, ValueError, ValidationError):
        raise Corrupt(f"{where}: expected a shard of experience, got something else") from None
    if len(lines) != header.episodes:
        raise Corrupt(f"{where}: got {len(lines)} episodes, expected {header.episodes}")
    return Shard(header, [trajectory.decode(line, where) for line in lines], sha256(data))
