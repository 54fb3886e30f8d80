"""The operator's metrics: verbs that record what a pass over a federation brought about.

Everything is read off the step from the old status to the new one, so a pass that changes nothing
counts nothing, however often it is made. Record after the status was written: a conflict repeats
the pass. Counters start at zero with the operator, as Prometheus expects.
"""

from collections.abc import Sequence
from typing import Any, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from hansa.api import constants, job_names, task_kinds
from hansa.api.assignment import AggregatorReport, ClientReport, EvaluateReport
from hansa.api.constants import ANSWERED, CONCLUDED, Phase
from hansa.api.courier_assignment import CourierReport
from hansa.api.exchange import MemberState
from hansa.api.jobs import ObservedJob, Plan
from hansa.api.letters import FAULTS
from hansa.api.member_status import FederationMember, SiloPhase, SiloStatus
from hansa.api.reports import AnyReport
from hansa.api.status import (
    CurrentRound,
    Federation,
    FederationStatus,
    HistoryEntry,
    RoundEnvironment,
)
from hansa.members.budget import compute_most_episodes
from hansa.plan.builder import SiloPlan
from hansa.plan.summary import name_attempt_job
from hansa_operator import metric_table as table
from hansa_operator import steps
from hansa_operator.kinds import AnyPlan, Thing
from hansa_operator.metric_table import Metric

PER_ENVIRONMENT = [
    metric for metric in table.METRICS if metric.type == "gauge" and "environment" in metric.labels
]
"""Gauges that end with their environment."""

Family = Counter | Gauge | Histogram
Key = tuple[str, str]


