"""The LoRA adapter: its tensors to bytes and back, its PEFT config, its untrained start.

`tensor_file` has the format; this module has what makes a file of tensors an adapter. Equal tensors
give equal bytes. Numpy only, never torch.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import tensor_file
from hansa.adapter.tensor_file import (
    MAX_HEADER,
    AdapterError,
    AdapterReason,
    Layout,
    Shapes,
    TensorFile,
    clip_printable,
    head_size,
)
from hansa.api.bucket_documents import fingerprint

if TYPE_CHECKING:
    from hansa.api.spec import Adapter  # all of a spec takes longer to import than a mean to make

__all__ = ["MAX_HEADER", "AdapterError", "AdapterReason", "Shapes", "head_size"]

Tensors = dict[str, NDArray[np.float32]]
"""Arrays in fp32 under PEFT's names: base_model.model.<module>.lora_A.weight and .lora_B.weight."""
_FLOAT = np.dtype("<f4")
_NAME = re.compile(
    r"base_model\.model\.(?P<module>[A-Za-z0-9_.]{1,400})\.lora_(?P<side>[AB])\.weight"
)


class LoraNames(NamedTuple):
    """The two tensors of a layer's adapter."""

    a: str
    """Name of A, of shape (rank, in)."""
    b: str
    """Name of B, of shape (out, rank)."""


def encode(tensors: Mapping[str, NDArray[np.float32]]) -> bytes:
    """The file of an adapter; AdapterError for tensors that are none."""
    for name in sorted(tensors):
        _check_tensor(name, tensors[name].dtype, tensors[name].shape)
    _check_pairs(tensors)
    return tensor_file.encode(tensors)


def decode(data: bytes, *, copy: bool = True) -> Tensors:
    """The tensors of a file, sorted by name; AdapterError for anything that is not an adapter.

    Values may still be infinite: judging them is the gate's work. Without `copy` the arrays are
    read-only views of `data`, which saves a reader of many adapters half its memory.
    """
    tensors: Tensors = {}
    for entry in tensor_file.parse(data, len(data), check=check_layout).values():
        count = (entry.end - entry.begin) // _FLOAT.itemsize
        flat = np.frombuffer(data, dtype=_FLOAT, count=count, offset=entry.begin)
        array = flat.reshape(entry.shape)
        tensors[entry.name] = array.astype(np.float32) if copy else array
    return tensors


def parse_shapes(head: bytes, size: int | None) -> Shapes:
    """Shape of each tensor, sorted by name, by the head of an adapter's file of `size` bytes.

    A server can learn the shapes of an update without reading all of it. Without a size, they are
    those of the file that such a head belongs to.
    """
    entries = tensor_file.parse(head, size, check=check_layout)
    return {name: entry.shape for name, entry in entries.items()}


def check_layout(layout: Layout) -> None:
    """Refuse tensors that are no LoRA adapter: other names, one of a pair, no matrix."""
    for entry in layout.values():
        side(entry.name)
        _check_matrix(entry.name, entry.shape)
    _check_pairs(layout)


def open_file(
    path: Path,
    dtypes: Sequence[str] = tensor_file.FLOAT32,
    check: tensor_file.Check = check_layout,
    most: int = MAX_HEADER,
) -> TensorFile:
    """An adapter's file, to be read by ranges; AdapterError for anything that is none.

    `most` bounds its header, where the reader knows which tensors it must have.
    """
    return TensorFile(path, dtypes, check, most)


def tensor_names(module: str) -> LoraNames:
    """What PEFT calls the two tensors of a module."""
    stem = f"base_model.model.{module}.lora_"
    return LoraNames(f"{stem}A.weight", f"{stem}B.weight")


@lru_cache(maxsize=4096)
def side(name: str) -> str:
    """Which half of the pair a tensor is: A or B."""
    match = _NAME.fullmatch(name)
    if not match:
        raise AdapterError("name", f"tensor {clip_printable(name)} is no LoRA matrix A or B")
    return match["side"]


def shapes(tensors: Mapping[str, NDArray[np.float32]]) -> Shapes:
    """Shape of each tensor, sorted by name."""
    return {name: tuple(tensors[name].shape) for name in sorted(tensors)}


def shapes_digest(shapes: Mapping[str, Sequence[int]]) -> str:
    """Digest of the names and shapes, whatever their order: what spec.adapter.shapes names."""
    return fingerprint({name: list(shape) for name, shape in shapes.items()})


def init_adapter(
    shapes: Mapping[str, tuple[int, ...]], rank: int, seed: int, round_: int = 0
) -> Tensors:
    """The untrained adapter that every silo and the server make alike: A uniform, B zero.

    A strategy that starts anew in each round draws another one for it.

    A has PEFT's bound, 1 / sqrt(in). Numpy keeps Philox's raw bits stable between versions, but not
    Generator's floats, so they are computed here from 24 bits each, exact in fp32.
    """
    stream = f"{seed}:{round_}" if round_ else f"{seed}"
    tensors: Tensors = {}
    for name in sorted(shapes):
        _check_tensor(name, np.dtype(np.float32), shapes[name])
        check_rank(name, shapes[name], rank)
        if side(name) == "A":
            tensors[name] = _uniform(f"{stream}:{name}", shapes[name])
        else:
            tensors[name] = np.zeros(shapes[name], dtype=np.float32)
    _check_pairs(tensors.keys())
    return tensors


