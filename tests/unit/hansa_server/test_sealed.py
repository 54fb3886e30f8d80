"""Sealed updates: the aggregator makes of them what it makes of open ones, and refuses the rest."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.core.errors import PermanentError
from hansa.core.logs import Log
from hansa.crypto import sealing
from hansa.store.sealed import UnsealingStore, open_unsealing_store, read_aggregator_keys
from hansa_server.readonce import ReadOnce
from hansa_server.recompute import merge_again
from hansa_server.round import aggregate
from hansa_server.verify import AuditCheck
from tests.support.merging import STRATEGIES
from tests.unit.hansa_server.audited import flipped
from tests.unit.hansa_server.rounds import ENVIRONMENTS, PREFIX, Round, full_round, tensors

KEY, OTHER = sealing.generate_opening_key(), sealing.generate_opening_key()
FILES = (bucket_keys.ADAPTER, bucket_keys.MOMENTS)


def seal(round_: Round, *environments: str, to: str = KEY.public) -> None:
    """Seal what lies open in the store, as clients would have."""
    for key in [round_.key(name, file) for name in environments for file in FILES]:
        if key in round_.store.objects:
            round_.store.objects[key] = sealing.seal(to, key, round_.store.objects[key])


def sealed_round(*, to: str = KEY.public, **aggregation: Any) -> Round:
    made = Round(aggregation={"seal_to": to, **aggregation})
    for position, name in enumerate(ENVIRONMENTS):
        made.send(name, made.trained(position), sealedTo=to)
    seal(made, *ENVIRONMENTS, to=to)
    return made


def merged(round_: Round, *opening: sealing.OpeningKey) -> Any:
    assignment = round_.assignment()
    store = open_unsealing_store(round_.store, assignment, lambda: opening or [KEY])
    return aggregate(assignment, store, Log("server"), lambda: 0.0)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if "krum" not in name])
def test_every_strategy_makes_the_same_of_sealed_updates(strategy: str) -> None:
    plain, hidden = full_round(aggregation={"strategy": strategy}), sealed_round(strategy=strategy)
    assert plain.aggregate().adapter == merged(hidden).adapter
    for name in ENVIRONMENTS:
        for file in FILES:
            open_ = plain.store.objects.get(plain.key(name, file))
            assert open_ is None or open_[8:] not in hidden.store.objects[hidden.key(name, file)]


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes, exchanges or renames a sealed update",
    result="refused; the others count",
)
@pytest.mark.parametrize(
    "at", [0, sealing.HEAD - 1, sealing.HEAD, -1], ids=["kind", "head", "first", "last"]
)
def test_an_update_that_was_changed_is_refused_and_the_others_count(at: int) -> None:
    made = sealed_round()
    key = made.key("maze", bucket_keys.ADAPTER)
    data = made.store.objects[key]
    made.store.objects[key] = flipped(data, at % len(data))
    report = merged(made)
    assert (report.members, report.refused) == ([0, 2], [(1, "sealed")])


def test_one_that_is_sealed_to_another_key_is_refused() -> None:
    made = sealed_round()
    made.send("maze", tensors(1), sealedTo=OTHER.public)
    seal(made, "maze", to=OTHER.public)
    assert merged(made).refused == [(1, "sealed")]


def test_one_that_says_so_and_is_not_sealed_is_refused() -> None:
    made = sealed_round()
    made.send("maze", tensors(1), sealedTo=KEY.public)
    assert merged(made).refused == [(1, "sealed")]


def test_one_that_lay_open_is_refused_where_others_are_sealed_and_the_other_way_round() -> None:
    made = sealed_round()
    made.send("maze", tensors(1))
    assert merged(made).refused == [(1, "sealed")]
    made = full_round()
    made.send("maze", tensors(1), sealedTo=KEY.public)
    seal(made, "maze")
    assert merged(made).refused == [(1, "sealed")]


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes, exchanges or renames a sealed update",
    result="refused; the others count",
)
def test_another_silos_sealed_update_under_ones_own_name_is_refused() -> None:
    made = sealed_round()
    taken = made.store.objects[made.key("wordle", bucket_keys.ADAPTER)]
    made.send("maze", tensors(2), sealedTo=KEY.public)
    made.store.objects[made.key("maze", bucket_keys.ADAPTER)] = taken
    assert merged(made).refused == [(1, "sealed")]


def test_moments_that_were_changed_are_refused() -> None:
    made = sealed_round(strategy="regmean")
    key = made.key("maze", bucket_keys.MOMENTS)
    made.store.objects[key] = flipped(made.store.objects[key], sealing.HEAD + 100)
    assert merged(made).refused == [(1, "sealed")]


def test_a_retired_key_still_opens_what_was_sealed_to_it() -> None:
    assert merged(sealed_round(to=OTHER.public), KEY, OTHER).members == [0, 1, 2]


def test_without_its_key_an_aggregator_ends_with_the_variable() -> None:
    assignment = sealed_round().assignment()
    with pytest.raises(PermanentError, match=r"HANSA_SEALING_KEY: got nothing.*sealingSecret"):
        open_unsealing_store(Round().store, assignment, partial(read_aggregator_keys, {}))


@pytest.mark.parametrize("text", ["", "no key"], ids=["empty", "no key"])
def test_a_file_without_a_key_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    for path in (file, tmp_path / "none"):
        with pytest.raises(PermanentError, match=f"HANSA_SEALING_KEY: {path}: "):
            read_aggregator_keys({sealing.ENV_SEALING_KEY: str(path)})


def audited(made: Round, folder: Path, *opening: sealing.OpeningKey) -> Any:
    store = UnsealingStore(made.store, PREFIX, opening, all_are_sealed=False)
    kept, storage = ReadOnce(store, folder), made.assignment().storage
    return AuditCheck(kept, storage).run(partial(merge_again, kept, storage))[0]


def test_an_audit_merges_a_sealed_round_again_where_it_has_the_key(tmp_path: Path) -> None:
    made = sealed_round()
    merged(made)
    assert audited(made, tmp_path, KEY).verdict == "equal"
    without = audited(made, tmp_path)
    assert without.verdict == "cannot be"
    assert "which is not at hand" in without.unknown[0]
    key = made.key("maze", bucket_keys.ADAPTER)
    made.store.objects[key] = flipped(made.store.objects[key], 200)
    assert audited(made, tmp_path, KEY).verdict == "differs"


def test_an_audit_reads_open_rounds_of_a_run_that_seals_by_now(tmp_path: Path) -> None:
    made = full_round()
    made.aggregate()
    assert audited(made, tmp_path, KEY).verdict == "equal"
