"""Updates on disk: copied from the store once, and hashed and checked during the copy."""

from pathlib import Path

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import Float32
from hansa.api.bucket_documents import FileEntry
from hansa.core.errors import Corrupt, NotFound, UnsealError
from hansa.store.base import ObjectStore, Watch
from hansa_server import elementwise, gate
from hansa_server.gate import UpdateRefused

FIRST_READ = 64 * 2**10
"""Bytes of an adapter that are read for its shapes; most headers fit."""


class ValueCheck:
    """A check of a file's values while it is copied, which saves reading the file again.

    It takes all bytes behind the header for fp32; opening the file checks whether it is an adapter.
    """

    def __init__(self) -> None:
        self.is_finite = True
        """Whether every value so far is finite."""
        self.is_bounded = True
        """Whether every absolute value so far is within the gate's limit."""
        self._head = -1
        self._rest = b""

    def __call__(self, begin: int, piece: bytes) -> None:
        """Check the next piece; byte 0 starts over."""
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
        self._check(values)

    def _check(self, values: Float32) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            if np.dot(values, values) < (gate.MOST_VALUE / 2) ** 2:
                return  # the usual case: then every value is finite and small enough
            self.is_bounded = self.is_bounded and bool(np.all(np.abs(values) <= gate.MOST_VALUE))
        self.is_finite = self.is_finite and elementwise.is_finite(values)


_LENGTH = 8
_FLOAT = np.dtype("<f4")
_NONE = np.empty(0, np.float32)


def read_head(store: ObjectStore, key: str, most: int = lora.MAX_HEADER) -> bytes:
    """The header of an adapter's file, which has its shapes; nothing verifies these bytes."""
    head = store.get_range(key, 0, FIRST_READ)
    needed = lora.head_size(head, most)
    if needed > len(head):
        head = store.get_range(key, 0, needed)
    return head[:needed]  # without values, so that equal headers are parsed once


def fetch(
    store: ObjectStore, key: str, entry: FileEntry, path: Path, watch: Watch | None = None
) -> None:
    """Copy a file that a manifest names to `path`; UpdateRefused where it is not that file.

    A copy with another digest is made again, so that no member is refused for a bit flipped in
    transfer.
    """
    try:
        got = store.download(key, path, entry.size, watch)
        if got != entry.sha256:
            got = store.download(key, path, entry.size, watch)
    except NotFound:
        raise UpdateRefused("file-missing", key) from None
    except UnsealError as error:
        raise UpdateRefused("sealed", error.message) from None
    except Corrupt as error:
        raise UpdateRefused("size", error.message) from None
    gate.require(got == entry.sha256, "sha256", f"got {got}, expected {entry.sha256}")