def check_rank(name: str, shape: Sequence[int], rank: int) -> None:
    """Refuse a tensor whose inner dimension is not the federation's rank."""
    got = shape[0] if side(name) == "A" else shape[1]
    if got != rank:
        raise AdapterError("shape", f"{name}: got rank {got}, expected {rank}")


def frozen_rank(shapes: Mapping[str, Sequence[int]], rank: int) -> int:
    """Rank of the frozen part of an adapter whose trained part has that rank; 0: it has none.

    All layers have the same: where one had another, its trained part would be cut elsewhere.
    """
    first = next(name for name in shapes if side(name) == "A")
    whole = shapes[first][0]
    if whole < rank:
        raise AdapterError("shape", f"{first}: got rank {whole}, expected {rank} or more")
    for name, shape in shapes.items():
        check_rank(name, shape, whole)
    return whole - rank


def target_names(names: Iterable[str]) -> list[str]:
    """Full names of the modules that have an adapter, sorted: a suffix could match others."""
    modules = {match["module"] for name in names if (match := _NAME.fullmatch(name))}
    return sorted(modules)


def render_config(
    adapter: "Adapter", source: str, targets: Sequence[str], frozen_rank: int = 0
) -> bytes:
    """adapter_config.json as PeftModel.from_pretrained loads it, with stable bytes.

    A frozen part adds to the rank; alpha grows with it, so that the scale stays alpha / rank.

    PEFT itself writes target_modules in set order, so two saves of one adapter can differ. `source`
    is spec.model.source, never the path where a machine keeps the model.
    """
    rank = adapter.rank + frozen_rank
    alpha = adapter.alpha * rank / adapter.rank
    base = base_name(source)
    document = {
        "base_model_name_or_path": base.name,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "lora_dropout": adapter.dropout,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": sorted(targets),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }
    if base.revision:
        document["revision"] = base.revision
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


class BaseName(NamedTuple):
    """A base model as PEFT and transformers name it."""

    name: str
    """A folder, or an id of the Hugging Face hub; otherwise spec.model.source."""
    revision: str = ""
    """Revision of the hub's repository; empty: the newest, or not from the hub."""


def base_name(source: str) -> BaseName:
    """What `from_pretrained` takes for a spec.model.source, where it can load it."""
    scheme, _, rest = source.partition(":")
    if scheme == "path":
        is_plain = rest.startswith(("/", ".", "~"))
        return BaseName(rest if is_plain else f"./{rest}")  # org/name would be the hub's
    if scheme == "hf":
        name, _, revision = rest.partition("@")
        return BaseName(name, revision)
    return BaseName(source)


class Parts(NamedTuple):
    """A global adapter taken apart."""

    frozen: Tensors
    """What clients load and do not train; empty where there is none."""
    trained: Tensors
    """What they train, of the federation's rank."""


def split(tensors: Tensors, rank: int) -> Parts:
    """The frozen part, which comes first in A's rows and B's columns, and the trained part."""
    extra = frozen_rank(shapes(tensors), rank)
    if extra == 0:
        return Parts({}, tensors)
    frozen, trained = {}, {}
    for name, array in tensors.items():
        rows = array if side(name) == "A" else array.T
        parts = [rows[:extra], rows[extra:]]
        frozen[name], trained[name] = (
            np.ascontiguousarray(part if side(name) == "A" else part.T) for part in parts
        )
    return Parts(frozen, trained)


def join(frozen: Tensors, trained: Tensors) -> Tensors:
    """The whole adapter from the parts that `split` returns."""
    if not frozen:
        return trained
    return {
        name: np.concatenate([frozen[name], array], axis=0 if side(name) == "A" else 1)
        for name, array in trained.items()
    }


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
    """Whether all values are finite: one NaN in one update would spoil the whole mean."""
    return all(bool(np.isfinite(array).all()) for array in tensors.values())


def _uniform(stream: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:16], "little")
    raw = np.random.Philox(key=key).random_raw(math.prod(shape))
    raw >>= np.uint64(40)
    values = raw.astype(np.float32)
    values *= np.float32(2.0**-23)
    values -= np.float32(1)  # from -1 to 1, all of it exact
    values *= np.float32(1.0 / math.sqrt(shape[1]))
    return values.reshape(shape)


def _check_tensor(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
    side(name)
    if dtype != np.float32:
        raise AdapterError("dtype", f"{clip_printable(name)}: got {dtype}, expected float32")
    _check_matrix(name, shape)


def _check_matrix(name: str, shape: Sequence[int]) -> None:
    if len(shape) != 2 or min(shape) < 1:
        got = clip_printable(list(shape))
        raise AdapterError("shape", f"{clip_printable(name)}: got {got}, expected two dimensions")


def _check_pairs(names: Iterable[str]) -> None:
    known = set(names)
    if not known:
        raise AdapterError("name", "the adapter has no tensors")
    for name in sorted(known):
        stem, half = name.removesuffix(".weight")[:-1], side(name)
        partner = f"{stem}{'B' if half == 'A' else 'A'}.weight"
        if partner not in known:
            raise AdapterError("name", f"{name} has no partner {partner}")
