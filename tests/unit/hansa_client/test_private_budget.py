"""The privacy budgets of a silo: what is paid for, and who wins where they differ."""

import json
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.core import logs
from hansa.core.errors import BudgetSpent, Denied, OrderRefused, PermanentError
from hansa_client.last import evaluate_only
from hansa_client.privacy import open_ledger
from hansa_client.silo import Silo
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import PRIVACY, UPDATE, Assign, manifest, play_apart

BUDGET = bucket_keys.privacy_budget("maze")


def test_a_spent_budget_ends_the_client_before_anything_is_played(private_assign: Assign) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    with pytest.raises(BudgetSpent, match=r"spec.privacy.epsilon: got 2 .* round 1 would make it"):
        play_apart(exchange, private, private_assign({"epsilon": 2.0}))
    assert not exchange.written and not private.written


def test_rounds_add_up_and_what_is_paid_for_is_paid_once(private_assign: Assign) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    first = play_apart(exchange, private, private_assign(evaluate=False))
    assert play_apart(exchange, private, private_assign(evaluate=False)).epsilon == first.epsilon
    exchange.objects.pop(UPDATE + bucket_keys.MANIFEST)
    lowered = private_assign({"epsilon": 100.0}, evaluate=False)
    assert play_apart(exchange, private, lowered).epsilon == first.epsilon
    second = play_apart(exchange, private, private_assign(round=2, evaluate=False))
    assert second.epsilon and first.epsilon and second.epsilon > first.epsilon
    statement = manifest(exchange, "run/updates/maze/00002/").privacy
    assert statement and statement.rounds == 2 and statement.epsilon == second.epsilon


@pytest.mark.attack(
    by="the coordinator",
    does="raises `spec.privacy.epsilon`, or drops privacy, against a silo's own budget",
    result="the silo stops before it plays anything",
)
def test_the_silos_own_budget_wins_over_the_spec(private_assign: Assign) -> None:
    private = MemoryStore()
    budget = {"kind": "budget", "unit": "task", "epsilon": 2, "delta": 1e-5}
    private.objects[BUDGET] = json.dumps(budget).encode()
    with pytest.raises(BudgetSpent, match=r"got 2 as this silo's budget.*at a delta of 1e-05"):
        play_apart(MemoryStore(), private, private_assign())


@pytest.mark.attack(
    by="the coordinator",
    does="runs again under another prefix, to get a second budget of a silo",
    result="the owner's budget counts all runs in the silo's bucket",
)
def test_another_prefix_opens_no_second_budget(private_assign: Assign) -> None:
    private = MemoryStore()
    first = play_apart(MemoryStore(), private, private_assign(evaluate=False)).epsilon
    assert first
    elsewhere = private_assign(evaluate=False)
    place = elsewhere.private_storage.model_copy(update={"prefix": "another"})
    elsewhere = elsewhere.model_copy(update={"experience_storage": place})
    budget = {"kind": "budget", "unit": "task", "epsilon": first * 1.1, "delta": 1e-3}
    with_budget = MemoryStore()
    with_budget.objects = {**private.objects, BUDGET: json.dumps(budget).encode()}
    with pytest.raises(BudgetSpent, match=r"this silo's budget"):
        play_apart(MemoryStore(), with_budget, elsewhere)
    report = play_apart(MemoryStore(), private, elsewhere)
    assert report.epsilon == first, "the spec's own budget is for one run"


@pytest.mark.attack(
    by="the coordinator",
    does="plays a round again with other settings, to ask for more under `spec.privacy`",
    result="the silo's ledger pays again",
)
def test_a_round_of_other_settings_in_the_same_place_pays_again(
    private_assign: Assign,
) -> None:
    private = MemoryStore()

    def pay(**settings: Any) -> float:
        assignment = private_assign(evaluate=False, **settings)
        ledger = Silo(assignment, MemoryStore(), private, logs.get("client")).ledger
        assert ledger
        ledger.pay("training", 1)
        return ledger.epsilon

    first = pay()
    assert pay() == first, "what is paid for is paid once"
    assert pay(exploration={"tasksPerRound": 3, "maxNewTokens": 64}) > first


