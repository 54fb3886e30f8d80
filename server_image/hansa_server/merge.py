"""Carrying a merge out: each layer of the result is made, checked and written to its file."""

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
from hansa_server import strategies
from hansa_server.elementwise import BLOCK, ThreadBuffer, blocks, is_finite
from hansa_server.merge_input import Array, Merge, Merged, MergeInput, Pair, Strategy

WORKERS = min(4, os.cpu_count() or 1)
"""Layers that are made side by side; the result does not depend on it."""
Parts = tuple[TensorFile, TensorFile | None]
"""The trainable and the frozen part of a global adapter; as a rule there is no frozen one."""
SPAN = 4 * BLOCK
"""Values that a thread makes before it asks for more: asking takes turns with all other threads."""


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """What a merge has written."""

    frozen_rank: int
    """Rank of the adapter's frozen part."""
    has_state: bool
    """Whether there is something to remember beside it."""
    loss: float
    """Share of the Frobenius norm that compression to a smaller rank cost; 0: nothing."""


def merge(
    task: MergeInput,
    path: Path,
    state: Path,
    progress: Callable[[int, int], None] | None = None,
    strategy: Strategy | None = None,
) -> MergeResult:
    """Write the next adapter to `path`, and what its strategy remembers to `state`."""
    plan = (strategy or strategies.get(task.settings))(task)
    shapes = result_shapes(task, plan.frozen_rank)
    whole = lost = 0.0
    with ExitStack() as files:
        writer = files.enter_context(TensorWriter(path, shapes))
        memory = _memory(files, task, plan, state)
        work = _work(task, plan, shapes, writer, memory)
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


def _work(
    task: MergeInput, plan: Merge, shapes: Shapes, writer: TensorWriter, memory: TensorWriter | None
) -> list[Callable[[], Merged]]:
    """The result in pieces that can be made in any order: layers, or stretches of its data."""
    if plan.stretch is None:
        return [partial(_layer, task, plan, module, writer, memory) for module in task.modules]
    count = sum(math.prod(shape) for shape in shapes.values())
    return [partial(_stretch, task, plan.stretch, writer, *ends) for ends in blocks(count, SPAN)]


def _stretch(
    task: MergeInput, make: Callable[[int, int], Array], writer: TensorWriter, begin: int, end: int
) -> Merged:
    for offset, last in blocks(end - begin, BLOCK):
        made = make(begin + offset, begin + last)
        writer.write_stretch(begin + offset, _finite(task, made, _ROUNDED.take(last - offset)))
    return Merged(trained=_NOTHING)


def result_shapes(task: MergeInput, frozen_rank: int) -> Shapes:
    """Shapes of the result: the frozen part's rank on top of the trainable part's."""
    shapes: Shapes = {}
    for module in task.modules:
        names = lora.names(module)
        rank, width = task.start.layout[names.a].shape
        shapes[names.a] = (rank + frozen_rank, width)
        shapes[names.b] = (task.start.layout[names.b].shape[0], rank + frozen_rank)
    return shapes


def split_rank(file: TensorFile, rank: int) -> int:
    """Rank of the frozen part of a global adapter whose trainable part has that rank."""
    return lora.frozen_rank(file.shapes, rank)


def split(file: TensorFile, rank: int, trained: Path, frozen: Path) -> int:
    """Write the two parts of a global adapter to files of their own; the frozen part's rank."""
    shapes, extra = file.shapes, split_rank(file, rank)
    sides = {name: lora.side(name) for name in shapes}
    with ExitStack() as files:
        for path, begin, end in ((frozen, 0, extra), (trained, extra, extra + rank)):
            if begin == end:
                continue
            writer = files.enter_context(TensorWriter(path, part_shapes(shapes, end - begin)))
            for name, side in sides.items():
                whole = file.read(name)
                writer.write(name, whole[begin:end] if side == "A" else whole[:, begin:end])
    return extra


def part_shapes(shapes: Shapes, rank: int) -> Shapes:
    """Shapes of a part of that rank of a global adapter."""
    return {
        name: (rank, shape[1]) if lora.side(name) == "A" else (shape[0], rank)
        for name, shape in shapes.items()
    }


def _memory(files: ExitStack, task: MergeInput, plan: Merge, path: Path) -> TensorWriter | None:
    if not plan.moments:
        return None
    names = [(f"{moment}.{name}", name) for moment in plan.moments for name in task.start.layout]
    shapes = {kept: task.start.layout[name].shape for kept, name in names}
    return files.enter_context(TensorWriter(path, shapes))


def _layer(
    task: MergeInput, plan: Merge, module: str, writer: TensorWriter, memory: TensorWriter | None
) -> Merged:
    merged = plan.layer(module)
    names = lora.names(module)
    pair = _joined(task, module, merged)
    writer.write(names.a, _finite(task, pair.a))
    writer.write(names.b, _finite(task, pair.b))
    for moment, kept in merged.moments.items():
        assert memory is not None  # noqa: S101  # a plan names its moments
        memory.write(f"{moment}.{names.a}", _finite(task, kept.a))
        memory.write(f"{moment}.{names.b}", _finite(task, kept.b))
    return Merged(trained=_NOTHING, whole=merged.whole, lost=merged.lost)


_NOTHING = Pair(np.empty((0, 0)), np.empty((0, 0)))
_ROUNDED = ThreadBuffer(np.float32)
_CAST = 2048
"""Values that numpy widens at a time when it adds fp32 to float64: 16 KB, which stay in a core's
first cache; its own 64 KB do not. Only for rules without sums along an axis, whose last bits would
follow it."""


def _joined(task: MergeInput, module: str, merged: Merged) -> Pair:
    """The frozen part and the trained part as one adapter."""
    names, frozen = lora.names(module), merged.frozen
    if frozen is None and task.frozen:
        read = task.frozen.read
        frozen = Pair(read(names.a).astype(np.float64), read(names.b).astype(np.float64))
    if frozen is None:
        return merged.trained
    a = np.concatenate([frozen.a, merged.trained.a])
    return Pair(a, np.concatenate([frozen.b, merged.trained.b], axis=1))


def _finite(task: MergeInput, array: Array, room: Float32 | None = None) -> Float32:
    """The values in fp32, in `room` where one is given; an error where one is no number."""
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
