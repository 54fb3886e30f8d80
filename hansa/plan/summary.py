"""Bookkeeping of the status: history, best adapter, environments, conditions.

Pure functions on frozen models; the decisions are in hansa.plan.federation.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from hansa.api import bucket_keys, job_names
from hansa.api.assignment import AggregatorReport, ClientReport, EvaluateReport, EvaluationReport
from hansa.api.constants import ANSWERED, Phase, Reason
from hansa.api.status import (
    AdapterStatus,
    BestAdapter,
    Condition,
    CurrentRound,
    EnvironmentStatus,
    Federation,
    FederationStatus,
    GuardStatus,
    HistoryEntry,
    RoundEnvironment,
    replace_conditions,
    trim_history,
)
from hansa.core.exits import Exit, describe_failure
from hansa.core.stats import average
from hansa.core.text import count
from hansa.plan.policy import apart, degraded, guard, joined, masks, orders, presence
from hansa.plan.policy.rollback import NEVER_COUNTED


def build_adapter_status(federation: Federation, round_: int, sha256: str) -> AdapterStatus:
    """The global adapter of a round, with the address users give to PEFT."""
    return AdapterStatus(round=round_, uri=_build_uri(federation, round_), sha256=sha256)


def _build_uri(federation: Federation, round_: int) -> str:
    storage = federation.spec.storage
    if storage is None:  # it was taken out of the spec, which is refused
        return ""
    return f"s3://{storage.s3.bucket}/{bucket_keys.global_folder(storage.s3.prefix, round_)}"


def record_answer(status: FederationStatus, name: str, report: ClientReport) -> FederationStatus:
    """An environment's counts, as of its newest answer."""
    counts = report.counts
    own = report.own.ratio if report.own else None
    return _change_environment(
        status,
        name,
        own=f"{own:.3f}" if own is not None else None,
        **counts.model_dump(include={"explored", "succeeded", "broken", "experience"}),
        epsilon=report.epsilon,
        healthy=True,
        budget_spent=False,
    )


def record_evaluation(
    status: FederationStatus, name: str, evaluation: EvaluationReport
) -> FederationStatus:
    """How an adapter did on one environment, in the history of the round that made it."""
    if not evaluation.episodes:
        return status
    ratio = round(evaluation.successes / evaluation.episodes, 4)

    def add(entry: HistoryEntry) -> HistoryEntry:
        success = {**entry.success, name: ratio}
        episodes = {**entry.episodes, name: evaluation.episodes}
        worth = {k: v for k, v in entry.effective.items() if k != name}
        if evaluation.effective is not None:
            worth[name] = round(evaluation.effective, 2)
        validation = dict(entry.validation)
        if evaluation.validation and evaluation.validation.ratio is not None:
            validation[name] = evaluation.validation.ratio
        return entry.model_copy(
            update={
                "success": dict(sorted(success.items())),
                "episodes": dict(sorted(episodes.items())),
                "effective": dict(sorted(worth.items())),
                "validation": dict(sorted(validation.items())),
            }
        )

    status = _change_history(status, evaluation.round, add)
    gain = _compute_gain(status, name, evaluation.round)
    return _change_environment(status, name, success=f"{ratio:.3f}", gain=gain)


def record_personal(
    status: FederationStatus, name: str, report: EvaluateReport
) -> FederationStatus:
    """What an environment serves itself, what it would have had alone, and how both do."""
    status = _change_environment(status, name, epsilon=report.epsilon)
    ratio = report.personal.ratio if report.personal else None
    if ratio is not None:
        status = _change_environment(status, name, personal=f"{ratio:.3f}", serves=report.serves)
    alone = report.alone.ratio if report.alone else None
    if report.alone is None or alone is None:
        return status
    served = report.evaluation if ratio is None or report.personal is None else report.personal
    sentence = joined.describe_gain(served, report.alone, report.evaluation.effective)
    return _change_environment(status, name, alone=f"{alone:.3f}", joined=sentence)


def forget_personal(status: FederationStatus) -> FederationStatus:
    """Clear what silos serve, since the next evaluation chooses it again."""
    nothing = dict.fromkeys(("personal", "serves", "alone", "joined"), "")
    lines = [e.model_copy(update=nothing) for e in status.environments]
    return status.model_copy(update={"environments": lines})


def _compute_gain(status: FederationStatus, name: str, round_: int) -> str | None:
    """What merging brought an environment in a round; nothing while one of the two is unknown."""
    entry = next((e for e in status.history if e.round == round_), None)
    if entry is None or name not in entry.own or name not in entry.success:
        return None
    return f"{entry.success[name] - entry.own[name]:+.3f}"


