"""Masked updates: the aggregator merges their sum and never sees one, or has no sum at all."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.bucket_documents import GlobalManifest, StartAdapter
from hansa.api.strategies import BUILTIN
from hansa.core.errors import MaskedUpdateMissing
from hansa.core.exits import Exit
from hansa.store.claims import TOMBSTONE, Claim
from hansa_server import masked, scratch
from hansa_server import round as round_
from hansa_server.masked import SilosDropped
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server import audited
from tests.unit.hansa_server.masking import NAMES, MaskedRound, masked_round
from tests.unit.hansa_server.rounds import PREFIX, Killed, kill_before_write


def claims_of(made: MaskedRound) -> dict[str, bool]:
    """Who has a claim in the round's epoch, and whether it is a tombstone."""
    stored = {}
    for name in NAMES:
        data = made.store.objects.get(bucket_keys.claim(PREFIX, name, made.number, made.epoch))
        if data:
            stored[name] = bool(Claim.model_validate_json(data).tombstone)
    return stored


def test_the_sum_is_the_mean_of_the_plain_updates_to_the_bit() -> None:
    made = masked_round()
    report = made.aggregate()
    assert (report.members, report.refused) == ([0, 1, 2, 3], [])
    for name, array in made.expected().items():
        assert np.array_equal(made.result()[name], array)


@pytest.mark.parametrize("strategy", [name for name, e in BUILTIN.items() if e.is_sum])
def test_every_strategy_makes_of_the_sum_what_it_makes_of_one_update(strategy: str) -> None:
    number = 2 if strategy == "rolora" else 1
    made = masked_round(number=number, aggregation={"strategy": strategy})
    made.aggregate()
    moved = {name for name, array in made.result().items() if not same(array, made.origin()[name])}
    half = made.assignment().settings.aggregation.half(number)
    assert {lora.side(name) for name in moved} == ({half} if half != "both" else {"A", "B"})
    if "fed" not in strategy:
        assert all(same(made.result()[n], a) for n, a in made.expected().items())


def same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other))


def test_weights_are_counted_where_the_strategy_weighs() -> None:
    plain, weighed = masked_round(), masked_round(aggregation={"strategy": "weighted-mean"})
    plain.aggregate()
    weighed.aggregate()
    name = min(plain.result())
    assert not same(plain.result()[name], weighed.result()[name])
    assert same(weighed.result()[name], weighed.expected()[name])


def test_a_long_change_is_clipped() -> None:
    made = masked_round(secure={"clipNorm": 0.25})
    made.aggregate()
    assert lora.distance(made.result(), made.origin()) <= 0.25
    assert all(lora.distance(own, made.origin()) > 0.25 for own in made.plain.values())


def test_a_later_round_goes_on_from_the_sum_of_the_one_before() -> None:
    first = masked_round()
    digest = first.aggregate().adapter
    second = masked_round(number=2, start=StartAdapter(round=1, sha256=digest), store=first.store)
    second.aggregate()
    assert all(same(second.result()[n], a) for n, a in second.expected().items())


def test_nothing_that_the_aggregator_tells_is_of_one_update() -> None:
    made = masked_round()
    report = made.aggregate()
    stored = GlobalManifest.model_validate_json(
        made.store.objects[made.global_key(bucket_keys.MANIFEST)]
    )
    assert stored.diagnostics and stored.diagnostics.norm > 0 and stored.diagnostics.effective_rank
    assert not (stored.diagnostics.norms or stored.diagnostics.cosine or stored.diagnostics.share)
    assert not (report.cosine or report.share or stored.diagnostics.factor_norms)
    assert {each["norm"] for each in stored.updates.values()} == {0.0}


def test_no_bytes_of_a_plain_update_are_in_the_bucket() -> None:
    made = masked_round()
    made.aggregate()
    for own in made.plain.values():
        for array in own.values():
            assert not any(array.tobytes() in data for data in made.store.objects.values())