class MetricsRecorder:
    """All metrics of one operator, in a registry of its own."""

    def __init__(self) -> None:
        # A second series per counter that nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._families = {metric.name: _family(metric, self.registry) for metric in table.METRICS}
        self._environments: dict[tuple[str, str], set[str]] = {}

    def exposition(self) -> bytes:
        """What /metrics answers."""
        return generate_latest(self.registry)

    def record(self, thing: Thing, plan: AnyPlan, observed: Sequence[ObservedJob]) -> None:
        """What a plan has changed; `thing` still has the status from before it."""
        if isinstance(thing, FederationMember) and isinstance(plan, SiloPlan):
            self._record_silo(thing, plan.status)
        elif isinstance(thing, Federation) and isinstance(plan, Plan):
            self._record_federation(thing, plan, observed)

    def _record_silo(self, silo: FederationMember, new: SiloStatus) -> None:
        key, limits = (silo.metadata.namespace, silo.metadata.name), silo.spec.limits
        for phase in get_args(SiloPhase):
            self._series(table.MEMBER_PHASE, *key, phase).set(phase == new.phase)
        if outcome := steps.find_outcome(silo.status, new):
            self._series(table.MEMBER_ORDERS, *key, outcome).inc()
        budgets = {
            "rounds": (new.usage.rounds, silo.spec.most_rounds),
            "episodes": (new.usage.episodes, compute_most_episodes(silo.spec)),
            "jobSecondsPerDay": (new.usage.day_seconds, limits.job_seconds_per_day),
        }
        for budget, (used, most) in budgets.items():
            self._series(table.MEMBER_USED, *key, budget).set(used)
            if most:
                self._series(table.MEMBER_LIMIT, *key, budget).set(most)
            else:
                self._remove(table.MEMBER_LIMIT, *key, budget)

    def _record_federation(
        self, federation: Federation, plan: Plan, observed: Sequence[ObservedJob]
    ) -> None:
        key = (federation.metadata.namespace, federation.metadata.name)
        old, new = federation.status, plan.status
        for phase in get_args(Phase):
            self._series(table.FEDERATION_PHASE, *key, phase).set(phase == new.phase)
        self._series(table.ROUND, *key).set(new.round)
        for entry in steps.list_closed(old, new):
            self._record_round(key, entry)
        self._series(table.ROLLBACKS, *key).inc(
            steps.count_rollbacks(new) - steps.count_rollbacks(old)
        )
        self._record_environments(key, new)
        self._record_probes(key, new)
        jobs = {job.name: job for job in observed}
        self._record_members(key, new)
        self._record_courier(key, old, new, jobs)
        if old.current:
            for environment in old.current.environments:
                name = name_attempt_job(key[1], old.current, environment.name, environment.attempt)
                job = jobs.get(name)
                if job and environment.state not in CONCLUDED:
                    self._record_step(key, old.current, new, environment, job)
            self._record_aggregator(key, old.current, new, jobs)

    def record_pass(self, namespace: str, name: str, kind: str, seconds: float) -> None:
        """A pass over an object was made and took this long."""
        self._series(table.RECONCILE_SECONDS, namespace, name, kind).observe(seconds)

    def waiting(self, namespace: str, name: str, kind: str, passes: int) -> None:
        """So many passes over an object wait to be made."""
        self._series(table.QUEUE_DEPTH, namespace, name, kind).set(passes)

    def forget(self, namespace: str, name: str, kind: str) -> None:
        """Drop the series of an object that was deleted; one of another kind may have its name."""
        is_federation = kind == constants.KIND
        if is_federation:
            self._environments.pop((namespace, name), None)
        own = table.COMMON_LABELS if is_federation else table.MEMBER_LABELS
        for metric in table.METRICS:
            if "kind" in metric.labels:
                self._remove(metric, namespace, name, kind)
            elif metric.labels[:2] == own:
                self._remove(metric, namespace, name)

    def _remove(self, metric: Metric, *values: str) -> None:
        """Drop the series whose first labels have these values."""
        labels = dict(zip(metric.labels, values, strict=False))
        self._families[metric.name].remove_by_labels(labels)

    def _record_round(self, key: Key, entry: HistoryEntry) -> None:
        if entry.outcome != "aggregated":
            return
        self._series(table.ROUNDS_COMPLETED, *key).inc()
        if entry.opened_at and entry.closed_at:
            seconds = (entry.closed_at - entry.opened_at).total_seconds()
            self._series(table.ROUND_SECONDS, *key).observe(seconds)

    def _record_environments(self, key: Key, new: FederationStatus) -> None:
        """Gauges of every environment; those that left the federation lose theirs."""
        present = {each.name for each in new.environments} | {each.name for each in new.members}
        gone = self._environments.get(key, set()) - present
        self._environments[key] = present
        for environment in new.environments:
            if environment.epsilon is None:
                self._series(table.EXPERIENCE, *key, environment.name).set(environment.experience)
            else:
                self._series(table.PRIVACY_EPSILON, *key, environment.name).set(environment.epsilon)
            for metric, ratio in (
                (table.SUCCESS, environment.success),
                (table.OWN_SUCCESS, environment.own),
                (table.ALONE_SUCCESS, environment.alone),
                (table.JOINING_GAIN, environment.gain),
            ):
                if ratio:
                    self._series(metric, *key, environment.name).set(float(ratio))
        for name in sorted(gone):
            for metric in PER_ENVIRONMENT:
                self._remove(metric, *key, name)

    def _record_probes(self, key: Key, new: FederationStatus) -> None:
        for metric in steps.PROBE_METRICS:
            self._remove(metric, *key)  # probes come and go
        for metric, own, value in steps.list_probe_figures(new):
            self._series(metric, *key, *own).set(value)

    def _record_step(
        self,
        key: Key,
        current: CurrentRound,
        new: FederationStatus,
        environment: RoundEnvironment,
        job: ObservedJob,
    ) -> None:
        """What became of one environment's Job, in the pass that took note of it."""
        closed = steps.is_closed(new, current)
        after = None if closed else steps.find_environment(new, environment.name)
        answered = closed or (after is not None and after.state in ANSWERED)
        given_up = job.state == "failed" and closed
        if after:
            given_up = after.attempt != environment.attempt or after.state == "Failed"
        if job.state == "succeeded" and job.report and answered:
            self._record_answer(key, environment.name, job.report)
        elif given_up:
            self._series(table.JOBS_FAILED, *key, steps.name_failure(job)).inc()

    def _record_answer(self, key: Key, environment: str, report: AnyReport) -> None:
        if not isinstance(report, ClientReport | EvaluateReport):
            return
        if isinstance(report, ClientReport) and report.epoch:
            return  # it masked again what it has reported
        for phase, seconds in sorted(report.seconds.items()):
            self._series(table.PHASE_SECONDS, *key, environment, phase).observe(seconds)
        if not isinstance(report, ClientReport):
            return
        if report.epsilon is None:  # with privacy the count is withheld, which is not zero
            self._record_counts(key, environment, report)
        if report.entropy is not None:
            self._series(table.POLICY_ENTROPY, *key, environment).set(report.entropy)
        if report.trained:
            self._series(table.UPDATE_NORM, *key, environment).set(report.norm)
            self._series(table.UPDATE_BYTES, *key).set(report.bytes)

    def _record_counts(self, key: Key, environment: str, report: ClientReport) -> None:
        counts = report.counts
        failed = counts.explored - counts.succeeded
        outcomes = {"success": counts.succeeded, "failure": failed, "broken": counts.broken}
        for outcome, count in outcomes.items():
            self._series(table.TRAJECTORIES, *key, environment, outcome).inc(max(0, count))
        self._series(table.TASKS_SOLVED, *key, environment).set(report.solved)
        self._remove(table.KIND_SUCCESS, *key, environment)
        for kind, rate in sorted((report.kinds or {}).items()):
            self._series(table.KIND_SUCCESS, *key, environment, kind).set(rate / task_kinds.PARTS)

    def _record_members(self, key: Key, new: FederationStatus) -> None:
        """How it is with every silo elsewhere; counters begin at zero, or an increase is missed."""
        for member in new.members:
            for state in get_args(MemberState):
                self._series(table.MEMBER_STATE, *key, member.name, state).set(
                    state == member.state
                )
            if member.seen_at:
                moment = member.seen_at.timestamp()
                self._series(table.MEMBER_SEEN, *key, member.name).set(moment)
            self._series(table.ORDERS_POSTED, *key, member.name)
            for reason in FAULTS:
                self._series(table.LETTERS_REFUSED, *key, member.name, reason)

    def _record_courier(
        self, key: Key, old: FederationStatus, new: FederationStatus, jobs: dict[str, ObservedJob]
    ) -> None:
        """What an ended courier posted, read and refused, in the pass that took note of it."""
        attempt = old.courier.attempt if old.courier else 0
        job = jobs.get(job_names.courier_job(key[1], attempt))
        if not new.courier or new.courier.attempt == attempt or job is None or job.is_active:
            return
        report = job.report
        is_whole = isinstance(report, CourierReport) and report.is_about(len(old.members))
        if job.state != "succeeded" or not isinstance(report, CourierReport) or not is_whole:
            self._series(table.JOBS_FAILED, *key, steps.name_failure(job)).inc()
            return
        whose = [member.name for member in old.members]
        for moved in report.posted:
            self._series(table.ORDERS_POSTED, *key, whose[moved.box]).inc(bool(moved.order))
        for news in report.news:
            self._series(table.LETTERS_READ, *key, whose[news.box], news.kind).inc()
            if news.report and steps.is_answer(new, whose[news.box], news.order):
                self._record_answer(key, whose[news.box], news.report)
        for fault in report.faults:
            known = fault.code if fault.code in FAULTS else "malformed"
            self._series(table.LETTERS_REFUSED, *key, whose[fault.box], known).inc(fault.count)

    def _record_aggregator(
        self,
        key: Key,
        current: CurrentRound,
        new: FederationStatus,
        jobs: dict[str, ObservedJob],
    ) -> None:
        """Refused updates and failed attempts of the aggregator that this pass took note of."""
        attempt = current.aggregator.attempt
        job = jobs.get(job_names.aggregator_job(key[1], current.round, attempt))
        closed = steps.is_closed(new, current)
        moved = new.current is not None and new.current.aggregator.attempt != attempt
        if current.members is None or job is None or not (closed or moved):
            return
        if closed and isinstance(job.report, AggregatorReport):
            for index, reason in job.report.refused:
                if 0 <= index < len(current.environments):
                    name = current.environments[index].name
                    self._series(table.UPDATES_REJECTED, *key, name, reason).inc()
            self._record_diagnostics(key, current, job.report)
        if moved or job.state != "succeeded":
            self._series(table.JOBS_FAILED, *key, steps.name_failure(job)).inc()

    def _record_diagnostics(
        self, key: Key, current: CurrentRound, report: AggregatorReport
    ) -> None:
        """How the updates related to one another; a round without diagnostics leaves the last."""
        if report.server_step is not None:
            self._series(table.SERVER_STEP, *key).set(report.server_step)
        if not report.cosine:
            return
        self._series(table.AGGREGATE_NORM, *key).set(report.norm)
        self._series(table.AGGREGATE_ERROR, *key).set(report.error)
        self._series(table.EFFECTIVE_RANK, *key).set(report.effective_rank)
        for metric, values in (
            (table.UPDATE_COSINE, report.cosine),
            (table.UPDATE_SHARE, report.share),
        ):
            for index, value in zip(report.members, values, strict=False):
                if 0 <= index < len(current.environments):
                    self._series(metric, *key, current.environments[index].name).set(value)

    def _series(self, metric: Metric, *labels: str) -> Any:
        """The series of these labels: a Counter, Gauge or Histogram, as the table says."""
        return self._families[metric.name].labels(*labels)


def _family(metric: Metric, registry: CollectorRegistry) -> Family:
    named = (metric.name, metric.help, metric.labels)
    if metric.type == "histogram":
        return Histogram(*named, registry=registry, buckets=metric.buckets)
    kind = Counter if metric.type == "counter" else Gauge
    return kind(*named, registry=registry)
