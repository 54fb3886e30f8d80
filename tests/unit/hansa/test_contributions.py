"""What an update is worth: which merges are played, and what follows from their success."""

import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hansa import contributions
from hansa.contributions import Measured, Subset, Subsets, Worth
from hansa.intervals import Interval
from hansa.status import RoundSettings
from tests.builders import make_spec

FOUR = ("alder", "birch", "cedar", "dogwood")
TWELVE = tuple(f"silo-{number:02d}" for number in range(12))


def drawn(seed: int, names: tuple[str, ...]) -> contributions.Utility:
    """A game in which every set of silos has a success of its own."""
    draw = random.Random(seed)
    sets = itertools.chain.from_iterable(
        itertools.combinations(names, size) for size in range(len(names) + 1)
    )
    table = {frozenset(each): draw.random() for each in sets}
    return table.__getitem__


# -- which merges are played ----------------------------------------------------------------------


def test_up_to_eight_silos_each_is_left_out_once() -> None:
    assert contributions.method(8) == "leave-one-out"
    assert contributions.subsets(FOUR, []) == [
        ["alder", "birch", "cedar"],
        ["alder", "birch", "dogwood"],
        ["alder", "cedar", "dogwood"],
        ["birch", "cedar", "dogwood"],
    ]


def test_of_two_updates_each_is_played_alone_and_of_one_there_is_nothing_to_leave_out() -> None:
    assert contributions.subsets(["b", "a"], []) == [["a"], ["b"]]
    assert contributions.subsets(["a"], []) == []


def test_above_eight_an_order_and_its_reverse_bound_the_number_of_merges() -> None:
    assert contributions.method(9) == "shapley"
    first, second = contributions.orders(TWELVE, 7, 3)
    assert sorted(first) == list(TWELVE) and second == first[::-1]
    made = contributions.subsets(TWELVE, [first, second])
    assert len(made) == 2 * (len(TWELVE) - 1)
    assert sorted(first[:4]) in made and sorted(second[:1]) in made
    assert list(TWELVE) not in made and [] not in made


def test_orders_follow_from_seed_and_round_and_from_nothing_else() -> None:
    again = contributions.orders(TWELVE[::-1], 7, 3)
    assert again == contributions.orders(TWELVE, 7, 3)
    assert again != contributions.orders(TWELVE, 7, 4)
    assert again != contributions.orders(TWELVE, 8, 3)


def test_a_silo_plays_all_merges_but_the_one_without_itself() -> None:
    every = told(contributions.subsets(FOUR, []))
    mine = contributions.played_by("birch", every)
    assert len(mine) == len(FOUR) - 1
    assert all("birch" in each.members for each in mine)
    assert contributions.played_by("elm", every) == every.adapters, "who was no member plays all"
    orders = contributions.orders(TWELVE, 7, 1)
    sampled = told(contributions.subsets(TWELVE, orders), "shapley", orders)
    assert contributions.played_by(TWELVE[0], sampled) == sampled.adapters


def told(sets: list[list[str]], method: Any = "leave-one-out", orders: Any = ()) -> Subsets:
    made = [Subset(members=each, sha256="a" * 64, size=1) for each in sets]
    return Subsets(method=method, orders=list(orders), adapters=made)


# -- what follows from them -----------------------------------------------------------------------


@given(seed=st.integers(0, 1000))
def test_with_all_orders_shapleys_values_are_those_of_the_formula(seed: int) -> None:
    utility, count = drawn(seed, FOUR), len(FOUR)
    sampled = contributions.shapley(list(itertools.permutations(FOUR)), utility)
    for name in FOUR:
        exact = 0.0
        for size in range(count):
            for without in itertools.combinations([n for n in FOUR if n != name], size):
                weight = math.factorial(size) * math.factorial(count - size - 1)
                gained = utility(frozenset((*without, name))) - utility(frozenset(without))
                exact += weight / math.factorial(count) * gained
        assert sampled[name] == pytest.approx(exact)


