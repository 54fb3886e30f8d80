"""What metrics show of a status, and of its differences from the one before."""

from collections.abc import Iterator

from hansa.api.jobs import ObservedJob
from hansa.api.member_status import SiloStatus
from hansa.api.status import CurrentRound, FederationStatus, HistoryEntry, RoundEnvironment
from hansa.core.exits import Exit
from hansa.plan.policy import drift
from hansa_operator import metric_table as table
from hansa_operator.metric_table import Metric

PROBE_METRICS = (table.PROBE_VIOLATIONS, table.PROBE_DRIFT, table.PROBE_FORGOTTEN)


def is_answer(new: FederationStatus, name: str, order: int) -> bool:
    """Whether a silo has answered the newest order, and not an older one."""
    member = next((each for each in new.members if each.name == name), None)
    return member is not None and (member.word, member.sent.serial) == ("answer", order)


def list_closed(old: FederationStatus, new: FederationStatus) -> list[HistoryEntry]:
    """Rounds that ended with this step."""
    known = {entry.round for entry in old.history}
    newest = max(known, default=-1)
    return [entry for entry in new.history if entry.round > newest and entry.round > 0]


def is_closed(new: FederationStatus, current: CurrentRound) -> bool:
    """Whether the step has ended what was open."""
    after = new.current
    return after is None or (after.kind, after.round) != (current.kind, current.round)


def find_environment(new: FederationStatus, name: str) -> RoundEnvironment | None:
    """The environment in the open round; nothing when it has left the federation."""
    environments = new.current.environments if new.current else []
    return next((e for e in environments if e.name == name), None)


def name_failure(job: ObservedJob) -> str:
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


def find_outcome(old: SiloStatus, new: SiloStatus) -> str:
    """How an order ended with this step; nothing: none did."""
    before, after = old.current, new.current
    if after is None or (before and (before.order, before.state) == (after.order, after.state)):
        return ""
    return {"Done": "answered", "Refused": "refused", "Failed": "failed"}.get(after.state, "")


def count_rollbacks(status: FederationStatus) -> int:
    """How often the guard has gone back."""
    return status.guard.rollbacks if status.guard else 0


def list_probe_figures(status: FederationStatus) -> Iterator[tuple[Metric, tuple[str, ...], float]]:
    """What probes show of the newest adapter: each gauge, its labels after the common ones, and
    its value."""
    for line in status.environments:
        for probe, share in line.probes.violations.items() if line.probes else ():
            yield table.PROBE_VIOLATIONS, (line.name, probe), share
    for probe, rise in drift.measure_rises(status).items():
        yield table.PROBE_DRIFT, (probe,), rise
    entry = drift.find_current(status)
    for probe, nats in entry.probes.forgotten.items() if entry and entry.probes else ():
        yield table.PROBE_FORGOTTEN, (probe,), nats
