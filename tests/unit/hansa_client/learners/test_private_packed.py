"""Per-trajectory gradients: one by one, from a packed row's segments, and by Opacus, are the same.

Opacus's own are golden values, which `tools/opacus_golden.py` writes.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hansa.adapter.lora import Tensors
from hansa.api.spec import Training
from hansa.core.errors import PermanentError
from hansa_client.learners import TrainingSet, loop, private
from hansa_client.learners.private import (
    FlatNoise,
    PrivateRun,
    Protection,
    add_clipped,
    add_clipped_rows,
)
from hansa_client.learners.reward_weighted import Weighted
from hansa_client.learners.success_sft import Imitation
from hansa_client.models import fused_layers, lora
from hansa_client.models.base_model import Base
from hansa_client.models.segments import Segments
from hansa_client.privacy import Stream
from hansa_client.training import noise, packing, scoring
from hansa_client.training.scoring import PackedScorer, Scorer
from tests.unit.hansa_client.learners import gradients as given

pytestmark = pytest.mark.slow  # trains again and again

OPACUS = json.loads(Path(__file__).with_name("opacus.json").read_text())
EVERYBODY = range(len(given.SEQUENCES))
CPU = torch.device("cpu")


def lesson_from(tensors: Tensors, **training: Any) -> TrainingSet:
    return TrainingSet(
        sequences=given.SEQUENCES,
        weights=[1.0, 0.5, 2.0, 1.0, 0.25, 1.5],
        start=tensors,
        adapter=given.SHAPE,
        training=Training(max_steps=2, **training),
        seed=5,
        private=Protection(
            units=[[index] for index in EVERYBODY],
            rate=1.0,
            steps=2,
            clip=0.3,
            noise=1.0,
            divisor=6.0,
            stream=Stream(b"k" * 32, "training"),
        ),
    )


@contextmanager
def one_by_one(base: Base, lesson: TrainingSet, objective: Any = Imitation) -> Iterator[PrivateRun]:
    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, lesson.half)
    try:
        run = loop._make_run(wrapped, Scorer(wrapped, CPU), lesson, objective(lesson))
        assert isinstance(run, PrivateRun) and not run.packed
        yield run
    finally:
        lora.detach(wrapped)


@contextmanager
def packed(base: Base, lesson: TrainingSet, objective: Any = Imitation) -> Iterator[PrivateRun]:
    """As on a GPU, but for where it computes."""
    wrapped, segments = lora.attach(base.model, lesson.adapter, lesson.start), Segments()
    lora.train_only(wrapped, lesson.half)
    try:
        with (
            fused_layers.fuse_layers(wrapped, dropout=0.0, segments=segments),
            packing.use_packed_attention(wrapped),
        ):
            own = PackedScorer(wrapped, CPU, may_record=False)
            run = loop._make_run(wrapped, own, lesson, objective(lesson), segments)
            assert isinstance(run, PrivateRun) and run.packed
            yield run
    finally:
        lora.detach(wrapped)


def test_gradients_one_by_one_are_those_of_opacus(base: Base) -> None:
    tensors = given.moved(base)
    with one_by_one(base, lesson_from(tensors)) as run:
        for index, golden in enumerate(OPACUS):
            names = dict(zip(run.optimizer.named, run.compute_gradients(index), strict=True))
            ours = given.summary(names)
            assert ours["norm"] == pytest.approx(golden["norm"], abs=1e-5)
            assert ours["projections"] == pytest.approx(golden["projections"], abs=1e-5)


@pytest.mark.parametrize("half", ["both", "A", "B"])
def test_segments_of_a_packed_row_are_the_gradients_one_by_one(library: Base, half: Any) -> None:
    lesson = replace(lesson_from(given.moved(library)), half=half, weights=())
    with one_by_one(library, lesson) as run:
        singly = [run.compute_gradients(index) for index in EVERYBODY]
    with packed(library, lesson) as run:
        assert run.packed
        together = run.packed.compute_gradients(list(EVERYBODY))
        assert all(weight.grad is None for weight in run.weights)
    for index, gradients in enumerate(singly):
        for ours, theirs in zip(together, gradients, strict=True):
            torch.testing.assert_close(ours[index], theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("room", [16, 45, 8192])
@pytest.mark.parametrize("objective", [Imitation, Weighted])
def test_a_steps_sum_is_the_same_packed_in_parts_of_any_size(
    library: Base, objective: Any, room: int
) -> None:
    lesson = lesson_from(given.moved(library), micro_batch_tokens=room)
    lesson = lesson if objective is Weighted else replace(lesson, weights=())
    with one_by_one(library, lesson, objective) as run:
        singly = run.add_up(EVERYBODY)
    with packed(library, lesson, objective) as run:
        together = run.add_up(EVERYBODY)
    for ours, theirs in zip(together, singly, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_rows_are_halved_until_memory_holds_them(
    library: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = replace(lesson_from(given.moved(library)), weights=())
    with packed(library, lesson) as run:
        assert run.packed
        whole, own, sizes = run.add_up(EVERYBODY), run.packed.compute_gradients, []

        def short(part: Any) -> Any:
            sizes.append(len(part))
            if len(part) > 2:
                raise torch.OutOfMemoryError
            return own(part)

        monkeypatch.setattr(run.packed, "compute_gradients", short)
        halved = run.add_up(EVERYBODY)
        assert max(sizes) == len(EVERYBODY) and sizes[-1] <= 2 and run.shrunk == 0
        for ours, theirs in zip(halved, whole, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
        monkeypatch.setattr(run.packed, "compute_gradients", lambda _: short([0, 0, 0]))
        with pytest.raises(torch.OutOfMemoryError):
            run.add_up(EVERYBODY)


def test_many_are_clipped_and_added_as_one_after_another() -> None:
    torch.manual_seed(1)
    rows = torch.randn(5, 18)
    rows[1, 0], rows[3, 14] = torch.nan, torch.inf
    rows[4] = 0.0
    singly, together = (torch.zeros(18).double() for _ in "ab")
    for row in rows:
        add_clipped([singly[:6], singly[6:]], [row[:6], row[6:]], 0.7)
    add_clipped_rows(together, rows, 0.7)
    torch.testing.assert_close(together, singly, rtol=0, atol=1e-12)


def test_many_are_added_in_pieces_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    rows = torch.randn(5, 18)
    whole, cut = (torch.zeros(18).double() for _ in "ab")
    add_clipped_rows(whole, rows, 0.7)
    monkeypatch.setattr(private, "_PIECE", 20)
    add_clipped_rows(cut, rows, 0.7)
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-12)


def test_noise_that_is_drawn_ahead_is_the_noise_of_its_step_and_weight(library: Base) -> None:
    lesson = lesson_from(given.moved(library))
    own = lesson.private
    assert own
    with packed(library, lesson) as run:
        sizes = {name: weight.numel() for name, weight in run.optimizer.named.items()}
        with noise.draw_ahead(own.stream, sizes, own.steps) as coming:
            flat = FlatNoise(own, run.weights, coming)
            for step in range(own.steps):
                total = torch.full((sum(sizes.values()),), step, dtype=torch.float64)
                for (name, weight), ours in zip(
                    run.optimizer.named.items(), flat.compute_gradients(total), strict=True
                ):
                    added = torch.full_like(weight, step, dtype=torch.float64)
                    assert torch.equal(ours, own.add_noise(name, step, added).to(weight.dtype))


def test_a_packed_training_ends_where_one_by_one_does(
    library: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = replace(lesson_from(given.moved(library), learning_rate=1e-3), weights=())
    monkeypatch.setattr(scoring, "MANY", 2)  # it has as many steps
    ends = []
    for way in (one_by_one, packed, graphed):
        with way(library, lesson) as run:
            before = [weight.detach().clone() for weight in run.weights]
            list(run.run_steps(lambda done, total: None))
            ends.append([weight.detach().clone() for weight in run.weights])
    for singly, together, recorded, start in zip(*ends, before, strict=True):
        assert not torch.allclose(singly, start, rtol=0, atol=1e-4)
        torch.testing.assert_close(together, singly, rtol=0, atol=1e-5)
        torch.testing.assert_close(recorded, singly, rtol=0, atol=1e-5)


@contextmanager
def graphed(base: Base, lesson: TrainingSet, objective: Any = Imitation) -> Iterator[PrivateRun]:
    """Packed into rows of few shapes, which a GPU would record."""
    with packed(base, lesson, objective) as run:
        assert run.packed
        run.packed.scorer.may_record = True
        yield run


@pytest.mark.parametrize("room", [16, 45, 8192])
@pytest.mark.parametrize("objective", [Imitation, Weighted])
@pytest.mark.parametrize("half", ["both", "B"])
def test_a_steps_sum_is_the_same_in_rows_that_are_recorded(
    library: Base, objective: Any, room: int, half: Any
) -> None:
    lesson = replace(lesson_from(given.moved(library), micro_batch_tokens=room), half=half)
    lesson = lesson if objective is Weighted else replace(lesson, weights=())
    lots = [list(EVERYBODY), [3, 1], [], [5], *([[0, 4, 2]] * 8)]
    with one_by_one(library, lesson, objective) as run:
        singly = [run.add_up(lot) for lot in lots]
    with graphed(library, lesson, objective) as run:
        assert run.packed
        run.packed.expect(lots)
        assert run.packed._graphed
        together = [run.add_up(lot) for lot in lots]
        assert all(weight.grad is None for weight in run.weights)
    for our_lot, their_lot in zip(together, singly, strict=True):
        for ours, theirs in zip(our_lot, their_lot, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_a_recorded_rows_trajectory_that_is_no_number_spoils_no_other(
    library: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = replace(lesson_from(given.moved(library)), weights=())
    with graphed(library, lesson) as run:
        assert run.packed
        run.packed.expect([list(EVERYBODY)] * 8)
        without = run.add_up([0, 1, 3, 4, 5])
        run.packed._shares[2] = torch.nan
        for ours, theirs in zip(run.add_up(EVERYBODY), without, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("room", [10_000, 40, 0])
def test_recorded_rows_are_halved_until_memory_holds_them_or_are_not_recorded(
    library: Base, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    recorded = private.GraphedSums

    def short(scorer: Any, segments: Any, weights: Any, shapes: Any, add: Any) -> Any:
        if max(shape.tokens for shape in shapes) > room:
            raise torch.OutOfMemoryError
        return recorded(scorer, segments, weights, shapes, add)

    monkeypatch.setattr(private, "GraphedSums", short)
    lesson = replace(lesson_from(given.moved(library)), weights=())
    with graphed(library, lesson) as run:
        assert run.packed
        before = run.add_up(EVERYBODY)
        run.packed.expect([list(EVERYBODY)] * 8)
        assert bool(run.packed._graphed) is bool(room)
        assert max(shape.tokens for shape in run.packed._shapes) <= max(room, 32)
        for ours, theirs in zip(run.add_up(EVERYBODY), before, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_what_cannot_be_recorded_is_computed_all_the_same(
    library: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(private, "GraphedSums", refuse)
    lesson = replace(lesson_from(given.moved(library)), weights=())
    with graphed(library, lesson) as run:
        assert run.packed
        run.packed.expect([list(EVERYBODY)] * 8)
        assert run.packed._graphed is None
        assert any(float(added.abs().sum()) > 0 for added in run.add_up(EVERYBODY))


def test_layers_whose_gradients_cannot_be_told_apart_are_refused(library: Base) -> None:
    lesson = lesson_from(given.moved(library))
    wrapped = lora.attach(library.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, "both")
    try:
        with pytest.raises(PermanentError, match=r"spec.adapter.targetModules: got layers that"):
            loop._make_run(wrapped, Scorer(wrapped, CPU), lesson, Imitation(lesson), Segments())
    finally:
        lora.detach(wrapped)
