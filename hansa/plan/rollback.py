"""Rollback to an earlier adapter, requested by an annotation.

A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from hansa.api.constants import ANNOTATION_ROLLBACK
from hansa.api.status import FederationStatus
from hansa.plan.builder import Draft
from hansa.plan.policy import rollback
from hansa.plan.summary import keep_adapter, record_round


def roll_back(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Return to the adapter that a person asked for: what came after it no longer counts."""
    value = draft.federation.metadata.annotations.get(ANNOTATION_ROLLBACK, "")
    if value in ("", status.rollback):
        return status
    status = status.model_copy(update={"rollback": value})
    wanted = rollback.parse_round(value)
    target = rollback.find_target(status.history, wanted)
    if target is None:
        why = f"{ANNOTATION_ROLLBACK}: {rollback.explain_refusal(status.history, wanted)}"
        draft.tell("RollbackRefused", why, warning=True)
        return status
    if not rollback.is_already_there(status, target):
        current, status = status.current, rollback.undo(status, target)
        if current and current.kind == "round":
            why = rollback.format_message(target)
            status = record_round(status, current, draft.now, None, outcome="undone", message=why)
        status = keep_adapter(status.model_copy(update={"current": None}), draft.federation, target)
        draft.tell("RolledBack", f"continues from the adapter of round {target.round}, as asked")
    return status.model_copy(update={"failed": None})