@given(seed=st.integers(0, 1000), round_=st.integers(1, 9))
def test_shapleys_values_sum_to_what_the_round_gained_however_few_orders_are_played(
    seed: int, round_: int
) -> None:
    utility = drawn(seed, FOUR)
    values = contributions.shapley(contributions.orders(FOUR, seed, round_), utility)
    gained = utility(frozenset(FOUR)) - utility(frozenset())
    assert sum(values.values()) == pytest.approx(gained)


def test_whoever_leaves_nothing_behind_is_worth_nothing_and_harm_is_below_zero() -> None:
    useful = {"alder": 0.2, "birch": 0.3, "cedar": 0.0, "dogwood": -0.4}

    def utility(members: frozenset[str]) -> float:
        return 0.5 + sum(useful[name] for name in members)

    assert contributions.leave_one_out(FOUR, utility) == pytest.approx(useful)
    assert contributions.shapley([FOUR], utility) == pytest.approx(useful)
    own = contributions.leave_one_out(FOUR, utility, "birch")
    assert set(own) == set(FOUR) - {"birch"}, "nobody measures itself"


def test_rounds_are_added_task_by_task() -> None:
    once = contributions.add({}, {"t2": {"a": 1.0}, "t1": {"a": 0.0, "b": -1.0}})
    twice = contributions.add(once, {"t1": {"a": 1.0}})
    assert twice == {"a": {"t1": (1.0, 2), "t2": (1.0, 1)}, "b": {"t1": (-1.0, 1)}}
    assert once == {"a": {"t1": (0.0, 1), "t2": (1.0, 1)}, "b": {"t1": (-1.0, 1)}}, "untouched"


def test_a_task_counts_once_however_many_rounds_have_played_it() -> None:
    rare = contributions.worth({f"t{n}": (1.0 * (n % 2), 1) for n in range(40)})
    often = contributions.worth({f"t{n}": (5.0 * (n % 2), 5) for n in range(40)})
    assert (
        rare and often and (rare.value, rare.error) == (often.value, often.error) == (0.5, 0.0807)
    )
    assert (rare.rounds, often.rounds) == (1, 5)


def test_tasks_that_all_end_alike_leave_some_doubt_and_no_task_leaves_nothing() -> None:
    equal = contributions.worth({f"t{n}": (0.0, 1) for n in range(8)})
    assert equal == Worth(value=0.0, error=0.1, rounds=1)
    assert contributions.worth({}) is None


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=60))
def test_the_error_is_never_nothing_and_never_beyond_what_a_report_can_say(
    differences: list[float],
) -> None:
    found = contributions.worth({str(n): (value, 1) for n, value in enumerate(differences)})
    assert found is not None and 0 < found.error <= 1 and -1 <= found.value <= 1


def test_limits_hold_the_truth_about_as_often_as_they_say() -> None:
    draw, held = random.Random(7), 0
    for _ in range(400):
        tasks = {str(n): (float(draw.random() < 0.3) - (draw.random() < 0.1), 1) for n in range(40)}
        found = contributions.worth(tasks)
        assert found is not None
        held += abs(found.value - 0.2) <= 1.96 * found.error
    assert 0.92 <= held / 400 <= 0.99


def test_a_silos_value_is_the_mean_over_the_others_and_its_own_word_does_not_count() -> None:
    def word(**values: float) -> Measured:
        worth = {n: Worth(value=v, error=0.03, rounds=2) for n, v in values.items()}
        return Measured(round=2, worth=worth)

    said = {"a": word(a=1.0, b=0.1), "b": word(a=0.2), "c": word(a=0.4, b=-0.1)}
    found = contributions.to_others("a", said)
    assert found is not None
    limits, rounds = found
    half = 1.96 * 0.03 / math.sqrt(2)
    assert limits.value == pytest.approx(0.3) and rounds == 2
    assert (limits.low, limits.high) == pytest.approx((0.3 - half, 0.3 + half), abs=1e-5)
    assert contributions.to_others("c", said) is None


def test_limits_stay_where_a_difference_can_be() -> None:
    sure = {"b": Measured(round=1, worth={"a": Worth(value=-1.0, error=1.0, rounds=1)})}
    found = contributions.to_others("a", sure)
    assert found is not None and found[0] == Interval(-1.0, -1.0, pytest.approx(0.96, abs=0.01))


