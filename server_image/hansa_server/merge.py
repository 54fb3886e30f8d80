"""Running a merge: each layer of the result is computed, checked and written to its file."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import Float32, Shapes, TensorFile, TensorWriter
from hansa.core.errors import PermanentError
from hansa_server import plugin
from hansa_server.elementwise import BLOCK, ThreadBuffer, is_finite, split_range
from hansa_server.merge_input import Array, Merge, Merged, MergeInput, Pair, Strategy

WORKERS = min(4, os.cpu_count() or 1)
"""Layers that are computed at a time; the result does not depend on it."""
Parts = tuple[TensorFile, TensorFile | None]
"""The trainable and the frozen part of a global adapter; most have no frozen part."""
SPAN = 4 * BLOCK
"""Values of one item of work: shorter items would make threads wait for one another."""


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """What a merge has written."""

    frozen_rank: int
    """Rank of the adapter's frozen part."""
    has_state: bool
    """Whether the strategy stores state beside it."""
    loss: float
    """Relative error of compression to a smaller rank, by the Frobenius norm; 0: none."""


def merge(
    task: MergeInput,
    path: Path,
    state: Path,
    progress: Callable[[int, int], None] | None = None,
    strategy: Strategy | None = None,
) -> MergeResult:
    """Write the next adapter to `path`, and its strategy's state to `state`."""
    plan = (strategy or plugin.get(task.settings))(task)
    shapes = compute_result_shapes(task, plan.frozen_rank)
    whole = lost = 0.0
    with ExitStack() as files:
        writer = files.enter_context(TensorWriter(path, shapes))
        memory = _open_state(files, task, plan, state)
        work = _list_work(task, plan, shapes, writer, memory)
        ready = partial(np.setbufsize, _CAST) if plan.stretch else None
        pool = files.enter_context(ThreadPoolExecutor(WORKERS, initializer=ready))
        for done, merged in enumerate(pool.map(lambda piece: piece(), work), start=1):
            whole, lost = whole + merged.whole, lost + merged.lost
            if progress:
                progress(done, len(work))
    return MergeResult(
        frozen_rank=plan.frozen_rank,
        has_state=bool(plan.moments),
        loss=math.sqrt(lost / whole) if whole else 0.0,
    )


def _list_work(
    task: MergeInput, plan: Merge, shapes: Shapes, writer: TensorWriter, memory: TensorWriter | None
) -> list[Callable[[], Merged]]:
    """Items of work in any order: layers, or ranges of the result's data."""
    if plan.stretch is None:
        return [
            partial(_write_layer, task, plan, module, writer, memory) for module in task.modules
        ]
    count = sum(math.prod(shape) for shape in shapes.values())
    return [
        partial(_write_stretch, task, plan.stretch, writer, *ends)
        for ends in split_range(count, SPAN)
    ]


def _write_stretch(
    task: MergeInput, make: Callable[[int, int], Array], writer: TensorWriter, begin: int, end: int
) -> Merged:
    for offset, last in split_range(end - begin, BLOCK):
        made = make(begin + offset, begin + last)
        writer.write_stretch(
            begin + offset, _round_finite(task, made, _ROUNDED.take(last - offset))
        )
    return Merged(trained=_NOTHING)


def compute_result_shapes(task: MergeInput, frozen_rank: int) -> Shapes:
    """Shapes of the result, whose rank is that of the trainable part plus `frozen_rank`."""
    shapes: Shapes = {}
    for module in task.modules:
        names = lora.tensor_names(module)
        rank, width = task.start.layout[names.a].shape
        shapes[names.a] = (rank + frozen_rank, width)
        shapes[names.b] = (task.start.layout[names.b].shape[0], rank + frozen_rank)
    return shapes


def split(file: TensorFile, rank: int, trained: Path, frozen: Path) -> int:
    """Write the two parts of a global adapter to separate files; the frozen part's rank."""
    shapes, extra = file.shapes, lora.frozen_rank(file.shapes, rank)
    sides = {name: lora.side(name) for name in shapes}
    with ExitStack() as files:
        for path, begin, end in ((frozen, 0, extra), (trained, extra, extra + rank)):
            if begin == end:
                continue
            writer = files.enter_context(
                TensorWriter(path, compute_part_shapes(shapes, end - begin))
            )
            for name, side in sides.items():
                whole = file.read(name)
                writer.write(name, whole[begin:end] if side == "A" else whole[:, begin:end])
    return extra


def compute_part_shapes(shapes: Shapes, rank: int) -> Shapes:
    """Shapes of a global adapter's part of this rank."""
    return {
        name: (rank, shape[1]) if lora.side(name) == "A" else (shape[0], rank)
        for name, shape in shapes.items()
    }


def _open_state(files: ExitStack, task: MergeInput, plan: Merge, path: Path) -> TensorWriter | None:
    if not plan.moments:
        return None
    names = [(f"{moment}.{name}", name) for moment in plan.moments for name in task.start.layout]
    shapes = {kept: task.start.layout[name].shape for kept, name in names}
    return files.enter_context(TensorWriter(path, shapes))


def _write_layer(
    task: MergeInput, plan: Merge, module: str, writer: TensorWriter, memory: TensorWriter | None
) -> Merged:
    merged = plan.layer(module)
    names = lora.tensor_names(module)
    pair = _join_parts(task, module, merged)
    writer.write(names.a, _round_finite(task, pair.a))
    writer.write(names.b, _round_finite(task, pair.b))
    for moment, kept in merged.moments.items():
        assert memory is not None  # noqa: S101  # a plan names its moments
        memory.write(f"{moment}.{names.a}", _round_finite(task, kept.a))
        memory.write(f"{moment}.{names.b}", _round_finite(task, kept.b))
    return Merged(trained=_NOTHING, whole=merged.whole, lost=merged.lost)


_NOTHING = Pair(np.empty((0, 0)), np.empty((0, 0)))
_ROUNDED = ThreadBuffer(np.float32)
_CAST = 2048
"""Buffer size of numpy when it adds fp32 to float64: 16 KB fit into a core's L1 cache, the default
of 64 KB does not. Only for rules without sums along an axis, whose last bits would depend on it."""


def _join_parts(task: MergeInput, module: str, merged: Merged) -> Pair:
    """The frozen part and the trained part as one adapter."""
    names, frozen = lora.tensor_names(module), merged.frozen
    if frozen is None and task.frozen:
        read = task.frozen.read
        frozen = Pair(read(names.a).astype(np.float64), read(names.b).astype(np.float64))
    if frozen is None:
        return merged.trained
    a = np.concatenate([frozen.a, merged.trained.a])
    return Pair(a, np.concatenate([frozen.b, merged.trained.b], axis=1))


def _round_finite(task: MergeInput, array: Array, room: Float32 | None = None) -> Float32:
    """The values in fp32, in `room` where it is given; an error where one is not finite."""
    rounded = np.empty(array.shape, np.float32) if room is None else room
    with np.errstate(over="ignore"):
        np.copyto(rounded, array, casting="same_kind")
    if not is_finite(rounded.reshape(-1)):
        step = task.step
        raise PermanentError(
            f"aggregation.serverStep: got {step}, which makes the adapter infinite",
            hint="lower aggregation.serverStep or the learning rate",
        )
    return rounded
