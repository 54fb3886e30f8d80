"""Signs that no operator is running: what should have happened by now, and has not."""

from collections.abc import Iterator
from datetime import datetime

from hansa.api.constants import ANNOTATION_RETRY, ANNOTATION_ROLLBACK, CONCLUDED
from hansa.core.durations import format_duration
from hansa.kubernetes.client import Data
from hansa.kubernetes.federations import FederationView
from hansa.kubernetes.state import (
    find_condition,
    find_round_wait,
    get_current,
    get_status,
    is_observed,
    is_rolling_back,
    parse_time,
)

PATIENCE_SECONDS = 60.0
"""An operator acts within a second; a minute of silence is a reason to look after it."""
CHECK = (
    "is the operator running, and does it watch this namespace? "
    "kubectl get pods -A -l app.kubernetes.io/name=hansa,app.kubernetes.io/component=operator"
)


def list_doubts(look: FederationView, now: datetime) -> list[str]:
    """Sentences, most telling first; none while all is as it should be."""
    federation = look.federation
    failing = find_condition(federation, "Progressing").get("reason") == "OperatorError"
    if failing or federation["metadata"].get("deletionTimestamp"):
        return []  # a fault of the operator is a sentence of its own
    return list(_check_spec(federation, now)) or [
        *_check_retry(federation, now),
        *_check_rollback(federation, now),
        *_check_deadlines(federation, now),
        *_check_jobs(look, now),
    ]


def _check_spec(federation: Data, now: datetime) -> Iterator[str]:
    metadata = federation["metadata"]
    if is_observed(federation):
        return
    since = _get_write_time(federation, subresource="") or parse_time(
        metadata.get("creationTimestamp")
    )
    waited = _describe_silence(since, now)
    if waited is None:
        return
    observed = get_status(federation).get("observedGeneration")
    if not observed:
        yield f"no operator has looked at it for {waited}"
        return
    generation = metadata.get("generation")
    yield f"no operator has looked at its newest spec (generation {generation}) for {waited}"


def _check_retry(federation: Data, now: datetime) -> Iterator[str]:
    failed = get_status(federation).get("failed")
    asked = (federation["metadata"].get("annotations") or {}).get(ANNOTATION_RETRY, "")
    waited = _describe_silence(parse_time(asked), now)
    if failed and waited and asked != failed.get("retry", ""):
        yield f"a retry was asked for {waited} ago, and no operator has acted on it"


def _check_rollback(federation: Data, now: datetime) -> Iterator[str]:
    asked = (federation["metadata"].get("annotations") or {}).get(ANNOTATION_ROLLBACK, "")
    waited = _describe_silence(parse_time(asked.partition("@")[2] or None), now)
    if is_rolling_back(federation) and waited:
        yield f"a rollback was asked for {waited} ago, and no operator has acted on it"


def _check_deadlines(federation: Data, now: datetime) -> Iterator[str]:
    wait = find_round_wait(federation)
    waited = _describe_silence(wait.until, now) if wait else None
    if waited and not _is_suspended(federation):
        number = get_current(federation).get("round")
        yield f"the deadline of round {number} passed {waited} ago, and no operator has acted on it"


def _check_jobs(look: FederationView, now: datetime) -> Iterator[str]:
    """Jobs that should exist and do not, or have ended without the status knowing it."""
    federation = look.federation
    waited = _describe_silence(_get_write_time(federation, subresource="status"), now)
    if waited is None or _is_suspended(federation) or look.notes:
        return
    known = {job["metadata"]["name"]: job for job in look.jobs}
    for line in _list_pending(federation):
        job, name = known.get(line.get("job") or ""), line.get("name")
        if job is None and line.get("state") != "Retrying":
            yield f"{name}: its Job {line.get('job')} is not there, and the status is {waited} old"
        ended = _get_end_time(job) if job else None
        since = _describe_silence(ended, now)
        if since:
            yield f"{name}: its Job ended {since} ago, and the status does not know it"


def _list_pending(federation: Data) -> list[Data]:
    """Lines of environments that the open round still waits for."""
    open_ = get_current(federation)
    if not open_ or open_.get("members") is not None:
        return []
    waiting = {e["name"] for e in open_["environments"] if e.get("state") not in CONCLUDED}
    lines = get_status(federation).get("environments") or ()
    return [line for line in lines if line["name"] in waiting and line.get("job")]


def _get_end_time(job: Data) -> datetime | None:
    for held in (job.get("status") or {}).get("conditions") or ():
        if held.get("type") in ("Complete", "Failed") and held.get("status") == "True":
            return parse_time(held.get("lastTransitionTime"))
    return None


def _get_write_time(federation: Data, *, subresource: str) -> datetime | None:
    """When the object, or its status, was last written, by what the apiserver noted."""
    times = [
        moment
        for entry in federation["metadata"].get("managedFields") or ()
        if (entry.get("subresource") or "") == subresource
        and (moment := parse_time(entry.get("time")))
    ]
    return max(times, default=None)


def _is_suspended(federation: Data) -> bool:
    return bool((federation.get("spec") or {}).get("suspend"))


def _describe_silence(since: datetime | None, now: datetime) -> str | None:
    """How long it is silent, where that is too long."""
    seconds = (now - since).total_seconds() if since else 0.0
    return format_duration(seconds) if seconds > PATIENCE_SECONDS else None