@pytest.mark.attack(
    by="the coordinator",
    does="reads the bucket or the aggregator's disk for a masked update",
    result="finds none",
)
def test_no_bytes_of_a_plain_update_are_ever_on_the_aggregators_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen = masked_round(), list[bytes]()
    start = {array.tobytes() for array in made.origin().values()}
    own = {array.tobytes() for silo in made.plain.values() for array in silo.values()} - start
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def look(*_: object) -> None:
        """Take all that is there, and what is open without a name."""
        opened = list(Path("/proc/self/fd").iterdir())
        for path in [*tmp_path.rglob("*"), *opened]:
            # Other threads end files meanwhile, and a number may be a socket's by now.
            with suppress(OSError):
                if str(tmp_path) in os.path.realpath(path):
                    with open(path, "rb", opener=open_without_waiting) as file:
                        seen.append(file.read())

    for name in ("fetch", "_open_body"):
        where = scratch if name == "fetch" else masked
        monkeypatch.setattr(where, name, looked(getattr(where, name), look))
    for name in ("merge", "write_folder", "describe"):
        monkeypatch.setattr(round_, name, looked(getattr(round_, name), look))
    made.aggregate()
    bodies = {made.store.objects[made.key(name, bucket_keys.masked_body(0))] for name in NAMES}
    assert bodies < set(seen)
    assert any(array.tobytes() in data for data in seen for array in made.result().values())
    assert len(own) == 16 and not any(part in data for part in own for data in seen)


