"""Merging adapters in memory through files, as the server does: for tests."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora, second_moments
from hansa.adapter.lora import Tensors
from hansa.adapter.tensor_file import TensorFile, TensorWriter
from hansa.api.spec import Aggregation
from hansa.api.strategies import RegMeanOptions
from hansa_server.measure import measure_distance
from hansa_server.merge import MergeResult, merge, split
from hansa_server.merge_input import MergeInput, Update
from hansa_server.step import fit_step


def draw(seed: int, shapes: lora.Shapes, scale: float = 1.0) -> Tensors:
    """A random adapter of these shapes."""
    random = np.random.default_rng(seed)
    return {
        name: (random.standard_normal(shapes[name]) * scale).astype(np.float32)
        for name in sorted(shapes)
    }


def make_shapes(rank: int, *sizes: tuple[int, int]) -> lora.Shapes:
    """Layers of these outputs and inputs."""
    shapes: lora.Shapes = {}
    for index, (out, width) in enumerate(sizes):
        names = lora.tensor_names(f"model.layers.{index}.proj")
        shapes[names.a], shapes[names.b] = (rank, width), (out, rank)
    return shapes


def draw_moments(seed: int, shapes: lora.Shapes, rank: int = 64, *, scale: float = 1.0) -> Tensors:
    """Moments of random inputs, one for each layer."""
    random = np.random.default_rng(seed)
    made: Tensors = {}
    for module, width in second_moments.input_widths(shapes).items():
        inputs = random.standard_normal((2 * width, width)) * scale
        inputs *= np.exp(random.standard_normal(width))  # some directions are larger
        made |= describe_moments([module], inputs.T @ inputs / len(inputs), rank)
    return made


def describe_moments(layers: Sequence[str], matrix: NDArray[np.float64], rank: int = 64) -> Tensors:
    """One input's moments as they are sent."""
    names = second_moments.moment_names(layers)
    count = second_moments.count_directions(len(matrix), rank)
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 0.0)
    rest = float(values[:-count].mean()) if count < len(values) else 0.0
    return {
        names.vectors: vectors[:, -count:].T.astype(np.float32),
        names.values: np.maximum(values[-count:], rest).astype(np.float32),
        names.rest: np.array([rest], np.float32),
    }


def encode_reversed(tensors: Tensors) -> bytes:
    """A valid safetensors file with its tensors in reverse order of their names."""
    header: dict[str, Any] = {}
    data = b""
    for name in sorted(tensors, reverse=True):
        begin, array = len(data), tensors[name]
        data += array.tobytes()
        place = {"shape": list(array.shape), "data_offsets": [begin, len(data)]}
        header[name] = {"dtype": "F32", **place}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@dataclass(frozen=True)
class ContractMerge:
    """A merge's result in memory."""

    tensors: Tensors
    """The whole adapter."""
    trained: Tensors
    """Its trainable part."""
    frozen: Tensors
    """Its frozen part; empty where it has none."""
    state: Tensors
    """What the strategy remembers."""
    data: bytes
    """The adapter's file."""
    result: MergeResult
    """What the merge said."""
    step: float = 1.0
    """The server step that was taken."""


def run(start: Tensors, updates: Sequence[Tensors], **given: Any) -> ContractMerge:
    """Merge as `task_of` says, with the server step that fits where it is `auto`."""
    with open_task(start, updates, **given) as (task, folder):
        task = fit_step(task)
        result = merge(task, folder / "out", folder / "state")
        return replace(_read(folder, result, task.rank), step=task.step)


@contextmanager
def open_task(
    start: Tensors,
    updates: Sequence[Tensors],
    *,
    frozen: Tensors | None = None,
    state: Tensors | None = None,
    weights: Sequence[float] | None = None,
    round_: int = 3,
    strange: bool = False,
    own: Sequence[Tensors] | None = None,
    **aggregation: Any,
) -> Iterator[tuple[MergeInput, Path]]:
    """A merge's input while its files are open, and their folder; members are 000, 001 and so on.

    `own`: moments of the members, for a strategy that needs them; else random ones.
    `strange`: the first member's file was written by another tool, in another order of tensors.
    Other arguments are fields of `spec.aggregation`.
    """
    settings = Aggregation(**aggregation)
    with TemporaryDirectory() as made, ExitStack() as files:
        folder = Path(made)

        def put(name: str, tensors: Tensors, *, is_strange: bool = False) -> TensorFile:
            path = folder / f"{name}.in"
            if is_strange:
                path.write_bytes(encode_reversed(tensors))
            else:
                write(path, tensors)
            return files.enter_context(TensorFile(path))

        origin = put("start", start)
        members = []
        if settings.needs_moments and own is None:
            rank = settings.read(RegMeanOptions).moments_rank
            own = [draw_moments(i, lora.shapes(u), rank) for i, u in enumerate(updates)]
        for index, tensors in enumerate(updates):
            file = put(f"update-{index}", tensors, is_strange=strange and not index)
            members.append(
                Update(
                    environment=f"{index:03d}",
                    file=file,
                    weight=weights[index] if weights else 1.0,
                    norm=measure_distance(file, origin) if file.shapes == origin.shapes else 0.0,
                    moments=put(f"moments-{index}", own[index]) if own else None,
                )
            )
        task = MergeInput(
            start=origin,
            frozen=put("frozen", frozen) if frozen else None,
            updates=members,
            settings=settings,
            round=round_,
            seed=7,
            state=put("state", state) if state else None,
        )
        yield task, folder


def write(path: Path, tensors: Tensors) -> None:
    """An adapter as a file."""
    with TensorWriter(path, {name: array.shape for name, array in tensors.items()}) as writer:
        for name, array in tensors.items():
            writer.write(name, array)


def read(path: Path) -> Tensors:
    """A file's tensors; none where there is no file."""
    if not path.exists():
        return {}
    with TensorFile(path) as file:
        return {name: file.read(name) for name in file.layout}


def _read(folder: Path, result: MergeResult, rank: int) -> ContractMerge:
    with TensorFile(folder / "out") as file:
        split(file, rank, folder / "new", folder / "new-frozen")
    return ContractMerge(
        tensors=read(folder / "out"),
        trained=read(folder / "new"),
        frozen=read(folder / "new-frozen"),
        state=read(folder / "state"),
        data=(folder / "out").read_bytes(),
        result=result,
    )
