"""Every metric as data: name, type, labels and help, so that code, dashboard and alerts agree.

Who exports them imports a metrics library; this table stays free of it, so the programs stay light.
Labels never hold the round: a series per round would grow for as long as a federation runs.
"""

from dataclasses import dataclass
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
    labels: tuple[str, ...] = COMMON_LABELS
    """All its labels, the common ones first."""
    help: str
    """One sentence for whoever reads the scrape."""
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""


def _with(*labels: str) -> tuple[str, ...]:
    return (*COMMON_LABELS, *labels)


FEDERATION_PHASE = Metric(
    name="hansa_federation_phase",
    type="gauge",
    labels=_with("phase"),
    help="1 for the phase a federation is in, 0 for the others.",
)
ROUND = Metric(name="hansa_round", type="gauge", help="Newest round that was opened.")
ROUNDS_COMPLETED = Metric(
    name="hansa_rounds_completed_total",
    type="counter",
    help="Rounds that made a global adapter.",
)
SUCCESS = Metric(
    name="hansa_success_ratio",
    type="gauge",
    labels=_with("environment"),
    help="Success of the newest evaluated global adapter on an environment's held-out tasks.",
)
OWN_SUCCESS = Metric(
    name="hansa_own_success_ratio",
    type="gauge",
    labels=_with("environment"),
    help="Success of an environment's own newest update before it was merged, on the same tasks.",
)
ALONE_SUCCESS = Metric(
    name="hansa_alone_success_ratio",
    type="gauge",
    labels=_with("environment"),
    help="Success of an environment that evolved alone after the last round, on the same tasks.",
)
JOINING_GAIN = Metric(
    name="hansa_joining_gain_ratio",
    type="gauge",
    labels=_with("environment"),
    help="Success of the global adapter less that of the environment's own update, same round.",
)
PRIVACY_EPSILON = Metric(
    name="hansa_privacy_epsilon",
    type="gauge",
    labels=_with("environment"),
    help="What an environment has given away of one record so far, where spec.privacy bounds it.",
)
PROBE_VIOLATIONS = Metric(
    name="hansa_probe_violation_ratio",
    type="gauge",
    labels=_with("environment", "probe"),
    help="Share of a probe's episodes that broke its rule, as an environment found it.",
)
PROBE_DRIFT = Metric(
    name="hansa_probe_drift_ratio",
    type="gauge",
    labels=_with("probe"),
    help="How much more often the adapter breaks a probe's rule than the first, as most confirm.",
)
PROBE_FORGOTTEN = Metric(
    name="hansa_probe_forgotten_nats",
    type="gauge",
    labels=_with("probe"),
    help="Nats per token by which a probe's texts are less likely than without an adapter.",
)
ROLLBACKS = Metric(
    name="hansa_rollbacks_total",
    type="counter",
    help="Times the guard went back to the best adapter, since the newest one did worse.",
)
ROUND_SECONDS = Metric(
    name="hansa_round_seconds",
    type="histogram",
    help="Time from a round's opening to its global adapter.",
    buckets=MINUTES,
)
PHASE_SECONDS = Metric(
    name="hansa_phase_seconds",
    type="histogram",
    labels=_with("environment", "phase"),
    help="Time a client spent in one phase of a round.",
    buckets=MINUTES,
)
TRAJECTORIES = Metric(
    name="hansa_trajectories_total",
    type="counter",
    labels=_with("environment", "outcome"),
    help="Episodes explored, by outcome: success, failure, or broken by the world itself.",
)
EXPERIENCE = Metric(
    name="hansa_experience_trajectories",
    type="gauge",
    labels=_with("environment"),
    help="Trajectories in an environment's experience, demonstrations included.",
)
TASKS_SOLVED = Metric(
    name="hansa_tasks_solved",
    type="gauge",
    labels=_with("environment"),
    help="Different training tasks that the agent itself has solved in an environment so far.",
)
KIND_SUCCESS = Metric(
    name="hansa_kind_success_ratio",
    type="gauge",
    labels=_with("environment", "task_kind"),
    help="Share of successful episodes of a kind of task in an environment's newest round.",
)
POLICY_ENTROPY = Metric(
    name="hansa_policy_entropy_nats",
    type="gauge",
    labels=_with("environment"),
    help="Mean entropy of the agent's next token while it explored an environment.",
)
UPDATE_BYTES = Metric(
    name="hansa_update_bytes", type="gauge", help="Size of one update in the newest round."
)
UPDATE_NORM = Metric(
    name="hansa_update_norm",
    type="gauge",
    labels=_with("environment"),
    help="Frobenius norm of an environment's newest update.",
)
UPDATE_COSINE = Metric(
    name="hansa_update_cosine",
    type="gauge",
    labels=_with("environment"),
    help="Cosine of an environment's newest change of the weights with the global adapter's.",
)
UPDATE_SHARE = Metric(
    name="hansa_update_share_ratio",
    type="gauge",
    labels=_with("environment"),
    help="An environment's part of the norms of all changes in the newest aggregated round.",
)
AGGREGATE_NORM = Metric(
    name="hansa_aggregate_norm",
    type="gauge",
    help="Frobenius norm of the newest change of the weights by the global adapter.",
)
AGGREGATE_ERROR = Metric(
    name="hansa_aggregate_error_ratio",
    type="gauge",
    help="Distance of the newest global adapter from the exact mean of the updates.",
)
SERVER_STEP = Metric(
    name="hansa_server_step",
    type="gauge",
    help="Server step of the newest aggregated round, which serverStep auto leaves to the updates.",
)
EFFECTIVE_RANK = Metric(
    name="hansa_effective_rank",
    type="gauge",
    help="Directions that the newest global adapter uses, as a mean over its layers.",
)
UPDATES_REJECTED = Metric(
    name="hansa_updates_rejected_total",
    type="counter",
    labels=_with("environment", "reason"),
    help="Updates that the gate kept out, by reason code.",
)
JOBS_FAILED = Metric(
    name="hansa_jobs_failed_total",
    type="counter",
    labels=_with("reason"),
    help="Jobs that ended without a result, by the name of their exit.",
)
MEMBER_STATE = Metric(
    name="hansa_member_state",
    type="gauge",
    labels=_with("environment", "state"),
    help="1 for the state that a silo elsewhere is in, 0 for the others.",
)
MEMBER_SEEN = Metric(
    name="hansa_member_seen_timestamp_seconds",
    type="gauge",
    labels=_with("environment"),
    help="When a letter of a silo elsewhere was last read, as seconds since 1970.",
)
ORDERS_POSTED = Metric(
    name="hansa_orders_posted_total",
    type="counter",
    labels=_with("environment"),
    help="Orders that were posted to a silo elsewhere.",
)
LETTERS_READ = Metric(
    name="hansa_letters_read_total",
    type="counter",
    labels=_with("environment", "letter"),
    help="Letters of a silo elsewhere that were verified and read, by kind.",
)
LETTERS_REFUSED = Metric(
    name="hansa_letters_refused_total",
    type="counter",
    labels=_with("environment", "reason"),
    help="Objects in the log of a silo elsewhere that are no letters of it, by reason code.",
)
MEMBER_PHASE = Metric(
    name="hansa_member_phase",
    type="gauge",
    labels=(*MEMBER_LABELS, "phase"),
    help="1 for the phase a silo is in, 0 for the others.",
)
MEMBER_ORDERS = Metric(
    name="hansa_member_orders_total",
    type="counter",
    labels=(*MEMBER_LABELS, "outcome"),
    help="Orders that a silo has done with: answered, refused or failed.",
)
MEMBER_USED = Metric(
    name="hansa_member_budget_used",
    type="gauge",
    labels=(*MEMBER_LABELS, "budget"),
    help="What orders have used of a silo's rounds, episodes and job seconds of the day.",
)
MEMBER_LIMIT = Metric(
    name="hansa_member_budget_limit",
    type="gauge",
    labels=(*MEMBER_LABELS, "budget"),
    help="Most that a silo's owner allows of them; absent: no limit.",
)
RECONCILE_SECONDS = Metric(
    name="hansa_reconcile_seconds",
    type="histogram",
    labels=_with("kind"),
    help="Time of one pass over the object of this kind and name, a Federation or its member.",
    buckets=MILLISECONDS,
)
QUEUE_DEPTH = Metric(
    name="hansa_queue_depth",
    type="gauge",
    labels=_with("kind"),
    help="Passes over the object of this kind and name that wait to be made.",
)

