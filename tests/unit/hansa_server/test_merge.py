"""A merge by layers and one by stretches of the files are the same, to the last bit."""

from importlib import import_module

import pytest

from hansa_server import elementwise
from tests.merging import draw, run, shapes_of

SHAPES = shapes_of(3, (50, elementwise.BLOCK // 2), (7, 5))  # one tensor is longer than a block


@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize(
    "settings", [{"strategy": "mean"}, {"strategy": "weighted-mean"}], ids=lambda s: s["strategy"]
)
def test_how_the_members_files_lie_changes_no_byte_of_a_mean(settings, step, monkeypatch) -> None:
    start, updates = draw(0, SHAPES), [draw(seed, SHAPES) for seed in (1, 2, 3)]
    told = {**settings, "server_step": step, "weights": [1.0, 2.5, 0.0]}
    stretched: list[tuple[int, int]] = []
    straight = elementwise.straight

    def watched(*given):
        stretch = straight(*given)
        if stretch is None:
            return None
        return lambda begin, end: (stretched.append((begin, end)), stretch(begin, end))[1]

    monkeypatch.setattr(import_module("hansa_server.strategies.mean"), "straight", watched)
    alike = run(start, updates, **told)
    assert len(stretched) > 1, "the files lie alike"
    stretched.clear()
    assert run(start, updates, strange=True, **told).data == alike.data
    assert not stretched, "one of them lies differently"


def test_a_frozen_part_is_left_to_the_merge_by_layers() -> None:
    start, frozen = draw(0, SHAPES), draw(9, SHAPES)
    made = run(start, [draw(1, SHAPES), draw(2, SHAPES)], frozen=frozen, strategy="mean")
    assert all((made.frozen[name] == frozen[name]).all() for name in frozen)
