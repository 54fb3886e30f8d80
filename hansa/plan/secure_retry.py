"""Secure aggregation after a silo dropped out: the others mask their updates again without it.

A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from hansa.api.assignment import AggregatorReport
from hansa.api.reports import AnyReport
from hansa.api.secure_aggregation import EPOCHS, Masking
from hansa.api.status import CurrentRound, RoundEnvironment
from hansa.core.text import count
from hansa.plan import attempts
from hansa.plan.builder import Draft
from hansa.plan.policy import masks

LEFT_OUT = "sent no masked update before the others masked again"


def mask_again(draft: Draft, current: CurrentRound, report: AnyReport | None) -> CurrentRound | str:
    """The round in its next epoch, or why there is none.

    An aggregator whose report is lost runs again, and reads its own decision from the bucket.
    """
    remaining = (
        masks.find_remaining(current, report) if isinstance(report, AggregatorReport) else None
    )
    if current.masking is None or remaining is None:
        lost = attempts.schedule_retry(draft, current.aggregator, counted=False)
        return current.model_copy(update={"aggregator": current.aggregator.model_copy(update=lost)})
    missing = ", ".join(name for name in current.masking.peers if name not in remaining)
    if current.masking.epoch + 1 == EPOCHS:
        return (
            f"aggregator: {missing} dropped out, after others had {EPOCHS - 1} times. "
            f"Round {current.round} failed"
        )
    draft.tell(
        "MaskAgain",
        f"round {current.round}: {missing} dropped out; the other "
        f"{count(len(remaining), 'silo')} mask their updates again",
        warning=True,
    )
    draft.wake(draft.now)
    return _next_epoch(draft, current, masks.start_next_epoch(current.masking, remaining))


def _next_epoch(draft: Draft, current: CurrentRound, masking: Masking) -> CurrentRound:
    """Nobody plays or trains again, so all timeouts restart and no attempt counts as a failure."""
    aggregator = {"attempt": current.aggregator.attempt + 1, "not_before": draft.now}
    return current.model_copy(
        update={
            "masking": masking,
            "members": None,
            "frozen_at": None,
            "started_at": None,
            "aggregator": current.aggregator.model_copy(update=aggregator),
            "environments": [_reset_environment(draft, e, masking) for e in current.environments],
        }
    )


def _reset_environment(
    draft: Draft, environment: RoundEnvironment, masking: Masking
) -> RoundEnvironment:
    if environment.name in masking.peers:
        nothing_yet = {"state": "Waiting", "manifest": "", "adapter": "", "message": ""}
        begun = {"attempt": environment.attempt + 1, "not_before": draft.now, "exit_code": None}
        return environment.model_copy(update={**nothing_yet, **begun})
    if environment.state == "Updated":
        return environment.model_copy(update={"state": "Failed", "message": LEFT_OUT})
    return environment
