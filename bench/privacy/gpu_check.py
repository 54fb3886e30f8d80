"""Whether private gradients on a GPU are right: of recorded rows, packed ones, and one by one."""

import copy
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from private import MANY, lesson_of  # type: ignore[import-not-found]  # of bench/train

from hansa.adapter import lora as adapter
from hansa.api.spec import Adapter
from hansa_client.learners import TrainingSet, loop
from hansa_client.learners.private import PrivateRun
from hansa_client.learners.private_graph import GraphedSums
from hansa_client.learners.success_sft import Imitation
from hansa_client.models import fused_layers, lora
from hansa_client.models.base_model import Base
from hansa_client.models.segments import Segments
from hansa_client.training import even_rows, packing, scoring
from hansa_client.training.scoring import PackedScorer, Scorer
from hansa_client.trajectory import Sequence

SHAPE = Adapter()
TWICE = 2.0
EXACT = 1e-4
"""Largest relative error in fp32, where rounding is no excuse."""
SOME = range(0, MANY, 4)
"""Trajectories that are computed one by one, too."""
Gradients = list[torch.Tensor]
"""Of each trajectory all values in a row, in float64."""


def moved(base: Base) -> adapter.Tensors:
    """An adapter that has left its start, so that A has gradients as well as B."""
    made = adapter.init_adapter(lora.shapes(base.model, SHAPE), SHAPE.rank, 7)
    random = np.random.default_rng(1)
    return {n: a + 0.01 * random.standard_normal(a.shape, np.float32) for n, a in made.items()}


def moved_lesson(base: Base, length: int) -> TrainingSet:
    lesson = lesson_of(base, length, SHAPE, private=True)
    return TrainingSet(**{**vars(lesson), "start": moved(base)})


@contextmanager
def running(base: Base, lesson: TrainingSet, *, packed: bool) -> Iterator[PrivateRun]:
    """A private training as `loop.train` sets it up, to be asked for gradients."""
    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, lesson.half)
    wrapped.train()
    objective = Imitation(lesson)
    try:
        if not packed:
            yield loop._make_run(wrapped, Scorer(wrapped, base.device), lesson, objective)  # type: ignore[misc]
            return
        segments = Segments()
        with (
            fused_layers.fuse_layers(wrapped, dropout=0.0, segments=segments),
            packing.use_packed_attention(wrapped),
        ):
            own = PackedScorer(wrapped, base.device)
            yield loop._make_run(wrapped, own, lesson, objective, segments)  # type: ignore[misc]
    finally:
        wrapped.eval()
        lora.detach(wrapped)


def together(base: Base, lesson: TrainingSet, parts: list[list[int]]) -> Gradients:
    """From packed rows of these trajectories."""
    with running(base, lesson, packed=True) as run:
        assert run.packed
        rows = [run.packed.compute_gradients(part) for part in parts]
    return [
        torch.cat([each[place].double().flatten() for each in row]).cpu()
        for row, part in zip(rows, parts, strict=True)
        for place in range(len(part))
    ]


def recorded(base: Base, lessons: list[TrainingSet]) -> list[Gradients]:
    """From a recorded row of all trajectories, of each lesson; its sequences alone may differ."""
    every, kept = list(range(MANY)), []
    with running(base, lessons[0], packed=True) as run:
        packed = run.packed
        assert packed
        own = ([every] * scoring.MANY, packed._lengths, packed._agents, packed.room)
        shapes = even_rows.choose_shapes(*own, least=scoring.MANY)
        values = sum(weight.numel() for weight in run.weights)
        rows = run.weights[0].new_zeros(shapes[0].count, values)

        def keep(_: torch.Tensor, made: torch.Tensor, into: torch.Tensor = rows) -> None:
            into.copy_(made)

        graphs = GraphedSums(packed.scorer, packed.segments, run.weights, shapes, keep)
        for lesson in lessons:
            (both,) = even_rows.fill_rows(every, packed._lengths, shapes)
            sequences = [lesson.sequences[index] for index in both[1]]
            shares = [packed._shares[index] for index in both[1]]
            graphs.add(both[0], even_rows.build_row(both[0], sequences, shares))
            made = rows.double().cpu()
            kept.append([made[both[1].index(index)] for index in every])
    return kept


def singly(base: Base, lesson: TrainingSet) -> Gradients:
    """Some, one by one, padded and not packed, as any model can be."""
    with running(base, lesson, packed=False) as run:
        return [
            torch.cat([g.double().flatten() for g in run.compute_gradients(i)]).cpu() for i in SOME
        ]


def apart(ours: Gradients, theirs: Gradients) -> list[float]:
    """Of each trajectory, how far the gradients are apart, relative to their length."""
    both = zip(ours, theirs, strict=True)
    return [float((a - b).norm() / b.norm().clamp(min=1e-12)) for a, b in both]


def some(gradients: Gradients) -> Gradients:
    return [gradients[index] for index in SOME]


