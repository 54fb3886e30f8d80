"""What a step from one status to the next shows, for the metrics that count it."""

from hansa.api import job_names
from hansa.api.jobs import ObservedJob
from hansa.api.member_status import SiloStatus
from hansa.api.status import CurrentRound, FederationStatus, HistoryEntry, RoundEnvironment
from hansa.core.exits import Exit


def is_answer(new: FederationStatus, name: str, order: int) -> bool:
    """Whether a silo has answered the newest order, and not an older one."""
    member = next((each for each in new.members if each.name == name), None)
    return member is not None and (member.word, member.sent.serial) == ("answer", order)


def closed(old: FederationStatus, new: FederationStatus) -> list[HistoryEntry]:
    """Rounds that ended with this step."""
    known = {entry.round for entry in old.history}
    newest = max(known, default=-1)
    return [entry for entry in new.history if entry.round > newest and entry.round > 0]


def client_job(federation: str, current: CurrentRound, environment: RoundEnvironment) -> str:
    """The Job of an environment's present attempt."""
    build = job_names.client_job if current.kind == "round" else job_names.evaluate_job
    return build(federation, current.round, environment.name, environment.attempt)


def is_closed(new: FederationStatus, current: CurrentRound) -> bool:
    """Whether the step has ended what was open."""
    after = new.current
    return after is None or (after.kind, after.round) != (current.kind, current.round)


def find(new: FederationStatus, name: str) -> RoundEnvironment | None:
    """The environment in the open round; nothing when it has left the federation."""
    environments = new.current.environments if new.current else []
    return next((e for e in environments if e.name == name), None)


def gave_up(before: RoundEnvironment, after: RoundEnvironment) -> bool:
    """Whether the present attempt ended without a result."""
    return after.attempt != before.attempt or after.state == "Failed"


def failure(job: ObservedJob) -> str:
    """The name of a failure, as the troubleshooting page lists it."""
    if job.reason:
        return job.reason
    if job.state == "succeeded":
        return "ReportLost"
    if job.state != "failed":
        return "Timeout"
    try:
        return Exit(job.exit_code if job.exit_code is not None else Exit.CRASHED).name
    except ValueError:
        return Exit.CRASHED.name


def outcome(old: SiloStatus, new: SiloStatus) -> str:
    """How an order ended with this step; nothing: none did."""
    before, after = old.current, new.current
    if after is None or (before and (before.order, before.state) == (after.order, after.state)):
        return ""
    return {"Done": "answered", "Refused": "refused", "Failed": "failed"}.get(after.state, "")


def rollbacks(status: FederationStatus) -> int:
    """How often the guard has gone back."""
    return status.guard.rollbacks if status.guard else 0