def open_without_waiting(path: str, flags: int) -> int:
    """Opens a pipe, too, that nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def looked(work: Any, look: Any) -> Any:
    """The same function, with a look around before and behind it."""

    def both(*given: Any, **named: Any) -> Any:
        look()
        try:
            return work(*given, **named)
        finally:
            look()

    return both


# Silos that drop out


def test_one_that_never_claimed_is_shut_out_and_the_others_mask_again() -> None:
    made = masked_round("babyai", "maze", "wordle")
    with pytest.raises(SilosDropped, match="without webshop") as caught:
        made.aggregate()
    assert (caught.value.exit, caught.value.report.remaining) == (Exit.MASK_AGAIN, [0, 1, 3])
    assert claims_of(made) == {"babyai": False, "maze": False, "webshop": True, "wordle": False}
    assert made.claim("webshop", b"late") == TOMBSTONE
    assert not [key for key in made.store.objects if key.startswith(f"{PREFIX}/audit/")]
    made.next_epoch("babyai", "maze", "wordle")
    assert made.aggregate().members == [0, 1, 3]
    assert all(same(made.result()[n], a) for n, a in made.expected().items())


def test_one_that_committed_after_the_members_were_frozen_is_in_the_sum() -> None:
    made = masked_round()
    late = made.members.pop("webshop")
    report = made.aggregate()
    assert report.members == [0, 1, 2, 3]
    assert all(same(made.result()[n], a) for n, a in made.expected().items())
    stored = GlobalManifest.model_validate_json(
        made.store.objects[made.global_key(bucket_keys.MANIFEST)]
    )
    assert late in stored.members


def test_one_that_claimed_and_sent_nothing_yet_is_waited_for() -> None:
    made = masked_round()
    del made.members["webshop"]
    manifest_ = made.store.objects.pop(made.key("webshop", bucket_keys.MANIFEST))
    with pytest.raises(MaskedUpdateMissing, match="webshop has claimed its place"):
        made.aggregate()
    made.store.objects[made.key("webshop", bucket_keys.MANIFEST)] = manifest_
    assert made.aggregate().members == [0, 1, 2, 3]


def test_where_one_is_shut_out_a_claim_without_an_update_masks_again_like_the_others() -> None:
    made = masked_round("babyai", "maze")
    made.claim("wordle", b"on its way")
    with pytest.raises(SilosDropped) as caught:
        made.aggregate()
    assert caught.value.report.remaining == [0, 1, 3]


@pytest.mark.parametrize(
    "changes, why",
    [
        pytest.param({"secure": {"onDropout": "fail"}}, "onDropout is fail", id="fail"),
        pytest.param({"minimum": 4}, "3 are left, expected 4", id="minimum"),
        pytest.param({"epoch": 2}, "masked 3 times", id="epochs"),
        pytest.param({"peers": NAMES[:3]}, "2 are left, expected 3", id="two left"),
    ],
)
def test_where_the_others_cannot_mask_again_the_round_fails_and_is_logged(
    changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    made = MaskedRound(**changes)
    made.play()
    *sent, out = sorted(made.peers)
    for name in sent:
        made.offer(name)
    with pytest.raises(TooFewMembers, match=f"{out}: not in the sum, and .*{why}"):
        made.aggregate()
    assert bucket_keys.audit_entry(PREFIX, 1) in made.store.objects
    assert audited.check(made.store, tmp_path)[1].verdict == "equal"


def test_a_silo_that_left_the_federation_masks_no_more_and_is_in_no_report() -> None:
    here = ("babyai", "maze", "wordle")
    made = masked_round()
    del made.members["webshop"]
    assert made.aggregate(environments=list(here)).members == [0, 1, 2]
    assert all(same(made.result()[n], a) for n, a in made.expected().items())
    again = masked_round()
    del again.store.objects[bucket_keys.claim(PREFIX, "maze", 1, 0)]
    members = [again.members[name] for name in here]
    with pytest.raises(TooFewMembers, match="maze, webshop: not in the sum, and 2 are left"):
        again.aggregate(environments=list(here), members=members)


@pytest.mark.parametrize("writes", range(5))
def test_an_aggregator_that_is_killed_goes_on_to_the_same_bytes(writes: int) -> None:
    whole = masked_round()
    whole.aggregate()
    made = masked_round()
    made.store.written.clear()
    kill_before_write(made, writes)
    made.aggregate()
    assert made.result().keys() == whole.result().keys()
    assert all(same(made.result()[n], a) for n, a in whole.result().items())
    entry = bucket_keys.audit_entry(PREFIX, 1)
    assert made.store.objects[entry] == whole.store.objects[entry]


@pytest.mark.parametrize("writes", [0, 1])
def test_one_that_is_killed_among_its_tombstones_shuts_out_the_same_silos(writes: int) -> None:
    made = masked_round(*NAMES[:3])
    made.store.written.clear()

    def kill(key: str) -> None:
        if len(made.store.written) == writes:
            raise Killed

    made.store.before_put = kill
    with pytest.raises((Killed, SilosDropped)):
        made.aggregate()
    made.store.before_put = lambda key: None
    with pytest.raises(SilosDropped) as caught:
        made.aggregate()
    assert caught.value.report.remaining == [0, 1, 2]


@pytest.mark.attack(
    by="the coordinator",
    does="waits for a masked update that comes late, beside a sum without it",
    result="there is none: a silo that was shut out sends nothing",
)
def test_a_claim_that_comes_first_wins_over_the_tombstone() -> None:
    made = masked_round()
    key = bucket_keys.claim(PREFIX, "webshop", 1, 0)
    claimed = made.store.objects.pop(key)
    del made.members["webshop"]

    def faster(written: str) -> None:
        if written == key:
            made.store.objects.setdefault(key, claimed)

    made.store.before_put = faster
    assert made.aggregate().members == [0, 1, 2, 3]


# Audit


def test_an_audit_adds_the_bodies_up_again(tmp_path: Path) -> None:
    made = masked_round("babyai", "maze", "wordle")
    with pytest.raises(SilosDropped):
        made.aggregate()
    made.next_epoch("babyai", "maze", "wordle")
    made.aggregate()
    before = dict(made.store.objects)
    found = audited.check(made.store, tmp_path / "one")[1]
    assert (found.verdict, found.merged) == ("equal", ["babyai", "maze", "wordle"])
    assert made.store.objects == before
    audited.forge_merge(made.store, 1)
    assert audited.check(made.store, tmp_path / "two")[1].verdict == "differs"
    made.store.objects = dict(before)
    key = made.key("maze", bucket_keys.masked_body(1))
    made.store.objects[key] = audited.flipped(before[key], 600)
    assert audited.check(made.store, tmp_path / "three")[1].verdict == "differs"


def test_a_late_member_is_in_the_log_also_when_the_aggregator_was_killed_before_it(
    tmp_path: Path,
) -> None:
    made = masked_round()
    del made.members["webshop"]
    made.aggregate()
    entry = made.store.objects.pop(bucket_keys.audit_entry(PREFIX, 1))
    made.aggregate()
    assert made.store.objects[bucket_keys.audit_entry(PREFIX, 1)] == entry
    assert audited.check(made.store, tmp_path)[1].verdict == "equal"
