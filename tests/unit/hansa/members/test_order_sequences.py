"""Whatever a coordinator signs, however often a silo restarts: no more is played than agreed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.api.assignment import Assignment
from hansa.api.member_status import FederationMember
from hansa.core.exits import Exit
from hansa.members.budget import compute_most_episodes, count_episodes, identify_work
from hansa.members.limits import judge
from tests.support.clinic import EVALUATED, REPORT, Clinic
from tests.support.members import AGREED, order

ORDERS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["client", "client", "evaluate"]),
        "round": st.sampled_from([1, 1, 2, 3, 4, 5, 500]),
        "start": st.sampled_from([{"round": 0}, {"round": 1, "sha256": "e" * 64}]),
        "own_start": st.booleans(),
        "evaluate": st.booleans(),
        "alone_rounds": st.sampled_from([0, 0, 3, 9]),
        "demonstrations": st.sampled_from([None, None, 400]),
    }
)
ENDS = st.sampled_from(["answered", "answered", "failed", "retried", "lost"])
SEQUENCES = st.lists(st.tuples(ORDERS, ENDS, st.booleans()), min_size=1, max_size=12)
SETTINGS = {"evaluation": {"alone": True}}


class Player:
    """A silo with its real limits, and how much its Jobs have played for whom."""

    def __init__(self) -> None:
        self.clinic = Clinic(agreed={**AGREED, "settings": SETTINGS}).turn()
        self.played = 0
        self.rounds: set[int] = set()
        self._stored: set[str] = set()

    def follow(self, asked: Assignment, end: str) -> None:
        """Judge an order, and carry it out to its end where it is allowed."""
        clinic = self.clinic
        refusal = judge(asked, clinic.silo.spec, clinic.status.usage)
        clinic.order(
            role=asked.role,
            round=asked.round,
            episodes=count_episodes(asked),
            work=identify_work(asked),
            veto=refusal.code if refusal else None,
            path=refusal.path if refusal else "",
        )
        if clinic.job:
            self._play(asked)
            self._end(asked, end)

    def _play(self, asked: Assignment) -> None:
        """What is stored is not played again."""
        usage = self.clinic.requests[self.clinic.job].assignment.usage
        assert judge(asked, self.clinic.silo.spec, usage) is None, "the client judges it alike"
        if identify_work(asked) not in self._stored:
            self.played += count_episodes(asked)
        if asked.role == "client":
            self.rounds.add(asked.round)

    def _end(self, asked: Assignment, end: str) -> None:
        clinic = self.clinic
        report = REPORT if asked.role == "client" else EVALUATED
        if end == "retried":
            clinic.set(clinic.job, "failed", exit_code=int(Exit.CRASHED)).turn()
            clinic.now = clinic.wake_at or clinic.now
            clinic.turn()
            end = "answered"
        if end == "lost" or not clinic.job:  # a newer order comes before it ends
            return
        if end == "answered":
            clinic.set(clinic.job, "succeeded", report=report).turn()
            self._stored.add(identify_work(asked))
        else:
            clinic.set(clinic.job, "failed", exit_code=int(Exit.BAD_INPUT)).turn()
            self.rounds.discard(asked.round)

    def restart(self) -> None:
        """The operator starts again with the object as it is stored."""
        self.clinic.silo = FederationMember.model_validate_json(
            self.clinic.silo.model_dump_json(by_alias=True)
        )


def check(sequence: list[tuple[dict[str, Any], str, bool]]) -> None:
    player = Player()
    spec = player.clinic.silo.spec
    for asked, end, restarts in sequence:
        player.follow(order(**asked, settings=SETTINGS), end)
        if restarts:
            player.restart()
        assert player.played <= compute_most_episodes(spec)
        assert len(player.rounds) <= spec.most_rounds


@pytest.mark.attack(
    by="the coordinator",
    does=(
        "orders rounds or episodes beyond those agreed, in any order, also across restarts of "
        "the silo"
    ),
    result="no more is played than was agreed",
)
@given(SEQUENCES)
@settings(max_examples=60)
def test_no_sequence_of_signed_orders_has_more_played_than_was_agreed(sequence) -> None:
    check(sequence)


@pytest.mark.full
@pytest.mark.timeout(1800)
@given(SEQUENCES)
@settings(max_examples=5000)
def test_the_same_of_five_thousand_sequences(sequence) -> None:
    check(sequence)


def test_with_one_agreed_round_the_order_for_a_late_one_opens_no_earlier_ones() -> None:
    player = Player()
    for number in (500, 1, 2, 3, 4):
        player.follow(order(round=number, settings=SETTINGS), "answered")
    assert player.rounds == {1, 2, 3}
    assert player.clinic.status.usage.rounds == 3