def record_round(
    status: FederationStatus,
    current: CurrentRound,
    now: datetime,
    report: AggregatorReport | None,
    *,
    outcome: Literal["apart", "empty", "failed", "rolled-back", "undone"] = "empty",
    message: str = "",
    only_states: bool = False,
) -> FederationStatus:
    """Close a round: its line in the history, and who failed in it."""
    for environment in current.environments:
        if environment.state == "Failed":
            status = _change_environment(
                status,
                environment.name,
                healthy=False,
                budget_spent=_is_spent(environment),
                message=environment.message,
            )
    status = _copy_environments(status, current, "")
    for index, reason in report.refused if report else ():
        name = current.environments[index].name
        status = _change_environment(
            status, name, healthy=False, message=f"its update was refused: {reason}"
        )
    if only_states:
        return status
    members = len(report.members) if report else 0
    if outcome == "apart":
        members = sum(environment.state == "Updated" for environment in current.environments)
    entry = HistoryEntry(
        round=current.round,
        outcome="aggregated" if report else outcome,
        opened_at=current.opened_at,
        closed_at=now,
        updates=f"{members}/{len(current.environments)}",
        adapter=report.adapter if report else "",
        server_step=report.server_step if report else None,
        message=message,
        own={e.name: e.own for e in current.environments if e.own is not None},
    )
    completed = status.completed + (entry.outcome not in NEVER_COUNTED)
    update = {"history": [*status.history, entry], "current": None, "completed": completed}
    return status.model_copy(update=update)


def _is_spent(failed: RoundEnvironment) -> bool:
    """Whether a privacy budget is why; of a silo elsewhere its sentence is all that is known."""
    return failed.exit_code == Exit.BUDGET_SPENT or failed.message == describe_failure(
        Exit.BUDGET_SPENT
    )


def record_regression(
    status: FederationStatus, federation: Federation, fall: guard.Regression
) -> FederationStatus:
    """Reject an adapter: the best one takes its place, and the server step is halved."""

    def reject(entry: HistoryEntry) -> HistoryEntry:
        return entry.model_copy(update={"outcome": "rejected", "message": fall.message})

    status = _change_history(status, fall.judged, reject)
    done = status.guard or GuardStatus()
    vetoes = {**done.vetoes, fall.alone: status.round} if fall.alone else done.vetoes
    update = {"rollbacks": done.rollbacks + 1, "step_factor": done.step_factor / 2}
    done = done.model_copy(update={**update, "vetoes": dict(sorted(vetoes.items()))})
    status = status.model_copy(update={"guard": done})
    return keep_adapter(status, federation, fall.best)


def record_overruled(status: FederationStatus, why: str) -> FederationStatus:
    """Note why the newest verdict overruled a veto; empty: it did not."""
    if not why and status.guard is None:
        return status
    done = status.guard or GuardStatus()
    return status.model_copy(update={"guard": done.model_copy(update={"overruled": why})})


def keep_adapter(
    status: FederationStatus, federation: Federation, entry: HistoryEntry
) -> FederationStatus:
    """An adapter of an earlier round as the one that counts; round 0 is the base without any."""
    if not entry.round:
        return status.model_copy(update={"adapter": None})
    kept = build_adapter_status(federation, entry.round, entry.adapter)
    return status.model_copy(update={"adapter": kept})


def record_own(
    status: FederationStatus, federation: Federation, current: CurrentRound
) -> FederationStatus:
    """Every update of a round as its environment's own adapter: nobody shares one."""
    s3 = federation.spec.storage.s3 if federation.spec.storage else None
    for environment in current.environments:
        if environment.state != "Updated":
            continue
        folder = bucket_keys.update_folder(s3.prefix if s3 else "", environment.name, current.round)
        uri = f"s3://{s3.bucket}/{folder}" if s3 else ""
        own = AdapterStatus(round=current.round, uri=uri, sha256=environment.adapter)
        status = _change_environment(status, environment.name, adapter=own)
    return status


def conclude(
    status: FederationStatus, federation: Federation, refusals: Sequence[str], now: datetime
) -> FederationStatus:
    """The status with everything that follows from its other fields."""
    wanted = [e.name for e in sorted(federation.spec.environments, key=lambda e: e.name)]
    if status.current:
        status = _copy_environments(status, status.current, federation.metadata.name)
    known = {e.name: e for e in status.environments}
    environments = [known.get(n) or EnvironmentStatus(name=n, state="Waiting") for n in wanted]
    best = _find_best(status.history, wanted, federation)
    status = status.model_copy(
        update={
            "environments": environments,
            "best": best,
            "history": trim_history(status.history, best.round if best else None),
            "success": _find_newest_success(status, federation, wanted),
            "updates": _count_answers(status),
        }
    )
    return _set_conditions(status, federation, refusals, now)


def _copy_environments(
    status: FederationStatus, current: CurrentRound, federation: str
) -> FederationStatus:
    """One line per environment from the open round."""
    for e in current.environments:
        job = name_attempt_job(federation, current, e.name, e.attempt) if federation else ""
        known = next((line for line in status.environments if line.name == e.name), None)
        keeps_reason = known is not None and (
            known.budget_spent or (not known.healthy and not e.message)
        )
        status = _change_environment(
            status,
            e.name,
            job=job or None,
            state=e.state,
            attempt=e.attempt,
            message=None if keeps_reason else e.message,
        )
    return status


def name_attempt_job(federation: str, current: CurrentRound, environment: str, attempt: int) -> str:
    """Name of the Job of an environment's attempt in a round or an evaluation."""
    name = job_names.client_job if current.kind == "round" else job_names.evaluate_job
    return name(federation, current.round, environment, attempt)


