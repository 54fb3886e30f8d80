"""The LoRA adapter as bytes: safetensors to arrays and back, its PEFT config, its untrained start.

Files come from other parties, so reading trusts nothing: whatever is wrong ends in an AdapterError.
Writing is stable: equal tensors give equal bytes, whoever writes them. Numpy only, never torch.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hansa.errors import PermanentError
from hansa.spec import Adapter

Tensors = dict[str, NDArray[np.float32]]
"""Arrays in fp32 under PEFT's names: base_model.model.<module>.lora_A.weight and .lora_B.weight."""
Shapes = dict[str, tuple[int, ...]]
"""Shape of each tensor by its name; A is (rank, in) and B is (out, rank)."""

AdapterReason = Literal["truncated", "header", "duplicate", "offsets", "dtype", "shape", "name"]
"""What can be wrong with an adapter; the message beside it is the sentence for the log."""

MAX_HEADER = 16 * 2**20
"""Bytes of a header at most: room for 100,000 tensors, no room to exhaust the reader's memory."""

_LENGTH = 8
_ALIGN = 8
_ITEM = 4
_FLOAT = np.dtype("<f4")
_NAME = re.compile(
    r"base_model\.model\.(?P<module>[A-Za-z0-9_.]{1,400})\.lora_(?P<side>[AB])\.weight"
)
_METADATA = "__metadata__"


class AdapterError(PermanentError):
    """Bytes or tensors that are no adapter; `reason` is a code, the message the sentence."""

    def __init__(self, reason: AdapterReason, message: str) -> None:
        super().__init__(message)
        self.reason: AdapterReason = reason


@dataclass(frozen=True, kw_only=True)
class _Entry:
    name: str
    shape: tuple[int, ...]
    begin: int
    end: int


def encode(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    """Safetensors with names sorted, so that equal tensors are equal bytes.

    The library orders by its own rule and may change it; a byte promise needs its own writer.
    """
    header: dict[str, Any] = {_METADATA: {"format": "pt"}}  # transformers refuses a file without it
    offset = 0
    for name in sorted(tensors):
        _check_tensor(name, tensors[name].dtype, tensors[name].shape)
        end = offset + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    _check_pairs(header.keys() - {_METADATA})
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGN)
    data = [np.ascontiguousarray(tensors[name], dtype=_FLOAT).tobytes() for name in sorted(tensors)]
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *data])


def decode(data: bytes, *, copy: bool = True) -> Tensors:
    """The tensors of a file, sorted by name; AdapterError for anything that is no adapter.

    Values may still be infinite: judging them is the gate's work. Without `copy` the arrays are
    read-only views of `data`, which saves a reader of many adapters half its memory.
    """
    entries, begin = _parse(data)
    tensors: Tensors = {}
    for entry in entries:
        count = (entry.end - entry.begin) // _ITEM
        flat = np.frombuffer(data, dtype=_FLOAT, count=count, offset=begin + entry.begin)
        array = flat.reshape(entry.shape)
        tensors[entry.name] = array.astype(np.float32) if copy else array
    return tensors


def shapes(adapter: Mapping[str, NDArray[np.float32]] | bytes, size: int | None = None) -> Shapes:
    """Shape of each tensor, sorted by name; of bytes, only the header is read.

    With `size`, the bytes are the head of a file of that length: a server can learn the shapes of
    an update without reading all of it.
    """
    if isinstance(adapter, bytes):
        return {entry.name: entry.shape for entry in _parse(adapter, size)[0]}
    return {name: tuple(adapter[name].shape) for name in sorted(adapter)}


def head_size(first: bytes) -> int:
    """Bytes of a file that `shapes` needs to see; its first eight tell."""
    if len(first) < _LENGTH:
        raise AdapterError("truncated", f"got {len(first)} bytes, expected a safetensors file")
    length = int.from_bytes(first[:_LENGTH], "little")
    if length > MAX_HEADER:
        raise AdapterError("header", f"header of {length} bytes, expected at most {MAX_HEADER}")
    return _LENGTH + length


def start(shapes: Mapping[str, tuple[int, ...]], rank: int, seed: int) -> Tensors:
    """The untrained adapter that every silo and the server make alike: A uniform, B zero.

    A has PEFT's bound, 1 / sqrt(in). Numpy keeps Philox's raw bits stable between versions, but not
    what Generator makes of them, so the floats are made here: 24 bits each, exact in fp32.
    """
    tensors: Tensors = {}
    for name in sorted(shapes):
        _check_tensor(name, np.dtype(np.float32), shapes[name])
        check_rank(name, shapes[name], rank)
        if _side(name) == "A":
            tensors[name] = _uniform(f"{seed}:{name}", shapes[name])
        else:
            tensors[name] = np.zeros(shapes[name], dtype=np.float32)
    _check_pairs(tensors.keys())
    return tensors


def check_rank(name: str, shape: Sequence[int], rank: int) -> None:
    """Refuse a tensor whose inner dimension is not the federation's rank."""
    got = shape[0] if _side(name) == "A" else shape[1]
    if got != rank:
        raise AdapterError("shape", f"{name}: got rank {got}, expected {rank}")


