"""A read-only store that caches objects on this disk: an audit hashes each and merges it again."""

import itertools
import os
from pathlib import Path
from typing import NamedTuple

from hansa.core.errors import Corrupt, PermanentError
from hansa.store.base import ForwardingStore, ObjectStore, Watch

PIECE = 2**20
"""Bytes of a cached file that are passed to a watch at a time."""


class CachedObject(NamedTuple):
    """The cached file of an object."""

    path: Path
    sha256: str
    size: int


class ReadOnce(ForwardingStore):
    """A store whose objects are downloaded once; `forget` frees space."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        super().__init__(store)
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._numbers = itertools.count()
        self._files: dict[str, CachedObject] = {}
        self._documents: dict[str, bytes] = {}

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        if key in self._files:
            return self._files[key].path.read_bytes()
        if key not in self._documents:
            self._documents[key] = self._store.get(key)
        return self._documents[key]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """A range of an object, which is cached if it is the whole object."""
        if key in self._files:
            with self._files[key].path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        if key in self._documents:
            return self._documents[key][start : start + length]
        data = self._store.get_range(key, start, length)
        if start == 0 and len(data) < length:
            self._documents[key] = data
        return data

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        if key in self._files:
            return self._files[key].size
        return len(self._documents[key]) if key in self._documents else self._store.size(key)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Link an object's file to `path`; the sha256 of its bytes."""
        kept = self._fetch(key, size)
        if path:
            path.unlink(missing_ok=True)
            os.link(kept.path, path)
        if watch:
            with kept.path.open("rb") as file:
                begin = 0
                while piece := file.read(PIECE):
                    watch(begin, piece)
                    begin += len(piece)
        return kept.sha256 if path else ""

    def digest(self, key: str, size: int) -> str:
        """The sha256 of an object of that size."""
        return self._fetch(key, size).sha256

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Refused: an audit changes nothing."""
        raise PermanentError(f"{key}: got something to write, expected only reading")

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Refused: an audit changes nothing."""
        raise PermanentError(f"{key}: got something to write, expected only reading")

    def remove(self, key: str) -> None:
        """Refused: an audit changes nothing."""
        raise PermanentError(f"{key}: got something to remove, expected only reading")

    def forget(self, root: str) -> None:
        """Delete the cached objects below a root."""
        for key in [key for key in self._files if key.startswith(root)]:
            self._files.pop(key).path.unlink()
        for key in [key for key in self._documents if key.startswith(root)]:
            del self._documents[key]

    def _fetch(self, key: str, size: int) -> CachedObject:
        kept = self._files.get(key)
        if kept is None:
            path = self._folder / f"{next(self._numbers):08d}"
            self._files[key] = kept = CachedObject(
                path, self._store.download(key, path, size), size
            )
        if kept.size != size:
            raise Corrupt(f"{key}: got {kept.size} bytes, expected {size}")
        return kept
