"""Updates on disk: copied from the store once, hashed and looked at on the way."""

from pathlib import Path

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import Float32
from hansa.api.bucket_documents import FileEntry
from hansa.core.errors import Corrupt, NotFound, Unopened
from hansa.store.base import ObjectStore, Watch
from hansa_server import elementwise, gate
from hansa_server.gate import UpdateRefused

FIRST_READ = 64 * 2**10
"""Bytes of an adapter read to learn its shapes; most headers fit."""


class Glance:
    """A look at a file's values as they pass, which saves reading the whole file once more.

    It takes what follows the head for fp32 and trusts nothing else: of a file that is no adapter
    it says nothing, and whoever opens the file refuses it.
    """

    def __init__(self) -> None:
        self.is_finite = True
        """Whether every value so far is a number."""
        self.is_bounded = True
        """Whether every one is of a size that an adapter's may have."""
        self._head = -1
        self._rest = b""

    def __call__(self, begin: int, piece: bytes) -> None:
        """See a piece, in order; byte 0 begins anew."""
        if begin == 0:
            self.is_finite, self.is_bounded, self._head, self._rest = True, True, -1, b""
        data = self._rest + piece if self._rest else piece
        if self._head < 0:
            if len(data) < _LENGTH:
                self._rest = data
                return
            self._head = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        skipped = min(self._head, len(data))
        self._head -= skipped
        count = (len(data) - skipped) // _FLOAT.itemsize
        self._rest = data[skipped + count * _FLOAT.itemsize :]
        values = np.frombuffer(data, _FLOAT, count, skipped) if count else _NONE
        self._look(values)

    def _look(self, values: Float32) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            if np.dot(values, values) < (gate.MOST_VALUE / 2) ** 2:
                return  # as a rule: then no value is larger, nor anything but a number
            self.is_bounded = self.is_bounded and bool(np.all(np.abs(values) <= gate.MOST_VALUE))
        self.is_finite = self.is_finite and elementwise.is_finite(values)


_LENGTH = 8
_FLOAT = np.dtype("<f4")
_NONE = np.empty(0, np.float32)


def read_head(store: ObjectStore, key: str, most: int = lora.MAX_HEADER) -> bytes:
    """The head of an adapter's file, which tells its shapes; nothing verifies these bytes."""
    head = store.get_range(key, 0, FIRST_READ)
    needed = lora.head_size(head, most)
    if needed > len(head):
        head = store.get_range(key, 0, needed)
    return head[:needed]  # without values: equal heads are parsed once


def copy(store: ObjectStore, key: str, entry: FileEntry, path: Path) -> Glance:
    """Copy an update's file to `path`; what a look at its values shows.

    Only the bytes that its manifest names are left there. A copy of another digest is made once
    more: the way here may flip a bit, and an honest member should not be refused for it.
    """
    glance = Glance()
    fetch(store, key, entry, path, glance)
    return glance


def fetch(
    store: ObjectStore, key: str, entry: FileEntry, path: Path, watch: Watch | None = None
) -> None:
    """Copy a file that a manifest names to `path`, or Refused."""
    try:
        got = store.download(key, path, entry.size, watch)
        if got != entry.sha256:
            got = store.download(key, path, entry.size, watch)
    except NotFound:
        raise UpdateRefused("file-missing", key) from None
    except Unopened as error:
        raise UpdateRefused("sealed", error.message) from None
    except Corrupt as error:
        raise UpdateRefused("size", error.message) from None
    gate.check_sha256(entry, got)
