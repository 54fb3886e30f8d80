"""Object stores without a server, for tests of what is read and written.

tests/contract/test_stores.py holds them to what the real one does.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from hansa.api.bucket_documents import sha256
from hansa.core.errors import Corrupt, NotFound, Precondition
from hansa.store.base import ForwardingStore, ObjectStore, Watch

PIECE = 1021
"""Bytes of an object seen at a time: an odd number, for nobody may count on whole values."""


class MemoryStore:
    """Keeps objects in a dict, counts nothing, and lets a test act before a write.

    `before_put` is called with each key: it may write first, as a twin would, or raise, as a kill.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: list[str] = []
        self.read: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []
        self.before_put: Callable[[str], None] = lambda key: None
        self._writing = threading.Lock()

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return self._object(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.ranges.append((key, start, length))
        return self._object(key)[start : start + length]

    def size(self, key: str) -> int:
        return len(self._object(key))

    def put_if_absent(self, key: str, data: bytes) -> None:
        self.before_put(key)
        with self._writing:
            if key in self.objects:
                raise Precondition(f"{key} exists already")
            self.objects[key] = bytes(data)
            self.written.append(key)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        if self.size(key) != size:
            raise Corrupt(f"{key}: got {self.size(key)} bytes, expected {size}")
        data = self.get(key)
        for begin in range(0, len(data) if watch else 0, PIECE):
            watch(begin, data[begin : begin + PIECE])
        if path is None:
            return ""
        path.write_bytes(data)
        return sha256(data)

    def upload_if_absent(self, key: str, path: Path) -> str:
        self.put_if_absent(key, path.read_bytes())
        return sha256(path.read_bytes())

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(key for key in self.objects if key.startswith(prefix)))

    def remove(self, key: str) -> None:
        self.objects.pop(key, None)

    def _object(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise NotFound(f"{key} does not exist") from None


class Replaced(ForwardingStore):
    """A store in which a silo has put something else under one of its keys."""

    def __init__(self, store: ObjectStore, key: str, data: bytes) -> None:
        super().__init__(store)
        self._key, self._lie = key, MemoryStore()
        self._lie.put_if_absent(key, data)

    def _resolve(self, key: str) -> tuple[ObjectStore, str]:
        return (self._lie if key == self._key else self._store), key

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted({*self._store.list(prefix), *self._lie.list(prefix)}))
