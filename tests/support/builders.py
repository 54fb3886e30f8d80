"""Federations, jobs and reports in one line, so that a test shows only what matters to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hansa.api.assignment import AggregatorReport, ClientReport, EvaluateReport, EvaluationReport
from hansa.api.bucket_documents import Counts, Figures
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.spec import FederationSpec, Metadata
from hansa.api.status import Federation, FederationStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORLDS = ("babyai", "maze", "wordle")


def later(seconds: float) -> datetime:
    """So many seconds after the tests' present."""
    return NOW + timedelta(seconds=seconds)


def make_spec(*environments: str, **fields: Any) -> FederationSpec:
    """A spec of these environments, each named after its world."""
    names = environments or WORLDS
    return FederationSpec.model_validate(
        {
            "rounds": 2,
            "storage": {"s3": {"bucket": "bucket", "prefix": "run"}},
            "environments": [{"name": name, "world": name} for name in names],
            **fields,
        }
    )


def make_federation(*environments: str, **fields: Any) -> Federation:
    """A federation that has not begun."""
    return Federation(metadata=Metadata(name="fed"), spec=make_spec(*environments, **fields))


def with_status(federation: Federation, status: FederationStatus) -> Federation:
    """The federation with a status, as the executor writes it."""
    return federation.model_copy(update={"status": status})


def with_spec(federation: Federation, **fields: Any) -> Federation:
    """The federation after its user changed the spec."""
    spec = FederationSpec.model_validate({**federation.spec.to_json(), **fields})
    generation = federation.metadata.generation + 1
    metadata = federation.metadata.model_copy(update={"generation": generation})
    return federation.model_copy(update={"spec": spec, "metadata": metadata})


def make_report(request: JobRequest, *, trained: bool = True, successes: int = 5) -> Any:
    """What the program of that Job would report."""
    assignment = request.assignment
    if request.role == "aggregator":
        return AggregatorReport(
            round=request.round,
            manifest="a" * 64,
            adapter=f"{request.round:064x}",
            audit=f"{request.round:e>64}",
            bytes=10,
            members=[assignment.environments.index(m.environment) for m in assignment.members],
            server_step=2.5,
        )
    figures = Figures(episodes=10, successes=successes)
    evaluation = EvaluationReport(
        round=assignment.start.round,
        episodes=10,
        successes=successes,
        validation=figures if assignment.settings.evaluation.validation_tasks else None,
    )
    index = assignment.environments.index(request.environment)
    if request.role == "evaluate":
        chooses = assignment.settings.personalization != "none"
        return EvaluateReport(
            environment=index,
            evaluation=evaluation,
            personal=Figures(episodes=10, successes=8) if chooses else None,
            serves="mix-50" if chooses else "",
            alone=Figures(episodes=10, successes=1) if assignment.alone_rounds else None,
        )
    return ClientReport(
        environment=index,
        round=request.round,
        epoch=assignment.masking.epoch if assignment.masking else None,
        solved=3,
        kinds={"far": 2500, "near": 7500},
        entropy=0.5,
        trained=trained,
        manifest=f"{request.round:032x}{index:032x}",
        adapter=f"{index:032x}{request.round:032x}" if trained else "",
        counts=Counts(explored=10, succeeded=4, broken=1, experience=14),
        evaluation=evaluation if assignment.evaluate else None,
        own=figures if trained and assignment.settings.evaluation.own_update else None,
    )


def make_job(request: JobRequest, state: str, **fields: Any) -> ObservedJob:
    """A Job of that request, as an executor would see it."""
    if state == "succeeded" and "report" not in fields:
        fields["report"] = make_report(request)
    if state in ("running", "succeeded", "failed"):
        fields.setdefault("started_at", NOW)
    return ObservedJob(
        name=request.name,
        role=request.role,
        round=request.round,
        environment=request.environment,
        attempt=request.attempt,
        state=state,  # type: ignore[arg-type]  # tests write plain strings
        created_at=fields.pop("created_at", NOW),
        **fields,
    )
