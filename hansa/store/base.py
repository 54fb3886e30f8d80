"""What Hansa asks of an object store: few verbs, distinct errors, everything written once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hansa.core.errors import Precondition

Watch = Callable[[int, bytes], None]
"""Sees an object's bytes as they come: where a piece begins, and the piece.

A try that failed begins again with byte 0; what was seen before then counts for nothing."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Who signs the requests; the secret never shows in a log or a traceback."""

    access_key: str
    """AWS_ACCESS_KEY_ID."""
    secret_key: str = field(repr=False)
    """AWS_SECRET_ACCESS_KEY."""
    session_token: str | None = field(default=None, repr=False)
    """AWS_SESSION_TOKEN, for credentials that expire."""


class ObjectStore(Protocol):
    """One bucket; keys are whole paths made by hansa.api.bucket_keys.

    Every verb raises NotFound, Denied or Unreachable of hansa.core.errors, put_if_absent also
    Precondition, and nothing else.
    """

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes start to start + length of an object; fewer at its end."""
        ...

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""
        ...

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file, a little at a time; the sha256 of the bytes that came.

        Corrupt when the object has another size; then nothing of it is read. Whoever has to look
        at the bytes does so with `watch`, while they are in the processor's cache. Without a path
        they are shown to it alone, neither kept nor hashed, and the digest is empty.
        """
        ...

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Write a file as an object once; its sha256. Precondition when it exists already."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Keys below a prefix, sorted."""
        ...

    def remove(self, key: str) -> None:
        """Delete an object that nobody reads any more, or that is absent; results never are."""
        ...


class ForwardingStore:
    """Another store, verb by verb; a subclass overrides what differs."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def _resolve(self, key: str) -> tuple[ObjectStore, str]:
        """Which store has an object, and under which key."""
        return self._store, key

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        store, place = self._resolve(key)
        return store.get(place)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        store, place = self._resolve(key)
        return store.get_range(place, start, length)

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        store, place = self._resolve(key)
        return store.size(place)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""
        store, place = self._resolve(key)
        store.put_if_absent(place, data)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file; the sha256 of the bytes that came."""
        store, place = self._resolve(key)
        return store.download(place, path, size, watch)

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Write a file as an object once; its sha256."""
        store, place = self._resolve(key)
        return store.upload_if_absent(place, path)

    def list(self, prefix: str) -> Iterator[str]:
        """Keys of the store itself below a prefix, sorted."""
        return self._store.list(prefix)

    def remove(self, key: str) -> None:
        """Delete an object; updates never are."""
        store, place = self._resolve(key)
        store.remove(place)


def put_once(store: ObjectStore, key: str, data: bytes) -> bytes:
    """Write an object unless it exists; the stored bytes, which may be an earlier writer's.

    A slow twin that computed other bytes goes on with the first writer's: the folder stays whole.
    """
    try:
        store.put_if_absent(key, data)
    except Precondition:
        return store.get(key)
    return data
