"""Every metric as data: name, type, labels and help, so that code, dashboard and alerts agree.

Who exports them imports a metrics library; this table stays free of it, so the programs stay light.
Labels never hold the round: a series per round would grow for as long as a federation runs.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

COMMON_LABELS = ("namespace", "federation")
"""Labels on all metrics of federations."""
MEMBER_LABELS = ("namespace", "member")
"""Labels on all metrics of silos: FederationMembers of this cluster."""

MINUTES = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0)
"""Histogram bounds in seconds for work that takes minutes or hours."""
MILLISECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Histogram bounds in seconds for the operator's own work."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One time series family."""

    name: str
    """Name as scraped; counters end in _total."""
    type: Literal["counter", "gauge", "histogram"]
    """Kind of series."""
    labels: tuple[str, ...]
    """All its labels, the common ones first."""
    help: str
    """One sentence for the reader of the scrape."""
    buckets: tuple[float, ...]
    """Upper bounds of a histogram; empty for the others."""


METRICS: list[Metric] = []
"""All of them, in the order of the reference."""


def _define(
    kind: Literal["counter", "gauge", "histogram"],
    name: str,
    help_: str,
    *labels: str,
    common: tuple[str, ...] = COMMON_LABELS,
    buckets: tuple[float, ...] = (),
) -> Metric:
    """A metric, which is also added to the list of all of them."""
    metric = Metric(name=name, type=kind, help=help_, labels=(*common, *labels), buckets=buckets)
    METRICS.append(metric)
    return metric


_gauge, _counter = partial(_define, "gauge"), partial(_define, "counter")
_environment_gauge = partial(_gauge, common=(*COMMON_LABELS, "environment"))
_environment_counter = partial(_counter, common=(*COMMON_LABELS, "environment"))
_member_gauge = partial(_gauge, common=MEMBER_LABELS)
_histogram = partial(_define, "histogram")

