"""What an order costs of the rounds and episodes that were agreed on, and when that is refused."""

from typing import Any

import pytest

from hansa.api.letters import PATHS
from hansa.api.member_status import SiloUsage
from hansa.members.budget import compute_most_episodes, count_episodes, identify_work
from hansa.members.limits import judge
from tests.support.members import AGREED, member, order

FRESH = SiloUsage()
PEERS = {
    name: "x25519:" + letter * 43 for name, letter in zip(("clinic", "lab"), "AE", strict=True)
}
MOST = {"most": {"settings.exploration.tasksPerRound": 128}}


def test_rounds_are_counted_and_may_be_raised_by_a_limit() -> None:
    used = FRESH.with_rounds([1, 2, 3])
    refusal = judge(order(round=4), member(), used)
    assert refusal is not None
    assert (refusal.code, str(refusal)) == ("budget", "rounds: got 4, allowed at most 3")
    assert judge(order(round=4), member(limits={"most": {"rounds": 4}}), used) is None
    assert judge(order(role="evaluate", round=3), member(), used) is None


@pytest.mark.parametrize("change", [{"round": 500}, {"role": "evaluate", "round": 500}])
def test_a_number_beyond_the_agreed_rounds_is_refused(change: dict[str, Any]) -> None:
    refusal = judge(order(**change), member(), FRESH)
    assert refusal is not None
    assert (refusal.code, str(refusal)) == ("budget", "round: got 500, allowed at most 3")
    assert refusal.path in PATHS


def test_a_round_in_which_its_own_jobs_failed_is_none_of_those_agreed() -> None:
    used = SiloUsage(failed=1).with_rounds([1, 3])
    assert judge(order(round=4), member(), used) is None
    assert judge(order(round=5), member(), used) is not None


def test_a_round_that_was_taken_before_counts_once_and_its_work_is_free_once_answered() -> None:
    again = order(round=3)
    used = SiloUsage(episodes=592, answered=[identify_work(again)]).with_rounds([1, 2, 3])
    assert judge(again, member(), used) is None
    changed_start = order(round=3, start={"round": 2, "sha256": "e" * 64})
    refusal = judge(changed_start, member(), used)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("budget", "episodes")


def test_masking_again_is_the_same_work() -> None:
    first = order(masking={"peers": PEERS})
    again = order(masking={"epoch": 1, "peers": PEERS}, evaluate=False)
    assert identify_work(first) == identify_work(again)
    assert identify_work(first) != identify_work(order(own_start=True))


def test_episodes_have_a_limit_that_follows_from_the_agreement() -> None:
    assert compute_most_episodes(member()) == 3 * 164 + 100
    assert compute_most_episodes(member(limits=MOST)) == 3 * 228 + 100
    assert compute_most_episodes(member(limits={"episodes": 5})) == 5
    spent = SiloUsage(episodes=3 * 164 + 100)
    refusal = judge(order(role="evaluate", round=3), member(), spent)
    assert refusal is not None
    assert str(refusal) == "episodes: got 692, allowed at most 592"


@pytest.mark.parametrize("is_agreed, rounds", [(True, 4), (False, 1)])
def test_rounds_alone_are_bounded_by_the_agreement(is_agreed: bool, rounds: int) -> None:
    settings = {"evaluation": {"alone": is_agreed}}
    silo = member(agreed={**AGREED, "settings": settings})
    asked = order(role="evaluate", round=3, alone_rounds=rounds, settings=settings)
    refusal = judge(asked, silo, FRESH)
    assert refusal is not None
    assert (refusal.code, refusal.path) == ("budget", "aloneRounds")
    assert refusal.path in PATHS


def test_an_order_is_charged_at_its_most_before_it_starts() -> None:
    one = count_episodes(order())
    assert one == 64 + 100
    assert judge(order(), member(limits={"episodes": one}), FRESH) is None
    refusal = judge(order(), member(limits={"episodes": one}), SiloUsage(episodes=1))
    assert refusal is not None
    assert (refusal.code, refusal.came) == ("budget", "165")


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"settings": {"evaluation": {"own_update": True}}}, 64 + 200),
        ({"settings": {"evaluation": {"greedy": True}}}, 64 + 200),
        ({"settings": {"evaluation": {"validation_tasks": 50, "samples_per_task": 2}}}, 64 + 300),
        ({"role": "evaluate", "round": 3}, 100),
        ({"settings": {"probes": [{"name": "wall", "world": "maze", "tasks": 7}]}}, 64 + 100 + 7),
        (
            {
                "role": "evaluate",
                "round": 3,
                "settings": {"probes": [{"name": "words", "prompts": ["a", "b"]}]},
            },
            100 + 2,
        ),
        ({"role": "evaluate", "round": 3, "alone_rounds": 3}, 100 + 3 * 64 + 100),
        (
            {"role": "evaluate", "round": 3, "settings": {"personalization": "best"}},
            100 + (1 + 4 + 3) * 100 + 3 * 64 + 100,
        ),
        (
            {
                "role": "evaluate",
                "round": 3,
                "settings": {"personalization": "finetune", "evaluation": {"validation_tasks": 20}},
            },
            120 + (1 + 3) * 20 + 3 * 64 + 100,
        ),
    ],
)
def test_episodes_are_counted_where_they_are_played(change, expected) -> None:
    assert count_episodes(order(**change)) == expected