def check(base: Base, length: int) -> dict[str, Any]:
    """Errors of packed rows, recorded and not, and whether they are rounding alone."""
    lesson = moved_lesson(base, length)
    first = lesson.sequences[0]
    strange = Sequence(list(reversed(first.tokens)), first.is_agent)
    other = TrainingSet(**{**vars(lesson), "sequences": [strange, *lesson.sequences[1:]]})
    every = list(range(MANY))
    of_row, beside = (together(base, each, [every]) for each in (lesson, other))
    of_graph, graph_beside, graph_again = recorded(base, [lesson, other, lesson])
    of_rows = together(base, lesson, [[index] for index in SOME])
    one_by_one = singly(base, lesson)
    dtype = next(base.model.parameters()).dtype
    truth = singly(Base(copy.deepcopy(base.model).float(), base.chat, base.device), lesson)
    errors = {
        "graphToFp32": apart(some(of_graph), truth),
        "rowToFp32": apart(some(of_row), truth),
        "ownRowToFp32": apart(of_rows, truth),
        "oneByOneToFp32": apart(one_by_one, truth),
        "graphToRow": apart(of_graph, of_row),
        "rowToOwnRow": apart(some(of_row), of_rows),
        "graphToOneByOne": apart(some(of_graph), one_by_one),
        "rowToOneByOne": apart(some(of_row), one_by_one),
    }
    summary = {name: [max(e), statistics.median(e)] for name, e in errors.items()}
    touched = max(apart(beside[1:], of_row[1:]))
    graph_touched = max(apart(graph_beside[1:], of_graph[1:]))
    limit = TWICE * max(summary["ownRowToFp32"][0], summary["oneByOneToFp32"][0]) + EXACT
    return {
        "length": length,
        "dtype": str(dtype),
        "trajectories": MANY,
        "errorsMaxMedian": summary,
        "othersMovedByOneExchanged": touched,
        "graphOthersMovedByOneExchanged": graph_touched,
        "exchangedMoved": apart(beside[:1], of_row[:1])[0],
        "graphExchangedMoved": apart(graph_beside[:1], of_graph[:1])[0],
        "graphRepeatsItself": max(apart(graph_again, of_graph)) == 0.0,
        "limit": limit,
        "ok": summary["rowToFp32"][0] <= limit and touched <= EXACT,
        "graphOk": summary["graphToFp32"][0] <= limit and graph_touched <= EXACT,
    }


def checked_sums(base: Base, length: int) -> dict[str, Any]:
    """How far clipped sums of recorded rows are from those of rows that are not."""
    every = list(range(MANY))
    lots = [every, every[:5], [], every[7:8], every[3:]]
    return {"length": length, **_compared(base, moved_lesson(base, length), lots, [every])}


def checked_mix(base: Base) -> dict[str, Any]:
    """The same for secret lots of many lengths, which take rows of several shapes."""
    lesson = mixed_lesson(base, 20)
    assert lesson.private
    lots = [lesson.private.draw(step) for step in range(20)]
    return _compared(base, TrainingSet(**{**vars(lesson), "start": moved(base)}), lots[:3], lots)


def mixed_lesson(base: Base, steps: int) -> TrainingSet:
    """Steps of about 32 out of 200 trajectories of 27 to 400 tokens, in rows of 4,096."""
    random = np.random.default_rng(4)
    sizes = np.exp(random.uniform(np.log(27), np.log(400), 200)).astype(int).tolist()
    lesson = lesson_of(base, 27, SHAPE, private=True, steps=steps)
    sequences = [
        Sequence(random.integers(1, 300, size).tolist(), [place % 4 > 0 for place in range(size)])
        for size in sizes
    ]
    units = [[index] for index in range(len(sizes))]
    protection = replace(lesson.private, units=units, rate=MANY / len(sizes))
    training = lesson.training.model_copy(update={"batch_tokens": 4096})
    own = {"sequences": sequences, "private": protection, "training": training}
    return TrainingSet(**{**vars(lesson), **own})


def _compared(
    base: Base, lesson: TrainingSet, lots: list[list[int]], coming: list[list[int]]
) -> dict[str, Any]:
    with running(base, lesson, packed=True) as run:
        packed = run.packed
        assert packed

        def sums() -> Gradients:
            return [torch.cat([s.flatten() for s in run.add_up(lot)]).cpu() for lot in lots]

        eager = sums()
        packed.expect([*lots, *(coming * scoring.MANY)])
        shapes, is_recorded = [vars(shape) for shape in packed._shapes], bool(packed._graphed)
        graphs, again = sums(), sums()
        with torch.no_grad():
            for weight in run.weights:
                weight.mul_(1.1)
        later = sums()
        packed._graphed = None
        eager_later = sums()
    return {
        "recorded": is_recorded,
        "shapes": shapes,
        "lots": [len(lot) for lot in lots],
        "norms": [float(each.norm()) for each in graphs],
        "graphToRows": apart(graphs, eager),
        "repeats": all(torch.equal(a, b) for a, b in zip(graphs, again, strict=True)),
        "graphToRowsLater": apart(later, eager_later),
        "movedByWeights": apart(later, graphs),
    }
