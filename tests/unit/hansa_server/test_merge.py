"""A merge by layers and one by stretches of the files are the same, to the last bit."""

from importlib import import_module

import numpy as np
import pytest

from hansa_server import elementwise
from tests.support.merging import draw, make_shapes, run

SHAPES = make_shapes(3, (50, elementwise.BLOCK // 2), (7, 5))  # one tensor is longer than a block


@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize(
    "settings", [{"strategy": "mean"}, {"strategy": "weighted-mean"}], ids=lambda s: s["strategy"]
)
def test_how_the_members_files_lie_changes_no_byte_of_a_mean(settings, step, monkeypatch) -> None:
    start, updates = draw(0, SHAPES), [draw(seed, SHAPES) for seed in (1, 2, 3)]
    given = {**settings, "server_step": step, "weights": [1.0, 2.5, 0.0]}
    stretched: list[tuple[int, int]] = []
    straight = elementwise.make_stretch_mean

    def watched(*given):
        stretch = straight(*given)
        if stretch is None:
            return None
        return lambda begin, end: (stretched.append((begin, end)), stretch(begin, end))[1]

    monkeypatch.setattr(import_module("hansa_server.strategies.mean"), "make_stretch_mean", watched)
    alike = run(start, updates, **given)
    assert len(stretched) > 1, "the files lie alike"
    stretched.clear()
    assert run(start, updates, strange=True, **given).data == alike.data
    assert not stretched, "one of them lies differently"


def test_a_frozen_part_is_left_to_the_merge_by_layers() -> None:
    start, frozen = draw(0, SHAPES), draw(9, SHAPES)
    made = run(start, [draw(1, SHAPES), draw(2, SHAPES)], frozen=frozen, strategy="mean")
    assert all((made.frozen[name] == frozen[name]).all() for name in frozen)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.5, 2.0]], ids=["alike", "weighed"])
def test_a_mean_of_negative_zeros_is_zero_as_a_sum_from_zero_is(weights) -> None:
    negative = {name: np.full(shape, -0.0, np.float32) for name, shape in SHAPES.items()}
    made = run(draw(0, SHAPES), [negative, negative], strategy="weighted-mean", weights=weights)
    assert not any(np.signbit(array).any() for array in made.trained.values())


def test_a_mean_is_the_sum_in_float64_from_zero_on_divided_once_and_rounded_once() -> None:
    updates = [draw(seed, SHAPES) for seed in range(1, 6)]
    made = run(draw(0, SHAPES), updates, strategy="mean")
    for name, shape in SHAPES.items():
        total = np.zeros(shape)
        for update in updates:
            total += update[name].astype(np.float64)
        assert made.trained[name].tobytes() == (total / len(updates)).astype(np.float32).tobytes()
