"""Merges of some of a round's updates: what is stored, in which order, and when it goes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa import adapter, keys, manifest
from hansa.contributions import Subsets
from hansa.errors import Denied
from hansa.evaluation import Evaluation
from hansa.manifest import GlobalManifest, StartAdapter
from tests import packages
from tests.unit.hansa_server.rounds import PREFIX, Killed, Round, full_round, tensors

ASKED = Evaluation.model_validate({"validationTasks": 4, "contributions": {}})
MANY = tuple(f"silo-{number:02d}" for number in range(9))


def aggregate(round_: Round, evaluation: Evaluation = ASKED) -> GlobalManifest:
    """The round's manifest, where contributions are measured."""
    settings = round_.assignment().settings.model_copy(update={"evaluation": evaluation})
    round_.aggregate(settings=settings)
    data = round_.store.objects[round_.global_key(keys.MANIFEST)]
    return GlobalManifest.model_validate_json(data)


def parts(round_: Round, evaluation: Evaluation = ASKED) -> Subsets:
    found = aggregate(round_, evaluation).subsets
    assert found is not None
    return found


def stored(round_: Round, number: int) -> bytes:
    return round_.store.objects[keys.subset(PREFIX, round_.number, number)]


def test_each_update_is_left_out_once_and_all_of_it_is_stored_before_the_manifest() -> None:
    round_ = full_round()
    told = parts(round_)
    assert [each.members for each in told.adapters] == [
        ["babyai", "maze"],
        ["babyai", "wordle"],
        ["maze", "wordle"],
    ]
    for number, each in enumerate(told.adapters):
        data = stored(round_, number)
        assert (each.sha256, each.size) == (manifest.sha256(data), len(data))
    names = [key.removeprefix(f"{PREFIX}/") for key in round_.store.written]
    assert names[-5:] == [
        "global/subsets/00001/000.safetensors",
        "global/subsets/00001/001.safetensors",
        "global/subsets/00001/002.safetensors",
        "global/00001/manifest.json",
        "audit/00000001.json",
    ]


def test_a_merge_without_a_silo_is_the_merge_of_the_others() -> None:
    round_ = full_round()
    parts(round_)
    for name, array in adapter.decode(stored(round_, 2)).items():
        expected = np.mean([tensors(i)[name].astype(np.float64) for i in (1, 2)], axis=0)
        np.testing.assert_array_equal(array, expected.astype(np.float32))


@pytest.mark.parametrize(
    "strategy",
    [
        *({"strategy": name} for name in ("svd", "flora", "fedex", "regmean", "ffa", "median")),
        *({"strategy": name} for name in ("fedavgm", "fedadam", "trimmed-mean", "norm-balanced")),
    ],
    ids=lambda given: given["strategy"],
)
def test_a_merge_has_the_bytes_that_a_round_of_the_others_would_have(
    strategy: dict[str, Any],
) -> None:
    round_, fewer = full_round(aggregation=strategy), full_round(aggregation=strategy)
    del fewer.members["babyai"]
    parts(round_)
    fewer.aggregate()
    assert stored(round_, 2) == fewer.store.objects[fewer.global_key(keys.ADAPTER)]


def test_the_step_of_a_merge_fits_the_updates_in_it() -> None:
    round_, fewer = full_round(server_step="auto"), full_round(server_step="auto")
    del fewer.members["babyai"]
    whole = aggregate(round_)
    fewer.aggregate()
    other = GlobalManifest.model_validate_json(fewer.store.objects[fewer.global_key(keys.MANIFEST)])
    assert stored(round_, 2) == fewer.store.objects[fewer.global_key(keys.ADAPTER)]
    assert whole.server_step != other.server_step, "or the test says nothing"


def test_measuring_changes_no_byte_of_the_adapter_and_unasked_there_is_none() -> None:
    asked, plain = full_round(), full_round()
    parts(asked)
    plain.aggregate()
    for name in (keys.ADAPTER, keys.CONFIG):
        key = asked.global_key(name)
        assert asked.store.objects[key] == plain.store.objects[key]
    assert not any("subsets" in key for key in plain.store.objects)
    assert b"subsets" not in plain.store.objects[plain.global_key(keys.MANIFEST)]


