"""The base model and the shapes: the spec names them, or more than half of the members agree."""

import pytest

from hansa import keys, manifest
from hansa.manifest import StartAdapter
from hansa.spec import ModelSource
from hansa_server import gate
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server.rounds import PREFIX, RANK, Round, full_round, reshaped, tensors


def test_the_base_model_of_the_majority_is_the_federations():
    round_ = full_round()
    round_.send("babyai", tensors(0), baseModel="a" * 64)
    report = round_.aggregate()
    assert (report.members, report.refused) == ([1, 2], [(0, "base-model")])


def test_the_known_base_model_counts_more_than_a_majority():
    first = full_round()
    first.aggregate()
    digest = manifest.sha256(first.store.objects[first.global_key(keys.ADAPTER)])
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


def test_of_two_base_models_neither_is_the_federations_and_both_are_named():
    round_ = full_round(environments=("babyai", "maze"))
    round_.send("babyai", tensors(0), baseModel="a" * 64)
    with pytest.raises(TooFewMembers) as refused:
        round_.aggregate()
    for named in (f"babyai has {'a' * 64}", f"maze has {'b' * 64}", "spec.model.sha256"):
        assert named in refused.value.message
    assert refused.value.report.refused == []
    assert round_.store.written == [keys.audit_entry(PREFIX, 1)]


def test_a_digest_in_the_spec_ends_a_tie_and_keeps_what_was_computed_before_it():
    round_ = full_round(environments=("babyai", "maze"))
    round_.send("babyai", tensors(0), baseModel="a" * 64)
    report = round_.aggregate(model=ModelSource(sha256="b" * 64))
    assert (report.members, report.refused) == ([1], [(0, "base-model")])


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
    assert gate.majority(answers) == agreed
