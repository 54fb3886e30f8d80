"""Moments that come with updates: broken or hostile ones are refused, and the round continues."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.adapter import lora, second_moments
from hansa.adapter.lora import Tensors
from hansa.adapter.tensor_file import encode
from hansa.api import bucket_keys
from hansa.core.errors import TooFewUpdates
from tests.support.merging import draw_moments
from tests.unit.hansa_server.rounds import MODULES, SHAPES, Round, full_round, tensors

REGMEAN = {"strategy": "regmean"}
FIRST = second_moments.moment_names([MODULES[0]])


def with_tensor(name: str, change: Callable[[Any], Any]) -> Tensors:
    own = draw_moments(1, SHAPES)
    return {**own, name: change(own[name])}


def turned(vectors: Any) -> Any:
    made = vectors.copy()
    made[0] = made[1]
    return made


def shared() -> Tensors:
    """Both layers as readers of one input, which most members say they are not."""
    own = draw_moments(1, SHAPES)
    named = zip(FIRST, second_moments.moment_names(MODULES), strict=True)
    return {new: own[old] for old, new in named}


HOSTILE: dict[str, Tensors] = {
    "a size below 0": with_tensor(FIRST.values, lambda a: a - a.max()),
    "a rest below 0": with_tensor(FIRST.rest, lambda a: a - 1),
    "a rest above a direction": with_tensor(FIRST.rest, lambda a: a + 1e6),
    "nothing at all": with_tensor(FIRST.values, np.zeros_like),
    "no number": with_tensor(FIRST.values, lambda a: a * np.nan),
    "an infinite one": with_tensor(FIRST.vectors, lambda a: a * np.inf),
    "a direction twice": with_tensor(FIRST.vectors, turned),
    "long directions": with_tensor(FIRST.vectors, lambda a: a * 1e3),
    "huge directions": with_tensor(FIRST.vectors, lambda a: a * 1e30),
    "too few directions": with_tensor(FIRST.vectors, lambda a: a[:3]),
    "too many sizes": with_tensor(FIRST.values, lambda a: np.append(a, a)),
    "of another width": with_tensor(FIRST.vectors, lambda a: a[:, :4]),
    "a layer missing": {n: a for n, a in draw_moments(1, SHAPES).items() if n not in FIRST},
    "a strange tensor": {**draw_moments(1, SHAPES), "strange": np.zeros(1, np.float32)},
    "no rest": {n: a for n, a in draw_moments(1, SHAPES).items() if n != FIRST.rest},
    "other inputs than the others have": shared(),
    "nobody's layers": draw_moments(1, {n.replace("mlp", "x"): s for n, s in SHAPES.items()}),
}


@pytest.mark.parametrize("own", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_moments_are_refused_and_the_round_goes_on(own: Tensors) -> None:
    round_ = full_round(aggregation=REGMEAN)
    honest = full_round(environments=("babyai", "wordle"), aggregation=REGMEAN)
    round_.send("maze", round_.trained(1), moments=encode(own))
    for environment, other in (("babyai", 0), ("wordle", 2)):
        own_moments = encode(draw_moments(other, SHAPES))
        for each in (round_, honest):
            each.send(environment, tensors(other), moments=own_moments)
    report = round_.aggregate()
    assert report.refused == [(1, "moments")]
    honest.aggregate()
    made, expected = round_.result(), honest.result()
    assert all(np.array_equal(made[name], expected[name]) for name in expected)


@pytest.mark.parametrize("data", [b"\0", b"x" * 40, b"\xff" * 8 + b"{}"])
def test_a_file_of_no_moments_is_refused(data: bytes) -> None:
    round_ = full_round(aggregation=REGMEAN)
    round_.send("maze", round_.trained(1), moments=data)
    assert round_.aggregate().refused == [(1, "moments")]


def test_an_update_without_moments_is_refused_and_named() -> None:
    round_ = full_round(aggregation=REGMEAN)
    adapter_alone = full_round()
    document = adapter_alone.store.objects[adapter_alone.key("maze", bucket_keys.MANIFEST)]
    assert bucket_keys.MOMENTS not in document.decode()
    without = {**_manifest(round_, "maze")}
    del without["files"][bucket_keys.MOMENTS]
    round_.send("maze", round_.trained(1), files=without["files"])
    assert round_.aggregate().refused == [(1, "moments")]


def test_moments_that_are_not_there_are_refused() -> None:
    round_ = full_round(aggregation=REGMEAN)
    del round_.store.objects[round_.key("maze", bucket_keys.MOMENTS)]
    assert round_.aggregate().refused == [(1, "file-missing")]


def test_too_large_a_file_is_not_copied() -> None:
    round_ = full_round(aggregation=REGMEAN)
    large = b"\0" * (lora.MAX_HEADER + 10_000)
    round_.send("maze", round_.trained(1), moments=large)
    assert round_.aggregate().refused == [(1, "size")]


def test_other_strategies_ask_for_no_moments() -> None:
    round_ = full_round()
    round_.aggregate()
    assert not any(key.endswith(bucket_keys.MOMENTS) for key in round_.store.objects)


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, 2**16), value=st.integers(0, 255))
def test_one_changed_byte_ends_in_a_refusal_or_a_result_of_numbers(place: int, value: int) -> None:
    data = bytearray(encode(draw_moments(1, SHAPES)))
    data[place % len(data)] = value
    round_ = full_round(aggregation=REGMEAN, minimum=2)
    round_.send("maze", round_.trained(1), moments=bytes(data))
    report = round_.aggregate()
    assert report.refused in ([], [(1, "moments")])
    assert lora.is_finite(round_.result())


def test_a_round_whose_moments_are_all_broken_ends_with_each_named() -> None:
    round_ = full_round(aggregation=REGMEAN)
    for seed, environment in enumerate(round_.environments):
        round_.send(environment, round_.trained(seed), moments=b"broken")
    with pytest.raises(TooFewUpdates, match=r"maze \(moments\)"):
        round_.aggregate()


def _manifest(round_: Round, environment: str) -> dict[str, Any]:
    return dict(json.loads(round_.store.objects[round_.key(environment, bucket_keys.MANIFEST)]))
