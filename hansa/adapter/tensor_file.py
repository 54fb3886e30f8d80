"""Safetensors files: read without trust, by ranges, and written with stable bytes.

The safetensors library reads whole files and crashes on some broken ones; files here come from
other parties and may be larger than memory. So the header has a strict parser, tensors are read
with pread (mmap would count as the process's memory), and every fault raises AdapterError.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hansa.core.errors import PermanentError

Float32 = NDArray[np.float32]
Shapes = dict[str, tuple[int, ...]]
"""Shape of each tensor by its name."""

AdapterReason = Literal["truncated", "header", "duplicate", "offsets", "dtype", "shape", "name"]
"""What can be wrong with an adapter; the message beside it is the sentence for the log."""

MAX_HEADER = 16 * 2**20
"""Most bytes of a header: enough for 100,000 tensors, too few to exhaust memory."""

FLOAT32: Sequence[str] = ("F32",)
FLOATS: Sequence[str] = ("F32", "F16", "BF16")
"""Types that adapters elsewhere are stored in; all are read as fp32."""

_SIZES = {"F32": 4, "F16": 2, "BF16": 2}
_LARGEST = 2**48
_KEPT_HEAD = 2**18
_FLOAT = np.dtype("<f4")
_LENGTH = 8
_ALIGN = 8
_METADATA = "__metadata__"
_READING = Lock()


class AdapterError(PermanentError):
    """Bytes or tensors that are no adapter; `reason` is a code, the message the sentence."""

    def __init__(self, reason: AdapterReason, message: str) -> None:
        super().__init__(message)
        self.reason: AdapterReason = reason


class TensorEntry(NamedTuple):
    """Where a tensor lies; an adapter has hundreds, so it is the lightest kind of record."""

    name: str
    """Its name."""
    dtype: str
    """Type of its values, as the format spells it."""
    shape: tuple[int, ...]
    """Its shape."""
    begin: int
    """First byte, counted from the start of the file."""
    end: int
    """The byte behind its last."""


Layout = dict[str, TensorEntry]
"""The tensors of a file, sorted by name."""
Check = Callable[[Layout], None]
"""Raises AdapterError for tensors that are not what they should be."""


def head_size(first: bytes, most: int = MAX_HEADER) -> int:
    """Bytes of a file that `parse` needs to see; its first eight tell."""
    if len(first) < _LENGTH:
        raise AdapterError("truncated", f"got {len(first)} bytes, expected a safetensors file")
    length = int.from_bytes(first[:_LENGTH], "little")
    if length > most:
        raise AdapterError("header", f"header of {length} bytes, expected at most {most}")
    return _LENGTH + length


def parse(
    head: bytes, size: int | None, dtypes: Sequence[str] = FLOAT32, check: Check | None = None
) -> Layout:
    """The tensors of a file of `size` bytes that begins with `head`; not to be changed.

    Without a size, they are those of the file that such a head belongs to.

    The members of a round usually have equal heads, and parsing one takes longer than a mean: equal
    heads are parsed and checked only once. Threads parse one head at a time, since parsing takes
    about twenty times its size in memory.
    """
    with _READING:
        if len(head) > _KEPT_HEAD:
            return _parse(head, size, tuple(dtypes), check)
        return _parse_once(head, size, tuple(dtypes), check)


def _parse(head: bytes, size: int | None, dtypes: tuple[str, ...], check: Check | None) -> Layout:
    begin = head_size(head)
    header = _parse_header(head, begin)
    named = {name: value for name, value in header.items() if name != _METADATA}
    entries = [_parse_entry(name, named[name], begin, dtypes) for name in named]
    _check_cover(entries, begin, size)
    layout = {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}
    if check:
        check(layout)
    return layout


_parse_once = lru_cache(maxsize=4)(_parse)


def arrange(shapes: Mapping[str, Sequence[int]]) -> tuple[bytes, Layout]:
    """The head of a file of fp32 tensors and where each lies, with names sorted.

    The library's order may change between versions, so stable bytes need a writer of our own.
    Do not change the result: it is cached.
    """
    return _arrange(tuple((name, tuple(shapes[name])) for name in sorted(shapes)))


@lru_cache(maxsize=4)
def _arrange(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[bytes, Layout]:
    header: dict[str, Any] = {_METADATA: {"format": "pt"}}  # transformers refuses a file without it
    begin = 0
    for name, shape in shapes:
        end = begin + math.prod(shape) * _SIZES["F32"]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGN)
    head = len(text).to_bytes(_LENGTH, "little") + text
    layout: Layout = {}
    for name, shape in shapes:
        begin, end = header[name]["data_offsets"]
        layout[name] = TensorEntry(name, "F32", shape, len(head) + begin, len(head) + end)
    return head, layout


def encode(tensors: Mapping[str, Float32]) -> bytes:
    """Safetensors of fp32 with names sorted, so that equal tensors are equal bytes."""
    head, _ = arrange({name: array.shape for name, array in tensors.items()})
    data = [np.ascontiguousarray(tensors[name], dtype=_FLOAT).tobytes() for name in sorted(tensors)]
    return b"".join([head, *data])


def max_head_size(shapes: Mapping[str, Sequence[int]]) -> int:
    """Bytes of a header of tensors of those shapes at most: other writers space it otherwise."""
    return min(MAX_HEADER, 2 * len(arrange(shapes)[0]) + 64 * 2**10)


def data_size(shapes: Mapping[str, Sequence[int]]) -> int:
    """Bytes of fp32 tensors of those shapes, without a head."""
    return sum(math.prod(shape) for shape in shapes.values()) * _FLOAT.itemsize


class _OpenFile:
    """A file that is closed when a `with` block ends."""

    _file: FileIO

    def close(self) -> None:
        """Close the file; one that is written is complete once every tensor was."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TensorFile(_OpenFile):
    """A file whose tensors are read by ranges, so that memory does not grow with its size."""

    def __init__(
        self,
        path: Path,
        dtypes: Sequence[str] = FLOAT32,
        check: Check | None = None,
        most: int = MAX_HEADER,
    ) -> None:
        self.path = path
        """Where it is."""
        self._file = path.open("rb", buffering=0)
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            """Its length in bytes."""
            first = self._bytes(0, min(_LENGTH, self.size))
            head = self._bytes(0, min(head_size(first, most), self.size))
            self.layout = parse(head, self.size, dtypes, check)
            """Its tensors."""
        except BaseException:
            self._file.close()
            raise

    @property
    def shapes(self) -> Shapes:
        """Shape of each tensor, sorted by name."""
        return {name: entry.shape for name, entry in self.layout.items()}

    def read(self, name: str) -> Float32:
        """A whole tensor."""
        entry = self.layout[name]
        return self.values(name, 0, math.prod(entry.shape)).reshape(entry.shape)

    def values(self, name: str, begin: int, end: int, room: Float32 | None = None) -> Float32:
        """Values `begin` to `end` of a tensor, as they lie in the file.

        `room` is an array to read into, which saves allocating memory in a loop.
        """
        entry = self.layout[name]
        width = _SIZES[entry.dtype]
        offset, count = entry.begin + begin * width, end - begin
        if entry.dtype != "F32":
            raw = np.empty(count * width, dtype=np.uint8)
            self._fill(raw.data, offset)
            return _as_float32(raw, entry.dtype)
        values = np.empty(count, dtype=_FLOAT) if room is None else room[:count]
        self._fill(values.data.cast("B"), offset)
        return values

    @cached_property
    def order(self) -> list[str]:
        """Its tensors' names as they lie."""
        return sorted(self.layout, key=lambda name: self.layout[name].begin)

    def has_same_layout(self, other: "TensorFile") -> bool:
        """Whether both have the same tensors, in fp32, at the same places of their data."""
        if any(e.dtype != "F32" for file in (self, other) for e in file.layout.values()):
            return False
        if self.layout is other.layout:  # usual, since `parse` caches the last few
            return True
        return self.shapes == other.shapes and self.order == other.order

    def stretch(self, begin: int, end: int, room: Float32 | None = None) -> Float32:
        """Values `begin` to `end` of the whole file, counted over its fp32 tensors as they lie.

        A file has hundreds of small tensors: reading across them takes fewer, longer reads.
        """
        values = np.empty(end - begin, dtype=_FLOAT) if room is None else room[: end - begin]
        self._fill(values.data.cast("B"), self._origin + begin * _FLOAT.itemsize)
        return values

    @cached_property
    def _origin(self) -> int:
        return min(entry.begin for entry in self.layout.values())

    def rows(self, name: str, begin: int, end: int, room: Float32 | None = None) -> Float32:
        """Some rows of a matrix."""
        columns = self.layout[name].shape[1]
        return self.values(name, begin * columns, end * columns, room).reshape(-1, columns)

    def columns(self, name: str, begin: int, end: int, room: Float32 | None = None) -> Float32:
        """Some columns of a matrix; of all, in one read."""
        rows, columns = self.layout[name].shape
        if (begin, end) == (0, columns):
            return self.rows(name, 0, rows, room)
        size = rows * (end - begin)
        made = (np.empty(size, dtype=_FLOAT) if room is None else room[:size]).reshape(rows, -1)
        for row, into in enumerate(made):
            into[:] = self.values(name, row * columns + begin, row * columns + end, into)
        return made

    def _bytes(self, offset: int, length: int) -> bytes:
        data = bytearray(length)
        self._fill(memoryview(data), offset)
        return bytes(data)

    def _fill(self, view: memoryview, offset: int) -> None:
        got = os.preadv(self._file.fileno(), [view], offset)
        while got < len(view):
            count = os.preadv(self._file.fileno(), [view[got:]], offset + got)
            if not count:
                raise AdapterError("truncated", f"got {offset + got} bytes, expected more")
            got += count


