"""A silo whose privacy budget is spent: the round continues without it, and says why."""

from hansa.core.exits import Exit
from hansa.manifests.reference import find
from tests.support.letters import opened
from tests.support.simulated_cluster import Cluster

SPENT = {"exit_code": Exit.BUDGET_SPENT, "message": "got 8 as this silo's budget"}


def without_wordle(**failed) -> Cluster:
    """A federation of three whose wordle failed for good in round 1, which the others closed."""
    cluster = Cluster("babyai", "maze", "wordle", participation={"minimumUpdates": 1}).turn()
    cluster.set("fed-r1-wordle-a1", "failed", **(failed or SPENT))
    cluster.answer("fed-r1-babyai-a1").answer("fed-r1-maze-a1").turn()
    return cluster.answer("fed-r1-aggregator-a1").turn()


def test_a_spent_budget_has_a_reason_of_its_own_and_is_not_retried() -> None:
    cluster = without_wordle()
    degraded = cluster.condition("Degraded")
    assert (degraded.status, degraded.reason) == ("True", "PrivacyBudgetSpent")
    assert degraded.message == "wordle: got 8 as this silo's budget"
    assert [e.budget_spent for e in cluster.status.environments] == [False, False, True]
    assert cluster.status.history[-1].updates == "2/3"
    assert cluster.active() == ["fed-r2-babyai-a1", "fed-r2-maze-a1", "fed-r2-wordle-a1"]


def test_another_failure_is_no_spent_budget() -> None:
    cluster = without_wordle(exit_code=Exit.PERMANENT, message="no such model")
    assert cluster.condition("Degraded").reason == "EnvironmentFailed"
    assert not any(e.budget_spent for e in cluster.status.environments)


def test_a_failure_that_somebody_can_mend_comes_before_a_budget_that_nobody_can() -> None:
    cluster = without_wordle()
    cluster.set("fed-r2-maze-a1", "failed", exit_code=Exit.PERMANENT, message="no such model")
    cluster.set("fed-r2-wordle-a1", "failed", **SPENT).answer("fed-r2-babyai-a1").turn()
    cluster.answer("fed-r2-aggregator-a1").turn()
    degraded = cluster.condition("Degraded")
    assert degraded.reason == "EnvironmentFailed"
    assert degraded.message == "maze: no such model; wordle: got 8 as this silo's budget"


def test_a_silo_that_answers_again_has_a_larger_budget() -> None:
    cluster = without_wordle().answer("fed-r2-wordle-a1").turn()
    assert cluster.condition("Degraded").reason == "AllHealthy"
    assert not any(e.budget_spent for e in cluster.status.environments)


def test_a_silo_elsewhere_says_it_by_its_exit_code_alone() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1}).deliver()
    cluster.hear("clinic", "failed", exit=int(Exit.BUDGET_SPENT))
    cluster.answer("maze").aggregate()
    degraded = cluster.condition("Degraded")
    assert degraded.reason == "PrivacyBudgetSpent"
    assert degraded.message.startswith("clinic: gave up: the silo's privacy budget is spent")


def test_explain_knows_it() -> None:
    reason, line = find("status.conditions.reason"), find("status.environments.budgetSpent")
    assert reason and "PrivacyBudgetSpent" in reason.allowed
    assert line and "privacy budget" in line.description
