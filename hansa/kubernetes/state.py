"""Questions to a Federation object: has it ended, what failed, until when does it wait?"""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hansa.api.constants import ANNOTATION_RETRY, ANNOTATION_ROLLBACK
from hansa.kubernetes.client import Data


class Wait(NamedTuple):
    """One running timeout."""

    until: datetime
    """When it runs out."""
    then: str
    """What happens then."""


def get_status(federation: Data) -> Data:
    """Its status; empty while nobody has written one."""
    data: Data = federation.get("status") or {}
    return data


def get_current(federation: Data) -> Data:
    """Its open round; empty when none is open."""
    data: Data = get_status(federation).get("current") or {}
    return data


def parse_time(text: Any) -> datetime | None:
    """A timestamp of Kubernetes' or ours."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def find_condition(federation: Data, type_: str) -> Data:
    """One condition; empty when it is not there."""
    conditions = get_status(federation).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == type_), {})


def is_observed(federation: Data) -> bool:
    """Whether the status speaks of the newest spec."""
    generation = int(federation["metadata"].get("generation") or 0)
    return int(get_status(federation).get("observedGeneration") or 0) >= generation


def has_failed(federation: Data) -> bool:
    """Whether it waits for a person; not while a requested retry is still unobserved."""
    if not is_observed(federation) or get_status(federation).get("phase") != "Failed":
        return False
    if is_rolling_back(federation):
        return False
    failed = get_status(federation).get("failed")
    annotations = federation["metadata"].get("annotations") or {}
    return not failed or annotations.get(ANNOTATION_RETRY, "") == failed.get("retry", "")


def has_succeeded(federation: Data) -> bool:
    """Whether all rounds of the newest spec are done."""
    is_done = is_observed(federation) and get_status(federation).get("phase") == "Succeeded"
    return is_done and not is_rolling_back(federation)


def is_rolling_back(federation: Data) -> bool:
    """Whether a rollback was asked for that nobody has acted on yet."""
    if find_condition(federation, "Accepted").get("status") == "False":
        return False
    annotations = federation["metadata"].get("annotations") or {}
    asked = annotations.get(ANNOTATION_ROLLBACK, "")
    return bool(asked) and asked != get_status(federation).get("rollback", "")


def find_closed_round(federation: Data) -> int:
    """The newest round that has ended, whichever way."""
    newest = int(get_status(federation).get("round") or 0)
    return newest - 1 if get_current(federation).get("kind") == "round" else newest


def describe_progress(federation: Data) -> str:
    """The sentence that says what it does or waits for."""
    return str(find_condition(federation, "Progressing").get("message") or "")


def compute_minimum(open_: Data) -> int:
    """Answers that are enough once the round's time is up."""
    count = len(open_.get("environments") or ())
    return min(int((open_.get("participation") or {}).get("minimumUpdates") or count), count)


def find_round_wait(federation: Data) -> Wait | None:
    """The clock of the open round; none runs before its first client does."""
    open_ = get_current(federation)
    seconds = (open_.get("participation") or {}).get("roundTimeoutSeconds", 3600)
    frozen = open_.get("members") is not None
    since = parse_time(open_.get("frozenAt" if frozen else "startedAt"))
    if since is None:
        return None
    if frozen:
        then = "the aggregator must be done, or the round fails"
    elif open_.get("kind") == "evaluate":
        then = "who has not answered is left out"
    else:
        then = f"{compute_minimum(open_)} of {len(open_['environments'])} answers are enough"
    return Wait(since + timedelta(seconds=seconds), then)


def find_environment_wait(open_: Data, environment: Data, created: datetime | None) -> Wait | None:
    """The clock of one environment: its next attempt, or the latest moment for a start."""
    if environment.get("state") == "Retrying":
        again = parse_time(environment.get("notBefore"))
        return Wait(again, f"attempt {environment.get('attempt')}") if again else None
    if environment.get("state") == "Starting" and created:
        seconds = (open_.get("participation") or {}).get("startTimeoutSeconds", 600)
        return Wait(created + timedelta(seconds=seconds), "this attempt has failed")
    return None