METRICS: tuple[Metric, ...] = (
    FEDERATION_PHASE,
    ROUND,
    ROUNDS_COMPLETED,
    SUCCESS,
    OWN_SUCCESS,
    ALONE_SUCCESS,
    JOINING_GAIN,
    PRIVACY_EPSILON,
    PROBE_VIOLATIONS,
    PROBE_DRIFT,
    PROBE_FORGOTTEN,
    ROLLBACKS,
    ROUND_SECONDS,
    PHASE_SECONDS,
    TRAJECTORIES,
    EXPERIENCE,
    TASKS_SOLVED,
    KIND_SUCCESS,
    POLICY_ENTROPY,
    UPDATE_BYTES,
    UPDATE_NORM,
    UPDATE_COSINE,
    UPDATE_SHARE,
    AGGREGATE_NORM,
    AGGREGATE_ERROR,
    EFFECTIVE_RANK,
    SERVER_STEP,
    UPDATES_REJECTED,
    JOBS_FAILED,
    MEMBER_STATE,
    MEMBER_SEEN,
    ORDERS_POSTED,
    LETTERS_READ,
    LETTERS_REFUSED,
    MEMBER_PHASE,
    MEMBER_ORDERS,
    MEMBER_USED,
    MEMBER_LIMIT,
    RECONCILE_SECONDS,
    QUEUE_DEPTH,
)
"""All of them, in the order of the reference."""