FEDERATION_PHASE = _gauge(
    "hansa_federation_phase", "1 for the phase a federation is in, 0 for the others.", "phase"
)
ROUND = _gauge("hansa_round", "Newest round that was opened.")
ROUNDS_COMPLETED = _counter("hansa_rounds_completed_total", "Rounds that made a global adapter.")
SUCCESS = _environment_gauge(
    "hansa_success_ratio",
    "Success of the newest evaluated global adapter on an environment's held-out tasks.",
)
OWN_SUCCESS = _environment_gauge(
    "hansa_own_success_ratio",
    "Success of an environment's own newest update before it was merged, on the same tasks.",
)
ALONE_SUCCESS = _environment_gauge(
    "hansa_alone_success_ratio",
    "Success of an environment that evolved alone after the last round, on the same tasks.",
)
JOINING_GAIN = _environment_gauge(
    "hansa_joining_gain_ratio",
    "Success of the global adapter less that of the environment's own update, same round.",
)
PRIVACY_EPSILON = _environment_gauge(
    "hansa_privacy_epsilon",
    "What an environment has given away of one record so far, where spec.privacy bounds it.",
)
PROBE_VIOLATIONS = _environment_gauge(
    "hansa_probe_violation_ratio",
    "Share of a probe's episodes that broke its rule, as an environment found it.",
    "probe",
)
PROBE_DRIFT = _gauge(
    "hansa_probe_drift_ratio",
    "How much more often the adapter breaks a probe's rule than the first, as most confirm.",
    "probe",
)
PROBE_FORGOTTEN = _gauge(
    "hansa_probe_forgotten_nats",
    "Nats per token by which a probe's texts are less likely than without an adapter.",
    "probe",
)
ROLLBACKS = _counter(
    "hansa_rollbacks_total",
    "Times the guard went back to the best adapter, since the newest one did worse.",
)
ROUND_SECONDS = _histogram(
    "hansa_round_seconds", "Time from a round's opening to its global adapter.", buckets=MINUTES
)
PHASE_SECONDS = _histogram(
    "hansa_phase_seconds",
    "Time a client spent in one phase of a round.",
    "environment",
    "phase",
    buckets=MINUTES,
)
TRAJECTORIES = _environment_counter(
    "hansa_trajectories_total",
    "Episodes explored, by outcome: success, failure, or broken by the world itself.",
    "outcome",
)
EXPERIENCE = _environment_gauge(
    "hansa_experience_trajectories",
    "Trajectories in an environment's experience, demonstrations included.",
)
TASKS_SOLVED = _environment_gauge(
    "hansa_tasks_solved",
    "Different training tasks that the agent itself has solved in an environment so far.",
)
KIND_SUCCESS = _environment_gauge(
    "hansa_kind_success_ratio",
    "Share of successful episodes of a kind of task in an environment's newest round.",
    "task_kind",
)
POLICY_ENTROPY = _environment_gauge(
    "hansa_policy_entropy_nats",
    "Mean entropy of the agent's next token while it explored an environment.",
)
UPDATE_BYTES = _gauge("hansa_update_bytes", "Size of one update in the newest round.")
UPDATE_NORM = _environment_gauge(
    "hansa_update_norm", "Frobenius norm of an environment's newest update."
)
UPDATE_COSINE = _environment_gauge(
    "hansa_update_cosine",
    "Cosine of an environment's newest change of the weights with the global adapter's.",
)
UPDATE_SHARE = _environment_gauge(
    "hansa_update_share_ratio",
    "An environment's part of the norms of all changes in the newest aggregated round.",
)
AGGREGATE_NORM = _gauge(
    "hansa_aggregate_norm",
    "Frobenius norm of the newest change of the weights by the global adapter.",
)
AGGREGATE_ERROR = _gauge(
    "hansa_aggregate_error_ratio",
    "Distance of the newest global adapter from the exact mean of the updates.",
)
EFFECTIVE_RANK = _gauge(
    "hansa_effective_rank",
    "Directions that the newest global adapter uses, as a mean over its layers.",
)
SERVER_STEP = _gauge(
    "hansa_server_step",
    "Server step of the newest aggregated round, which serverStep auto leaves to the updates.",
)
UPDATES_REJECTED = _environment_counter(
    "hansa_updates_rejected_total", "Updates that the gate kept out, by reason code.", "reason"
)
JOBS_FAILED = _counter(
    "hansa_jobs_failed_total",
    "Jobs that ended without a result, by the name of their exit.",
    "reason",
)
MEMBER_STATE = _environment_gauge(
    "hansa_member_state", "1 for the state that a silo elsewhere is in, 0 for the others.", "state"
)
MEMBER_SEEN = _environment_gauge(
    "hansa_member_seen_timestamp_seconds",
    "When a letter of a silo elsewhere was last read, as seconds since 1970.",
)
ORDERS_POSTED = _environment_counter(
    "hansa_orders_posted_total", "Orders that were posted to a silo elsewhere."
)
LETTERS_READ = _environment_counter(
    "hansa_letters_read_total",
    "Letters of a silo elsewhere that were verified and read, by kind.",
    "letter",
)
LETTERS_REFUSED = _environment_counter(
    "hansa_letters_refused_total",
    "Objects in the log of a silo elsewhere that are no letters of it, by reason code.",
    "reason",
)
MEMBER_PHASE = _member_gauge(
    "hansa_member_phase", "1 for the phase a silo is in, 0 for the others.", "phase"
)
MEMBER_ORDERS = _counter(
    "hansa_member_orders_total",
    "Orders that a silo has done with: answered, refused or failed.",
    "outcome",
    common=MEMBER_LABELS,
)
MEMBER_USED = _member_gauge(
    "hansa_member_budget_used",
    "What orders have used of a silo's rounds, episodes and job seconds of the day.",
    "budget",
)
MEMBER_LIMIT = _member_gauge(
    "hansa_member_budget_limit",
    "Most that a silo's owner allows of them; absent: no limit.",
    "budget",
)
RECONCILE_SECONDS = _histogram(
    "hansa_reconcile_seconds",
    "Time of one pass over the object of this kind and name, a Federation or its member.",
    "kind",
    buckets=MILLISECONDS,
)
QUEUE_DEPTH = _gauge(
    "hansa_queue_depth",
    "Passes over the object of this kind and name that wait to be made.",
    "kind",
)
