"""The condition Degraded: the worst of what is wrong with a federation that still runs."""

from hansa.api.constants import Reason
from hansa.api.status import CurrentRound, FederationStatus


def find_degradation(status: FederationStatus) -> tuple[Reason, str]:
    """The reason of the condition Degraded, and its message; AllHealthy: nothing is wrong."""
    if blocked := _list_blocked(status.current):
        return "ConsentMissing", f"{'; '.join(blocked)}; it then continues automatically"
    failing = [f"{e.name}: {e.message}" for e in status.environments if not e.healthy]
    if failing:
        is_spent = all(e.budget_spent for e in status.environments if not e.healthy)
        return "PrivacyBudgetSpent" if is_spent else "EnvironmentFailed", "; ".join(failing)
    if status.courier and status.courier.message:
        return "ExchangeFailed", f"courier: {status.courier.message}"
    away = [f"{m.name}: {m.state}" for m in status.members if m.state in ("Away", "Left")]
    if away:
        return "MemberAway", "; ".join(away)
    if status.guard and status.guard.overruled:
        return "VetoOverruled", status.guard.overruled
    newest = status.history[-1] if status.history else None
    if newest and newest.outcome == "rolled-back":
        return "RolledBack", f"round {newest.round} was rolled back: {newest.message}"
    if newest and newest.outcome == "empty":
        return "NothingToLearn", (
            f"no environment had a successful trajectory in round {newest.round}: "
            "raise experience.demonstrations or exploration.tasksPerRound"
        )
    return "AllHealthy", ""


def _list_blocked(current: CurrentRound | None) -> list[str]:
    """Parties that wait for a person, with the reason."""
    if current is None:
        return []
    parties = [(e.name, e.blocked) for e in current.environments]
    return [
        f"{who}: {why}"
        for who, why in (*parties, ("aggregator", current.aggregator.blocked))
        if why
    ]
