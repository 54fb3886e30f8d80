"""The interface of object stores: few verbs, distinct errors, everything written once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hansa.core.errors import NotFound, Precondition

Watch = Callable[[int, bytes], None]
"""Called with an object's bytes as they arrive: where a piece begins, and the piece.

A retry starts again with byte 0, and what came before is void."""


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

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes start to start + length of an object; fewer at its end."""

    def size(self, key: str) -> int:
        """Length of an object in bytes."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file, a little at a time; the sha256 of the bytes that came.

        Corrupt when the object has another size; then nothing of it is read. `watch` gets the
        bytes while they are in the processor's cache. Without a path they are neither stored nor
        hashed, and the digest is empty.
        """

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Write a file as an object once; its sha256. Precondition when it exists already."""

    def list(self, prefix: str) -> Iterator[str]:
        """Keys below a prefix, sorted."""

    def remove(self, key: str) -> None:
        """Delete an object that nothing reads, or that is absent; results are never deleted."""


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
        """Delete an object; updates are never deleted."""
        store, place = self._resolve(key)
        store.remove(place)


class RedirectingStore(ForwardingStore):
    """Another store, of which some objects below one folder are kept in a private store."""

    def __init__(
        self, store: ObjectStore, private: ObjectStore, *, root: str, private_root: str
    ) -> None:
        """`root` is the folder in the store, `private_root` the one in the private store."""
        super().__init__(store)
        self._private = private
        self._root = root
        self._private_root = private_root

    def _resolve(self, key: str) -> tuple[ObjectStore, str]:
        own = self._redirect_key(key)
        return (self._private, own) if own else (self._store, key)

    def _redirect_key(self, key: str) -> str:
        """Key in the private store for an object that is kept there; empty for all others."""
        below = key.removeprefix(self._root)
        return self._private_root + below if below != key else ""


def get_if_present(store: ObjectStore, key: str) -> bytes | None:
    """An object's bytes; None where there is no such object."""
    try:
        return store.get(key)
    except NotFound:
        return None


def put_once(store: ObjectStore, key: str, data: bytes) -> bytes:
    """Write an object unless it exists; the stored bytes, which may be an earlier writer's.

    A slow twin that computed other bytes continues with the first writer's, so that all files of a
    folder fit together.
    """
    try:
        store.put_if_absent(key, data)
    except Precondition:
        return store.get(key)
    return data
