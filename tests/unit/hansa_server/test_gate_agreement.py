"""The base model and the shapes: the spec names them, or more than half of the members agree."""

import contextlib
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import GlobalManifest, StartAdapter
from hansa.api.spec import S3, Adapter, ModelSource
from hansa.store.audit_log import AuditEntry
from hansa.store.documents import parse
from hansa_server import gate
from hansa_server.recompute import merge_again
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server.rounds import (
    BASE_MODEL,
    PREFIX,
    RANK,
    SHAPES,
    Round,
    full_round,
    reshaped,
    tensors,
)


def test_the_base_model_of_the_majority_is_the_federations():
    round_ = full_round()
    round_.send("babyai", tensors(0), baseModel="a" * 64)
    report = round_.aggregate()
    assert (report.members, report.refused) == ([1, 2], [(0, "base-model")])


def test_the_known_base_model_counts_more_than_a_majority():
    first = full_round()
    first.aggregate()
    digest = bucket_documents.sha256(first.store.objects[first.global_key(bucket_keys.ADAPTER)])
    later = Round(number=2, start=StartAdapter(round=1, sha256=digest), store=first.store)
    later.send("babyai", tensors(0), baseModel="a" * 64)
    later.send("maze", tensors(1))
    later.send("wordle", tensors(2), baseModel="a" * 64)
    assert later.aggregate().members == [1]


def test_the_shapes_of_the_majority_are_the_federations():
    round_ = full_round()
    round_.send("babyai", reshaped(A=(RANK, 9)))
    report = round_.aggregate()
    assert (report.members, report.refused) == ([1, 2], [(0, "shape")])


@pytest.mark.attack(
    by="a silo",
    does="evicts the other of two by another base model or other shapes",
    result="the round fails and names both",
)
def test_of_two_base_models_neither_is_the_federations_and_both_are_named():
    round_ = full_round(environments=("babyai", "maze"))
    round_.send("babyai", tensors(0), baseModel="a" * 64)
    with pytest.raises(TooFewMembers) as refused:
        round_.aggregate()
    for named in (f"babyai has {'a' * 64}", f"maze has {'b' * 64}", "spec.model.sha256"):
        assert named in refused.value.message
    assert refused.value.report.refused == []
    assert round_.store.written == [bucket_keys.audit_entry(PREFIX, 1)]


def test_a_digest_in_the_spec_ends_a_tie_and_keeps_what_was_computed_before_it():
    round_ = full_round(environments=("babyai", "maze"))
    round_.send("babyai", tensors(0), baseModel="a" * 64)
    report = round_.aggregate(model=ModelSource(sha256="b" * 64))
    assert (report.members, report.refused) == ([1], [(0, "base-model")])


@pytest.mark.attack(
    by="a silo",
    does="evicts the other of two by another base model or other shapes",
    result="the round fails and names both",
)
def test_of_two_shapes_neither_is_the_federations():
    round_ = full_round(environments=("babyai", "maze"))
    round_.send("babyai", reshaped(A=(RANK, 9)))
    with pytest.raises(TooFewMembers, match=r"shapes of the adapter: babyai has \w{64}, maze has"):
        round_.aggregate()


def test_a_base_model_that_the_spec_names_counts_more_than_a_majority():
    round_ = Round()
    for position, environment in enumerate(round_.environments):
        digest = ("a" if position else "c") * 64
        round_.send(environment, tensors(position), baseModel=digest)
    report = round_.aggregate(model=ModelSource(sha256="c" * 64))
    assert (report.members, report.refused) == ([0], [(1, "base-model"), (2, "base-model")])


def pinned(shapes: lora.Shapes = SHAPES) -> dict[str, Any]:
    """A spec that names both digests."""
    digest = lora.shapes_digest(shapes)
    return {
        "model": ModelSource(sha256=BASE_MODEL),
        "adapter": Adapter(rank=RANK, shapes=digest),
    }


def test_of_two_silos_neither_can_evict_or_stall_the_other_where_the_spec_names_both_digests():
    for hostile in ("babyai", "maze"):
        round_ = full_round(environments=("babyai", "maze"))
        round_.send(hostile, reshaped(A=(RANK, 9)))
        report = round_.aggregate(**pinned())
        index = ("babyai", "maze").index(hostile)
        assert (report.members, report.refused) == ([1 - index], [(index, "shape")])


def test_shapes_that_the_spec_names_count_more_than_a_majority():
    round_ = Round()
    for position, environment in enumerate(round_.environments):
        round_.send(environment, reshaped(A=(RANK, 9)) if position else tensors(position))
    report = round_.aggregate(**pinned())
    assert (report.members, report.refused) == ([0], [(1, "shape"), (2, "shape")])


def test_a_layer_too_many_is_not_of_the_shapes_that_the_spec_names():
    round_ = full_round(environments=("babyai", "maze"))
    more = {name.replace("up_proj", "down_proj"): value for name, value in tensors(0).items()}
    round_.send("babyai", {**tensors(0), **more})
    report = round_.aggregate(**pinned())
    assert (report.members, report.refused) == ([1], [(0, "shape")])


def test_shapes_that_nobody_sent_end_the_round_with_every_refusal():
    round_ = full_round(environments=("babyai", "maze"))
    with pytest.raises(TooFewMembers, match=r"refused: babyai \(shape\), maze \(shape\)"):
        round_.aggregate(**pinned({**SHAPES, **{n: (RANK, 9) for n in SHAPES if ".lora_A" in n}}))


def test_digests_in_the_spec_change_neither_what_is_computed_nor_what_it_says_of_its_inputs():
    free, named = full_round(), full_round()
    free.aggregate()
    named.aggregate(**pinned())
    for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG, bucket_keys.MANIFEST):
        assert (
            named.store.objects[named.global_key(name)] == free.store.objects[free.global_key(name)]
        )


@pytest.mark.parametrize("strays", [("babyai",), ("babyai", "maze")])
@pytest.mark.parametrize("minimum", [1, 2])
def test_a_round_that_the_specs_digests_decided_audits_equal(strays, minimum):
    round_ = full_round(environments=("babyai", "maze"), minimum=minimum)
    for name in strays:
        round_.send(name, reshaped(A=(RANK, 9)), baseModel="a" * 64 if minimum == 2 else BASE_MODEL)
    with contextlib.suppress(TooFewMembers):
        round_.aggregate(**pinned())
    audit(round_)


def test_a_round_that_failed_by_the_specs_base_model_audits_equal():
    round_ = full_round(environments=("babyai", "maze"))
    with pytest.raises(TooFewMembers):
        round_.aggregate(model=ModelSource(sha256="a" * 64))
    audit(round_)


def audit(round_: Round) -> None:
    """Merge the first round again, as `hansa audit` does."""
    key = bucket_keys.audit_entry(PREFIX, 1)
    entry = parse(AuditEntry, key, round_.store.objects[key])
    made = round_.store.objects.get(round_.global_key(bucket_keys.MANIFEST))
    stored = parse(GlobalManifest, key, made) if made else None
    merge_again(round_.store, S3(bucket="hansa", prefix=PREFIX), entry, stored)


@pytest.mark.parametrize(
    ("answers", "agreed"),
    [
        ("a", "a"),
        ("aa", "a"),
        ("ab", None),
        ("aab", "a"),
        ("abb", "b"),
        ("aabb", None),
        ("aabc", None),
        ("abc", None),
    ],
)
def test_more_than_half_must_agree(answers, agreed):
    assert gate.find_majority(answers) == agreed
