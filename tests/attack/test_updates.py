"""Updates that were exchanged, replayed or changed after they were sent: the others count alone.

What is malformed in one file or manifest is in tests/unit/hansa_server/test_gate.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import StartAdapter
from hansa.api.spec import S3
from hansa.core.logs import Log
from hansa.store.s3 import S3Store
from hansa_server.round import aggregate
from tests.unit.hansa_server.audited import check, flipped
from tests.unit.hansa_server.rounds import PREFIX, Round, full_round, tensors


def second_round(**changes: Any) -> Round:
    """A sound second round, with the first in the same store."""
    first = full_round(**changes)
    start = StartAdapter(round=1, sha256=first.aggregate().adapter)
    second = Round(number=2, start=start, store=first.store, **changes)
    for position, environment in enumerate(second.environments):
        second.send(environment, second.trained(10 + position))
    return second


def honest(without: str = "maze", **changes: Any) -> str:
    """Digest of what the others' updates give alone."""
    round_ = second_round(**changes)
    del round_.members[without]
    return round_.aggregate().adapter


def objects(round_: Round, environment: str, number: int) -> dict[str, bytes]:
    """The files of an update, by their names."""
    folder = bucket_keys.update_folder(PREFIX, environment, number)
    stored = round_.store.objects
    return {k.removeprefix(folder): data for k, data in stored.items() if k.startswith(folder)}


def send_all(round_: Round, environment: str, files: dict[str, bytes]) -> None:
    """Put these files in the place of an update, and report them as its own."""
    for name, data in files.items():
        round_.store.objects[round_.key(environment, name)] = data
    round_.send_manifest(environment, files[bucket_keys.MANIFEST])


def replay(round_: Round) -> None:
    send_all(round_, "maze", objects(round_, "maze", 1))


def replay_under_a_new_number(round_: Round) -> None:
    files = objects(round_, "maze", 1)
    document = {**json.loads(files[bucket_keys.MANIFEST]), "round": 2}
    document["inputs"]["round"] = 2
    document["fingerprint"] = bucket_documents.fingerprint(document["inputs"])
    send_all(round_, "maze", {**files, bucket_keys.MANIFEST: bucket_documents.canonical(document)})


def take_anothers(round_: Round) -> None:
    send_all(round_, "maze", objects(round_, "wordle", 2))


def take_anothers_adapter(round_: Round) -> None:
    files = objects(round_, "wordle", 2)
    round_.store.objects[round_.key("maze", bucket_keys.ADAPTER)] = files[bucket_keys.ADAPTER]


def replay_the_adapter(round_: Round) -> None:
    """The old file below the new manifest."""
    files = objects(round_, "maze", 1)
    round_.store.objects[round_.key("maze", bucket_keys.ADAPTER)] = files[bucket_keys.ADAPTER]


def replace_both(round_: Round) -> None:
    """Another whole update, after the members were frozen."""
    frozen = round_.members["maze"]
    round_.send("maze", tensors(99))
    round_.members["maze"] = frozen


ATTACKS: dict[str, tuple[Callable[[Round], None], str]] = {
    "an older round's update": (replay, "other-run"),
    "an older round's update with this round's number": (replay_under_a_new_number, "start"),
    "an older round's adapter below a new manifest": (replay_the_adapter, "sha256"),
    "another silo's whole update": (take_anothers, "other-run"),
    "another silo's adapter": (take_anothers_adapter, "sha256"),
    "another update after the members were frozen": (replace_both, "manifest-hash"),
}


@pytest.mark.attack(
    by="a silo",
    does=(
        "sends an older round's update, another silo's, or a new one after the members were frozen"
    ),
    result="refused; the others count",
)
@pytest.mark.parametrize("how", ATTACKS)
def test_an_update_that_is_not_this_rounds_own_is_refused_and_the_others_count(how: str) -> None:
    attack, reason = ATTACKS[how]
    round_ = second_round()
    attack(round_)
    report = round_.aggregate()
    assert report.refused == [(1, reason)]
    assert report.adapter == honest()


@pytest.mark.attack(
    by="a silo",
    does="flips a bit after the commit",
    result="refused",
)
@pytest.mark.parametrize("name", [bucket_keys.MANIFEST, bucket_keys.ADAPTER, bucket_keys.MOMENTS])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999], ids=["first", "middle", "last"])
def test_one_bit_that_was_flipped_after_the_commit_is_refused(name: str, share: float) -> None:
    strategy = {"aggregation": {"strategy": "regmean"}}
    round_ = second_round(**strategy)
    key = round_.key("maze", name)
    data = round_.store.objects[key]
    round_.store.objects[key] = flipped(data, int(share * len(data)))
    report = round_.aggregate()
    [(index, reason)] = report.refused
    assert index == 1
    assert reason in ("manifest-hash", "sha256", "unreadable", "moments")
    assert report.adapter == honest(**strategy)


@pytest.mark.attack(
    by="a silo",
    does="sends an update that is not this round's own, and the round is audited",
    result="`hansa audit` finds the round equal: the others, and nothing else, were merged",
)
@pytest.mark.parametrize("how", ATTACKS)
def test_an_audit_finds_the_round_as_the_gate_left_it(how: str, tmp_path: Path) -> None:
    """Whoever was refused had its reason, and the merge is that of the others."""
    round_ = second_round()
    ATTACKS[how][0](round_)
    round_.aggregate()
    assert check(round_.store, tmp_path)[2].verdict == "equal"


@pytest.mark.attack(
    by="a silo",
    does=(
        "sends an older round's update, another silo's, or a new one after the members were frozen"
    ),
    result="refused; the others count",
)
@pytest.mark.parametrize("how", ATTACKS)
def test_the_same_holds_on_a_real_store(how: str, store: S3Store, fresh_prefix: str) -> None:
    attack, reason = ATTACKS[how]
    round_ = second_round()
    attack(round_)
    for key, data in round_.store.objects.items():
        store.put_if_absent(key.replace(PREFIX, fresh_prefix, 1), data)
    storage = S3(bucket=store.s3.bucket, prefix=fresh_prefix)
    report = aggregate(round_.assignment(storage=storage), store, Log("server"), lambda: 0.0)
    assert (report.refused, report.adapter) == ([(1, reason)], honest())
