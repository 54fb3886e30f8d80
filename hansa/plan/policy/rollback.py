"""Going back to an earlier adapter because a person asked for it, and what no longer counts then.

The rounds behind it stay in the history and in the store, as `undone`, and are played again under
new numbers. Nothing is deleted: what silos have explored since stays their experience.
"""

import re
from collections.abc import Sequence

from hansa.api.status import FederationStatus, HistoryEntry
from hansa.plan.policy.guard import ACCEPTED

NEVER_COUNTED = frozenset({"base", "failed", "undone"})
"""Outcomes of rounds that do not count towards spec.rounds."""
MOST_NAMED = 20
"""Rounds that a refusal lists."""


def format_request(round_: int, token: str) -> str:
    """The annotation's value; the token makes a second request for the same round a new one."""
    return f"{round_}@{token}"


def parse_round(value: str) -> str:
    """The round that a value of the annotation names, as it is written there."""
    return value.partition("@")[0]


def find_target(history: Sequence[HistoryEntry], wanted: str) -> HistoryEntry | None:
    """The round to go back to, where there is an adapter that may be gone on from."""
    number = int(wanted) if re.fullmatch(r"[0-9]{1,9}", wanted) else -1
    return next((e for e in history if e.round == number and e.outcome in ACCEPTED), None)


def explain_refusal(history: Sequence[HistoryEntry], wanted: str) -> str:
    """What came and what fits; for a person who asked for a round without an adapter."""
    fitting = [str(e.round) for e in history if e.outcome in ACCEPTED][-MOST_NAMED:]
    known = ", ".join(fitting) or "none yet"
    return f"got {wanted[:20]!r}, expected a round whose adapter counts ({known}; 0 is the base)"


def is_already_there(status: FederationStatus, target: HistoryEntry) -> bool:
    """Whether nothing that counts has come after the target: the next start is that one already."""
    newest = status.adapter.round if status.adapter else 0
    return newest == target.round and not _list_lost(status, target)


def format_message(target: HistoryEntry) -> str:
    """Why a round is undone, for its line in the history."""
    return f"a person went back to round {target.round}"


def undo(status: FederationStatus, target: HistoryEntry) -> FederationStatus:
    """The status in which nothing after the target counts; the adapter itself is not set here."""

    def mark(entry: HistoryEntry) -> HistoryEntry:
        if entry.round <= target.round or entry.outcome in NEVER_COUNTED:
            return entry
        return entry.model_copy(update={"outcome": "undone", "message": format_message(target)})

    lines = [
        line.model_copy(update={"adapter": None})
        if line.adapter and line.adapter.round > target.round
        else line
        for line in status.environments
    ]
    return status.model_copy(
        update={
            "completed": max(0, status.completed - len(_list_lost(status, target))),
            "evaluated": min(status.evaluated, target.round),
            "history": [mark(entry) for entry in status.history],
            "environments": lines,
        }
    )


def _list_lost(status: FederationStatus, target: HistoryEntry) -> list[int]:
    """Rounds after the target that count; one too old for the history is taken to be of them."""
    is_open = status.current is not None and status.current.kind == "round"
    closed = range(target.round + 1, status.round + (not is_open))
    known = {entry.round: entry.outcome for entry in status.history}
    return [round_ for round_ in closed if known.get(round_) not in NEVER_COUNTED]