def target_names(names: Iterable[str]) -> list[str]:
    """Full names of the modules that have an adapter, sorted: no suffix can match one too many."""
    modules = {match["module"] for name in names if (match := _NAME.fullmatch(name))}
    return sorted(modules)


def config(adapter: Adapter, source: str, targets: Sequence[str]) -> bytes:
    """adapter_config.json as PeftModel.from_pretrained loads it, with stable bytes.

    PEFT itself writes target_modules in set order, so two saves of one adapter can differ. `source`
    is spec.model.source, never the path where a machine keeps the model.
    """
    document = {
        "base_model_name_or_path": source,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": adapter.alpha,
        "lora_dropout": adapter.dropout,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": adapter.rank,
        "target_modules": sorted(targets),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def distance(a: Mapping[str, NDArray[np.float32]], b: Mapping[str, NDArray[np.float32]]) -> float:
    """Frobenius norm of a - b over all tensors, in float64 and in sorted order."""
    if a.keys() != b.keys():
        raise AdapterError("name", "two adapters with different tensors have no distance")
    total = 0.0
    for name in sorted(a):
        difference = a[name].astype(np.float64) - b[name]
        total += float(np.sum(np.square(difference)))
    return math.sqrt(total)


def is_finite(tensors: Mapping[str, NDArray[np.float32]]) -> bool:
    """Whether every value is a number: one NaN in one update would poison the whole mean."""
    return all(bool(np.isfinite(array).all()) for array in tensors.values())


def _uniform(stream: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:16], "little")
    raw = np.random.Philox(key=key).random_raw(math.prod(shape))
    unit = (raw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    bound = np.float32(1.0 / math.sqrt(shape[1]))
    return ((unit * np.float32(2) - np.float32(1)) * bound).reshape(shape)


def _side(name: str) -> str:
    match = _NAME.fullmatch(name)
    if not match:
        raise AdapterError("name", f"tensor {_short(name)} is no LoRA matrix A or B")
    return match["side"]


def _check_tensor(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
    _side(name)
    if dtype != np.float32:
        raise AdapterError("dtype", f"{_short(name)}: got {dtype}, expected float32")
    if len(shape) != 2 or min(shape) < 1:
        got = _short(list(shape))
        raise AdapterError("shape", f"{_short(name)}: got {got}, expected two dimensions")


def _check_pairs(names: Iterable[str]) -> None:
    found = sorted(names)
    if not found:
        raise AdapterError("name", "the adapter has no tensors")
    known = set(found)
    for name in found:
        stem, side = name.removesuffix(".weight")[:-1], _side(name)
        partner = f"{stem}{'B' if side == 'A' else 'A'}.weight"
        if partner not in known:
            raise AdapterError("name", f"{name} has no partner {partner}")


def _parse(data: bytes, size: int | None = None) -> tuple[list[_Entry], int]:
    """Entries sorted by name, and where the tensors' bytes begin."""
    begin = head_size(data)
    header = _header(data, begin)
    entries = [_entry(name, value) for name, value in header.items() if name != _METADATA]
    _check_pairs(entry.name for entry in entries)
    _check_cover(entries, (len(data) if size is None else size) - begin)
    return sorted(entries, key=lambda entry: entry.name), begin


def _header(data: bytes, end: int) -> dict[str, Any]:
    if end > len(data):
        raise AdapterError("truncated", f"header of {end} bytes in a file of {len(data)}")
    try:
        text = data[_LENGTH:end].decode()
        header = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise AdapterError("header", "the header is no JSON") from None
    if not isinstance(header, dict):
        raise AdapterError("header", "the header is no JSON object")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise AdapterError("duplicate", "the header names a tensor twice")
    return document


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _entry(name: str, value: Any) -> _Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise AdapterError("header", f"{_short(name)}: expected dtype, shape and data_offsets")
    if value["dtype"] != "F32":
        got = _short(value["dtype"])
        raise AdapterError("dtype", f"{_short(name)}: got {got}, expected F32")
    shape, offsets = _numbers(name, value["shape"]), _numbers(name, value["data_offsets"])
    _check_tensor(name, np.dtype(np.float32), shape)
    if len(offsets) != 2:
        raise AdapterError("offsets", f"{name}: expected a begin and an end")
    begin, end = offsets
    if end - begin != math.prod(shape) * _ITEM:
        raise AdapterError("offsets", f"{name}: offsets do not fit the shape")
    return _Entry(name=name, shape=tuple(shape), begin=begin, end=end)


def _numbers(name: str, value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 2**48 for n in value):
        raise AdapterError("header", f"{_short(name)}: expected a list of whole numbers")
    return value


def _check_cover(entries: Sequence[_Entry], size: int) -> None:
    """Tensors lie side by side and fill the file: no gap hides bytes, no overlap shares them."""
    at = 0
    for entry in sorted(entries, key=lambda entry: entry.begin):
        if entry.begin != at:
            raise AdapterError("offsets", f"{entry.name}: begins at {entry.begin}, expected {at}")
        at = entry.end
    if at > size:
        raise AdapterError("truncated", f"got {size} bytes of tensors, expected {at}")
    if at < size:
        raise AdapterError("offsets", f"got {size} bytes of tensors, expected {at}")


def _short(value: object) -> str:
    text = str(value)[:120]
    return "".join(c if c.isprintable() else "?" for c in text)