# -- what is refused ------------------------------------------------------------------------------

KEY = "x25519:" + "A" * 43
PLACE = {"s3": {"bucket": "own"}}


@pytest.mark.parametrize(
    "names, fields, sentence",
    [
        pytest.param(
            FOUR[:2],
            {},
            "evaluation.contributions: got a value with 2 environments, expected 3 to 32 of them",
            id="too few",
        ),
        pytest.param(
            tuple(f"silo-{number}" for number in range(33)),
            {},
            "evaluation.contributions: got a value with 33 environments, expected 3 to 32 of them",
            id="too many for a report",
        ),
        pytest.param(
            FOUR,
            {"aggregation": {"strategy": "none"}},
            "evaluation.contributions: got a value, and with aggregation.strategy none nothing is",
            id="nothing is merged",
        ),
        pytest.param(
            FOUR,
            {"evaluation": {"contributions": {}, "validationTasks": 0}},
            "evaluation.validationTasks: got 0, by which evaluation.contributions measures nothing",
            id="no validation tasks",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_sentence(
    names: tuple[str, ...], fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence.replace("(", r"\(")):
        make_spec(*names, **{"evaluation": {"contributions": {}}, **fields})


def test_sealed_updates_are_not_given_away_by_merges_without_them() -> None:
    environments = [{"name": n, "world": n, "experienceStorage": PLACE} for n in FOUR]
    sealed = {"aggregation": {"sealTo": KEY}, "environments": environments}
    make_spec(**sealed)
    with pytest.raises(
        ValidationError, match=r"with aggregation\.sealTo nobody but the aggregator"
    ):
        make_spec(**sealed, evaluation={"contributions": {}})


def test_masked_updates_are_not_given_away_by_merges_without_them() -> None:
    masked = {
        "aggregation": {"secure": {}},
        "participation": {"minimumUpdates": 3},
        "environments": [
            {
                "name": name,
                "world": name,
                "experienceStorage": PLACE,
                "maskingKey": f"x25519:{letter * 43}",
            }
            for name, letter in zip(FOUR, "abcd", strict=True)
        ],
    }
    make_spec(**masked)
    with pytest.raises(ValidationError, match=r"with aggregation\.secure nobody may learn"):
        make_spec(**masked, evaluation={"contributions": {}})


def test_validation_tasks_are_as_many_as_held_out_ones_where_nobody_says_otherwise() -> None:
    made = make_spec(*FOUR, evaluation={"contributions": {}, "tasks": 30})
    assert RoundSettings.of(made).evaluation.validation_tasks == 30


def test_rounds_that_nobody_evaluates_are_not_taken_apart() -> None:
    measured = make_spec(evaluation={"everyRounds": 2, "contributions": {"everyRounds": 3}})
    assert [r for r in range(1, 13) if measured.evaluation.measures_contributions(r)] == [6, 12]
    assert not make_spec().evaluation.measures_contributions(6)


def test_a_silo_elsewhere_has_not_agreed_that_the_others_learn_its_update() -> None:
    signing = "ed25519:" + "A" * 43
    elsewhere = {
        "environments": [
            *({"name": name, "world": name} for name in FOUR[:2]),
            {"name": "far", "member": {"publicKeys": [signing]}},
        ],
        "exchange": {"publicKeys": [signing], "signingSecret": {"name": "key"}},
        "model": {"sha256": "a" * 64},
        "adapter": {"shapes": "b" * 64},
    }
    make_spec(**elsewhere)
    with pytest.raises(ValidationError, match=r"with environments\[far\]\.member the silo's owner"):
        make_spec(**elsewhere, evaluation={"contributions": {}})


def test_a_privacy_budget_pays_for_no_more_figures() -> None:
    private = {
        "environments": [{"name": n, "world": n, "experienceStorage": PLACE} for n in FOUR],
        "privacy": {"epsilon": 8.0, "delta": 1e-5},
        "training": {"maxSteps": 1},
    }
    make_spec(**private)
    with pytest.raises(ValidationError, match=r"with spec\.privacy no silo may tell more figures"):
        make_spec(**private, evaluation={"contributions": {}})