def test_rounds_between_measured_ones_are_not_taken_apart() -> None:
    seldom = Evaluation.model_validate({"validationTasks": 4, "contributions": {"everyRounds": 2}})
    assert aggregate(full_round(), seldom).subsets is None


def test_of_many_silos_the_sets_of_two_orders_are_merged() -> None:
    round_ = full_round(environments=MANY)
    told = parts(round_)
    assert told.method == "shapley"
    assert len(told.orders) == 2 and told.orders[1] == told.orders[0][::-1]
    assert len(told.adapters) == 2 * (len(MANY) - 1)


def test_of_one_update_there_is_nothing_to_leave_out() -> None:
    round_ = Round()
    round_.send("maze", tensors(1))
    assert aggregate(round_).subsets is None


PICKY = """
from hansa_server.elementwise import by_element, weighted
from hansa_server.plugin import StrategyPlugin

class Picky(StrategyPlugin):
    def merge(self, task):
        if len(task.updates) < 3:
            raise RuntimeError("two are too few")
        return by_element(task, weighted(task, [1.0] * 3))
"""


def test_a_strategy_that_takes_no_fewer_updates_ends_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = {"hansa.strategies": {"picky": "Picky"}}
    packages.install(tmp_path, "picky", PICKY, point, monkeypatch)
    assert aggregate(full_round(aggregation={"strategy": "picky"})).subsets is None
    said = capsys.readouterr().err
    assert "contributions_not_measured" in said and "two are too few" in said


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), MemoryError()])
def test_a_fault_of_the_machine_is_no_verdict_on_the_strategy(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise fault

    round_ = full_round()
    with monkeypatch.context() as broken, pytest.raises(type(fault)):
        broken.setattr("hansa_server.subsets.merge", fail)
        aggregate(round_)
    assert aggregate(round_).subsets == aggregate(full_round()).subsets is not None


@pytest.mark.parametrize("number", range(7))
def test_an_aggregator_killed_at_any_write_leaves_equal_bytes(number: int) -> None:
    quiet, disturbed = full_round(), full_round()
    parts(quiet)

    def kill(key: str) -> None:
        if len(disturbed.store.written) == number:
            raise Killed

    disturbed.store.before_put = kill
    with pytest.raises(Killed):
        aggregate(disturbed)
    disturbed.store.before_put = lambda key: None
    aggregate(disturbed)
    assert disturbed.store.objects == quiet.store.objects


def second(first: Round) -> Round:
    """The round that starts from a first one's adapter, in the same store."""
    data = first.store.objects[first.global_key(keys.ADAPTER)]
    start = StartAdapter(round=1, sha256=manifest.sha256(data))
    return full_round(number=2, start=start, store=first.store)


def kept(round_: Round) -> list[int | None]:
    root = keys.subsets_root(PREFIX)
    return sorted({keys.number(root, key) for key in round_.store.list(root)}, key=str)


def test_merges_go_once_the_next_round_is_merged_also_after_a_kill_before_that() -> None:
    first = full_round()
    parts(first)
    later = second(first)
    assert kept(later) == [1]

    def kill(key: str) -> None:
        if key.startswith(f"{PREFIX}/audit/"):
            raise Killed

    later.store.before_put = kill
    with pytest.raises(Killed):
        aggregate(later)
    assert kept(later) == [1, 2], "the audit entry comes first"
    later.store.before_put = lambda key: None
    aggregate(later)
    assert kept(later) == [2]


def test_where_nothing_may_be_deleted_the_round_ends_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = full_round()
    parts(first)
    later = second(first)

    def refuse(key: str) -> None:
        raise Denied(f"{key}: not allowed to delete")

    monkeypatch.setattr(later.store, "remove", refuse)
    assert parts(later).adapters
    assert kept(later) == [1, 2]
    assert "subsets_not_removed" in capsys.readouterr().err
