"""Figures of many members are estimated, in work that grows with their number, and come near."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa.adapter.lora import Tensors
from hansa.adapter.tensor_file import TensorFile
from hansa.api.bucket_documents import Diagnostics
from hansa.api.spec import Aggregation
from hansa_server import diagnostics, sketch
from hansa_server.diagnostics import diagnose, is_exact
from hansa_server.merge import merge, split
from hansa_server.merge_input import MergeInput, Update
from tests.support.merging import draw, make_shapes, write

RANK, MEMBERS = 4, 12
SHAPES = make_shapes(RANK, *[(256, 328)] * 64, *[(400, 256)] * 64)
"""As many layers as get the narrowest projections, both sides longer than those."""
NEAR = 0.03
"""How far an estimate may be off, in shares of it, or of 1 for a cosine: three or four times what
it is off by in the mean here."""


@pytest.fixture
def files():
    with ExitStack() as stack:
        yield stack


def zeros() -> Tensors:
    return {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}


def times(tensors: Tensors, factor: float) -> Tensors:
    """An adapter whose products B·A are so many times as large."""
    return {n: a * np.float32(factor if "lora_B" in n else 1.0) for n, a in tensors.items()}


def near(tensors: Tensors, seed: int, share: float) -> Tensors:
    """An adapter that has moved a little from another one."""
    moved = draw(seed, SHAPES, share)
    return {name: array + moved[name] for name, array in tensors.items()}


class Round:
    """A merge whose figures are asked for once exactly and once by estimates."""

    def __init__(
        self,
        folder: Path,
        files: ExitStack,
        start: Tensors,
        updates: Sequence[Tensors],
        frozen: Tensors | None = None,
        **settings: Any,
    ) -> None:
        def put(name: str, tensors: Tensors) -> TensorFile:
            write(folder / name, tensors)
            return files.enter_context(TensorFile(folder / name))

        self.task = MergeInput(
            start=put("start", start),
            frozen=put("frozen", frozen) if frozen else None,
            updates=[
                Update(environment=f"{index:03d}", file=put(f"{index}", tensors))
                for index, tensors in enumerate(updates)
            ],
            settings=Aggregation(**settings),
            round=3,
            seed=7,
        )
        merge(self.task, folder / "out", folder / "state")
        with TensorFile(folder / "out") as whole:
            extra = split(whole, RANK, folder / "new", folder / "more")
        self.trained = files.enter_context(TensorFile(folder / "new"))
        self.frozen = files.enter_context(TensorFile(folder / "more")) if extra else None

    def figures(self, monkeypatch: pytest.MonkeyPatch, *, exact: bool) -> Diagnostics:
        with monkeypatch.context() as patched:
            patched.setattr(diagnostics, "is_exact", lambda *_: exact)
            return diagnose(self.task, self.trained, self.frozen, 2.0)


def drawn(count: int = MEMBERS) -> list[Tensors]:
    return [draw(seed, SHAPES) for seed in range(1, count + 1)]


CASES: dict[str, Callable[[], tuple[Tensors, list[Tensors]]]] = {
    "independent members": lambda: (zeros(), drawn()),
    "one member a million times as large": lambda: (
        zeros(),
        [*drawn(), times(draw(99, SHAPES), 1e6)],
    ),
    "equal members": lambda: (zeros(), [draw(1, SHAPES)] * MEMBERS),
    "members that add nothing": lambda: (zeros(), [*drawn(6), *[zeros()] * 6]),
    "members that undo each other": lambda: (
        zeros(),
        [times(one, sign) for one in drawn(6) for sign in (1.0, -1.0)],
    ),
    "small changes of a trained start": lambda: (
        draw(50, SHAPES),
        [near(draw(50, SHAPES), seed, 0.001 * seed) for seed in range(1, MEMBERS + 1)],
    ),
}


@pytest.mark.parametrize("step", [1.0, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_estimates_are_near_the_exact_figures(case, step, tmp_path, files, monkeypatch) -> None:
    start, updates = CASES[case]()
    round_ = Round(tmp_path, files, start, updates, strategy="mean", server_step=step)
    assert_near(round_, monkeypatch)


def test_they_are_beside_a_frozen_part_that_grows(tmp_path, files, monkeypatch) -> None:
    start, frozen = draw(50, SHAPES, 0.5), draw(51, SHAPES, 0.5)
    updates = [near(start, seed, 0.2) for seed in range(1, 4)]
    settings = {"strategy": "flora", "server_step": 0.5}
    assert_near(Round(tmp_path, files, start, updates, frozen, **settings), monkeypatch)


def assert_near(round_: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = round_.figures(monkeypatch, exact=True)
    estimated = round_.figures(monkeypatch, exact=False)
    assert estimated.effective_rank == exact.effective_rank
    assert estimated.norm == pytest.approx(exact.norm, rel=NEAR)
    assert estimated.error == pytest.approx(exact.error, rel=NEAR, abs=1e-6)
    for name in exact.norms:
        assert estimated.norms[name] == pytest.approx(exact.norms[name], rel=NEAR)
        assert estimated.share[name] == pytest.approx(exact.share[name], rel=NEAR)
        assert estimated.cosine[name] == pytest.approx(exact.cosine[name], abs=NEAR)
    assert estimated.norms != exact.norms or not any(exact.norms.values()), "they are estimates"


def test_estimates_are_the_same_to_the_last_bit_each_time(tmp_path, files, monkeypatch) -> None:
    round_ = Round(tmp_path, files, zeros(), drawn())
    assert round_.figures(monkeypatch, exact=False) == round_.figures(monkeypatch, exact=False)


def test_nobody_can_hide_from_projections_that_follow_from_the_result(
    tmp_path, files, monkeypatch
) -> None:
    seeds = []
    made = sketch.Projections

    def watched(modules: Sequence[str], longest: int, seed: bytes) -> sketch.Projections:
        seeds.append(seed)
        return made(modules, longest, seed)

    monkeypatch.setattr(diagnostics, "Projections", watched)
    for number, last in enumerate((7, 8)):
        (folder := tmp_path / str(number)).mkdir()
        round_ = Round(folder, files, zeros(), [*drawn(5), draw(last, SHAPES)])
        round_.figures(monkeypatch, exact=False)
    assert seeds[0] != seeds[1]


def test_values_too_large_to_be_projected_in_fp32_are_compared_exactly(
    tmp_path, files, monkeypatch
) -> None:
    huge = {n: np.clip(a, -2, 2) * np.float32(1.5e38) for n, a in draw(1, SHAPES).items()}
    round_ = Round(tmp_path, files, zeros(), [huge, *drawn(3)])
    exact = round_.figures(monkeypatch, exact=True)
    assert round_.figures(monkeypatch, exact=False) == exact


@pytest.mark.parametrize(
    "layers, members, rank, size, expected",
    [
        pytest.param(28, 5, 8, (256, 256), True, id="the demo"),
        pytest.param(28, 100, 8, (256, 256), True, id="a small model with many members"),
        pytest.param(224, 3, 8, (4096, 4096), True, id="a large one with few"),
        pytest.param(224, 40, 8, (4096, 4096), False, id="a large one with many"),
        pytest.param(1, 15, 8, (2**17, 2**17), True, id="one where estimates cost as much"),
    ],
)
def test_figures_are_exact_where_that_is_cheap(
    layers, members, rank, size, expected, tmp_path, files
) -> None:
    shapes = make_shapes(rank, *[size] * layers)
    file = files.enter_context(_hole(tmp_path / "file", shapes))
    updates = [Update(environment=f"{i:03d}", file=file) for i in range(members)]
    task = MergeInput(start=file, updates=updates, settings=Aggregation(), round=1, seed=0)
    assert is_exact(task, (file, None)) is expected


def _hole(path: Path, shapes: dict[str, tuple[int, ...]]) -> TensorFile:
    """Zeros that take no disk."""
    from hansa.adapter.tensor_file import TensorWriter

    TensorWriter(path, shapes).close()
    return TensorFile(path)