def _count_answers(status: FederationStatus) -> str:
    """Answers in the open round; an evaluation leaves the last round's as they were."""
    current = status.current
    if current is None or current.kind != "round":
        return status.updates
    answered = sum(e.state in ANSWERED for e in current.environments)
    return f"{answered}/{len(current.environments)}"


def _change_environment(status: FederationStatus, name: str, **changes: Any) -> FederationStatus:
    known = {e.name: e for e in status.environments}
    old = known.get(name) or EnvironmentStatus(name=name, state="Waiting")
    known[name] = old.model_copy(update={k: v for k, v in changes.items() if v is not None})
    return status.model_copy(update={"environments": [known[n] for n in sorted(known)]})


def _change_history(
    status: FederationStatus, round_: int, change: Callable[[HistoryEntry], HistoryEntry]
) -> FederationStatus:
    history = [change(e) if e.round == round_ else e for e in status.history]
    return status.model_copy(update={"history": history})


def _find_newest_success(
    status: FederationStatus, federation: Federation, wanted: Sequence[str]
) -> str:
    """Of the adapter that counts, or the newest evaluated before it; not of one gone back from."""
    newest = apart.find_newest_round(status, federation.spec.aggregation.strategy)
    counted = [e for e in status.history if e.round <= newest and e.outcome not in guard.GONE]
    means = [m for m in (average(entry.success, wanted) for entry in counted) if m is not None]
    return f"{means[-1]:.3f}" if means else ""


def _find_best(
    history: Sequence[HistoryEntry], wanted: Sequence[str], federation: Federation
) -> BestAdapter | None:
    """By validation tasks where all have played some; else by those that are reported."""
    counted = [e for e in history if e.outcome != "undone"]
    means = [(m, e) for e in counted if (m := average(e.success, wanted)) is not None]
    judged = [
        (m, e)
        for _, e in means
        if e.outcome != "rejected" and (m := average(e.validation, wanted)) is not None
    ]
    if not means:
        return None
    _, best = max(judged or means, key=lambda pair: (pair[0], -pair[1].round))
    success = next(m for m, entry in means if entry is best)
    uri = (
        _build_uri(federation, best.round) if best.adapter else ""
    )  # own adapters have no one address
    return BestAdapter(round=best.round, success=f"{success:.3f}", uri=uri)


def _set_conditions(
    status: FederationStatus, federation: Federation, refusals: Sequence[str], now: datetime
) -> FederationStatus:
    phase, progressing, reason, message = _describe_progress(status, federation, refusals)
    wrong, why = degraded.find_degradation(status)
    done = phase == "Succeeded"
    rounds = f"{status.completed} of {count(federation.spec.rounds, 'round')} done"
    accepted = ("False", "ImmutableFieldChanged") if refusals else ("True", "Valid")
    succeeded = ("True", "AllRoundsDone") if done else ("Unknown", "Running")
    rows = [
        ("Accepted", *accepted, "; ".join(refusals)),
        ("Progressing", progressing, reason, message),
        ("Degraded", "False" if wrong == "AllHealthy" else "True", wrong, why),
        ("Succeeded", *succeeded, rounds),
    ]
    generation = federation.metadata.generation
    conditions = replace_conditions(
        status.conditions, Condition, rows, generation=generation, now=now
    )
    return status.model_copy(update={"phase": phase, "conditions": conditions})


def _describe_progress(
    status: FederationStatus, federation: Federation, refusals: Sequence[str]
) -> tuple[Phase, Literal["True", "False"], Reason, str]:
    if refusals:
        return "Failed", "False", "ImmutableFieldChanged", "set the named fields back to continue"
    if orders.is_closing(federation.spec, status):
        return "Running", "True", "Closing", "tells remote silos to rest"
    if federation.spec.suspend:
        return "Suspended", "False", "Suspended", "set spec.suspend to false to continue"
    if status.failed:
        return "Failed", "False", status.failed.reason, status.failed.message
    current = status.current
    if current is None:
        waits = presence.explain_wait(federation.spec, status)
        if status.completed < federation.spec.rounds and waits:
            return "Running", "True", "WaitingForMembers", f"round {status.round + 1}: {waits}"
        if status.completed < federation.spec.rounds:
            return "Running", "True", "RoundOpen", f"round {status.round + 1} opens"
        if status.evaluated < apart.find_newest_round(status, federation.spec.aggregation.strategy):
            return "Running", "True", "Evaluating", "the last adapter is evaluated next"
        return "Succeeded", "False", "Finished", "all rounds are done"
    if current.kind == "evaluate":
        return "Running", "True", "Evaluating", f"evaluates the adapter of round {current.round}"
    if current.members is not None:
        return "Running", "True", "Aggregating", f"round {current.round} is being aggregated"
    waiting = ", ".join(f"{e.name} {e.state}" for e in current.environments if e.state != "Updated")
    message = f"round {current.round} {masks.describe_stage(current)}waits for {waiting}"
    return "Running", "True", "RoundOpen", message