class TensorWriter(_OpenFile):
    """A file of fp32 tensors whose shapes are known; they come in any order, from any thread."""

    def __init__(self, path: Path, shapes: Mapping[str, Sequence[int]]) -> None:
        head, self._layout = arrange(shapes)
        self._origin = len(head)
        self._file = path.open("wb", buffering=0)
        self._put(head, 0)
        # A sparse file until the tensors are written.
        self._file.truncate(max([len(head), *(entry.end for entry in self._layout.values())]))

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Put a tensor into its place, as fp32."""
        entry = self._layout[name]
        if tuple(array.shape) != entry.shape:
            raise AdapterError("shape", f"{name}: got {array.shape}, expected {entry.shape}")
        self._put(np.ascontiguousarray(array, dtype="<f4").data.cast("B"), entry.begin)

    def write_stretch(self, begin: int, values: Float32) -> None:
        """Put values into their place, counted over all tensors as they lie: sorted by name."""
        self._put(values.data.cast("B"), self._origin + begin * _FLOAT.itemsize)

    def _put(self, data: bytes | memoryview, offset: int) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            done += os.pwrite(self._file.fileno(), view[done:], offset + done)


def _as_float32(raw: NDArray[np.uint8], dtype: str) -> Float32:
    if dtype == "F16":
        return raw.view("<f2").astype(np.float32)
    wide = raw.view("<u2").astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)  # BF16 is the upper half of an fp32


def _parse_header(data: bytes, end: int) -> dict[str, Any]:
    if end > len(data):
        raise AdapterError("truncated", f"header of {end} bytes in a file of {len(data)}")
    try:
        text = data[_LENGTH:end].decode()
        header = json.loads(
            text, object_pairs_hook=_require_unique, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        raise AdapterError("header", "the header is no JSON") from None
    if not isinstance(header, dict):
        raise AdapterError("header", "the header is no JSON object")
    return header


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise AdapterError("duplicate", "the header names a tensor twice")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_MOST_DIMENSIONS = 8
"""Multiplying many large dimensions would take quadratic time."""


def _parse_entry(name: str, value: Any, origin: int, dtypes: Sequence[str]) -> TensorEntry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise AdapterError(
            "header", f"{clip_printable(name)}: expected dtype, shape and data_offsets"
        )
    dtype = value["dtype"]
    if dtype not in dtypes:
        wanted = " or ".join(dtypes)
        raise AdapterError(
            "dtype", f"{clip_printable(name)}: got {clip_printable(dtype)}, expected {wanted}"
        )
    shape, offsets = (_parse_numbers(name, value[key]) for key in ("shape", "data_offsets"))
    if len(shape) > _MOST_DIMENSIONS:
        raise AdapterError(
            "header", f"{clip_printable(name)}: got {len(shape)} dimensions, expected two"
        )
    if len(offsets) != 2:
        raise AdapterError("offsets", f"{clip_printable(name)}: expected a begin and an end")
    begin, end = offsets
    if end - begin != math.prod(shape) * _SIZES[dtype]:
        raise AdapterError("offsets", f"{clip_printable(name)}: offsets do not fit the shape")
    return TensorEntry(name, dtype, tuple(shape), origin + begin, origin + end)


def _parse_numbers(name: str, value: Any) -> list[int]:
    if isinstance(value, list) and all(type(n) is int and 0 <= n < _LARGEST for n in value):
        return value
    raise AdapterError("header", f"{clip_printable(name)}: expected a list of whole numbers")


def _check_cover(entries: Sequence[TensorEntry], begin: int, size: int | None) -> None:
    """Tensors must be contiguous and fill the file: no gaps, no overlaps."""
    at = begin
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != at:
            where = f"begins at {entry.begin - begin}, expected {at - begin}"
            raise AdapterError("offsets", f"{clip_printable(entry.name)}: {where}")
        at = entry.end
    if size is not None and at != size:
        reason: AdapterReason = "truncated" if at > size else "offsets"
        raise AdapterError(reason, f"got {size} bytes, expected {at}")


def clip_printable(value: object) -> str:
    """Untrusted text, short and printable for a log line."""
    text = str(value)[:120]
    return "".join(c if c.isprintable() else "?" for c in text)