@pytest.mark.attack(
    by="the coordinator",
    does="orders rounds alone from a silo with `spec.privacy`",
    result="the silo refuses: `aloneRounds` must be 0",
)
def test_a_silo_evolves_alone_under_no_privacy(private_assign: Assign) -> None:
    with pytest.raises(PermanentError, match=r"aloneRounds: got 2, expected 0 with privacy"):
        evaluate_only(
            Silo(
                private_assign(role="evaluate", aloneRounds=2),
                MemoryStore(),
                MemoryStore(),
                logs.get("client"),
            )
        )


@pytest.mark.attack(
    by="the coordinator",
    does="raises `spec.privacy.epsilon`, or drops privacy, against a silo's own budget",
    result="the silo stops before it plays anything",
)
def test_a_silo_with_a_budget_takes_part_in_nothing_without_privacy(
    private_assign: Assign, assign: Assign
) -> None:
    private = MemoryStore()
    budget = {"kind": "budget", "unit": "task", "epsilon": 2, "delta": 1e-5}
    private.objects[BUDGET] = json.dumps(budget).encode()
    plain = assign(experienceStorage={"bucket": "private", "prefix": "own"})
    with pytest.raises(OrderRefused, match=r"has no spec.privacy; nothing was loaded"):
        play_apart(MemoryStore(), private, plain)
    with pytest.raises(OrderRefused, match=r"protects tasks, and spec.privacy.unit is trajectory"):
        play_apart(MemoryStore(), private, private_assign({"unit": "trajectory"}))


def test_a_silo_without_a_private_store_asks_its_bucket_for_no_budget(assign: Assign) -> None:
    """Its identity may read nothing at the root of a bucket that it shares."""
    shared = MemoryStore()
    assert open_ledger(shared, assign()) is None
    assert shared.read == []
    open_ledger(shared, assign(experienceStorage={"bucket": "private", "prefix": "own"}))
    assert shared.read == [BUDGET]


def test_where_its_owner_lets_it_read_no_budget_it_has_none(
    private_assign: Assign, assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: MemoryStore, key: str) -> bytes:
        raise Denied(f"{key}: the credentials may not read it")

    monkeypatch.setattr(MemoryStore, "get", refuse)
    plain = assign(experienceStorage={"bucket": "private", "prefix": "own"})
    assert open_ledger(MemoryStore(), plain) is None
    with pytest.raises(Denied):
        open_ledger(MemoryStore(), private_assign())


def test_a_client_refuses_by_itself_what_the_spec_should_have_refused(assign: Assign) -> None:
    place = {"bucket": "private", "prefix": "own"}
    with pytest.raises(PermanentError, match=r"^experienceStorage: got nothing"):
        play_apart(MemoryStore(), MemoryStore(), assign(privacy=PRIVACY))
    with pytest.raises(PermanentError, match=r"^settings.training.maxSteps: got 0"):
        play_apart(MemoryStore(), MemoryStore(), assign(privacy=PRIVACY, experienceStorage=place))


def test_another_unit_than_the_ledgers_is_refused(private_assign: Assign) -> None:
    exchange, private = MemoryStore(), MemoryStore()
    play_apart(exchange, private, private_assign())
    with pytest.raises(PermanentError, match=r"spec.privacy.unit: got trajectory.*expected task"):
        play_apart(exchange, private, private_assign({"unit": "trajectory"}, round=2))


def test_the_last_evaluation_is_paid_for_and_reported(private_assign: Assign) -> None:
    private = MemoryStore()
    assignment = private_assign(role="evaluate")
    report = evaluate_only(Silo(assignment, MemoryStore(), private, logs.get("client")))
    assert report.epsilon and report.epsilon > 0
    assert report.seconds == {}
    with pytest.raises(BudgetSpent):
        evaluate_only(
            Silo(
                private_assign({"epsilon": 0.1}, role="evaluate"),
                MemoryStore(),
                MemoryStore(),
                logs.get(""),
            )
        )
