"""Evaluation: how the global adapter does on held-out tasks, written once per adapter."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

import hansa
from hansa import keys
from hansa.assignment import Assignment, EvaluationReport
from hansa.errors import Corrupt, NotFound
from hansa.manifest import (
    EvaluationDocument,
    Figures,
    StartAdapter,
    canonical,
    check_same_run,
    fingerprint,
)
from hansa.store.base import ObjectStore, put_once
from hansa_client.trajectory import Episode


@dataclass(frozen=True)
class Subject:
    """An adapter that is measured, and where its evaluation is kept."""

    adapter: StartAdapter
    """Which adapter."""
    key: str
    """Its document in the exchange."""


def of_start(assignment: Assignment) -> Subject:
    """The adapter that the round starts from, which all share."""
    key = keys.evaluation(assignment.storage.prefix, assignment.environment, assignment.start.round)
    return Subject(assignment.start, key)


def of_own(assignment: Assignment, sha256: str) -> Subject:
    """The environment's own update of the round."""
    key = keys.own_evaluation(assignment.storage.prefix, assignment.environment, assignment.round)
    return Subject(StartAdapter(round=assignment.round, sha256=sha256), key)


def find(store: ObjectStore, assignment: Assignment, subject: Subject) -> EvaluationDocument | None:
    """An adapter's evaluation, when it was measured already."""
    try:
        data = store.get(subject.key)
    except NotFound:
        return None
    return _parsed(assignment, subject, data)


def commit(
    store: ObjectStore,
    assignment: Assignment,
    subject: Subject,
    episodes: Sequence[Episode],
    seconds: float,
    *,
    broken: int = 0,
    greedy: dict[str, list[int]] | None = None,
    validation: Figures | None = None,
) -> EvaluationDocument:
    """Store what was measured; a twin that was faster is right, even if it drew other tokens."""
    inputs = {**assignment.evaluation_inputs(), "adapter_sha256": subject.adapter.sha256}
    own = EvaluationDocument(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=subject.adapter,
        fingerprint=fingerprint(inputs),
        inputs=inputs,
        temperature=assignment.settings.evaluation.temperature,
        episodes=len(episodes),
        successes=sum(episode.success for episode in episodes),
        broken=broken,
        tasks=by_task(episodes),
        greedy=greedy or {},
        validation=validation,
        seconds=round(seconds, 3),
    )
    stored = put_once(store, subject.key, canonical(own.to_json()))
    return _parsed(assignment, subject, stored)


def report(document: EvaluationDocument) -> EvaluationReport:
    """The figures that the operator reads."""
    return EvaluationReport(
        round=document.adapter.round,
        episodes=document.episodes,
        successes=document.successes,
        broken=document.broken,
        effective=document.effective(),
        validation=document.validation,
    )


def figures(document: EvaluationDocument) -> Figures:
    """Its successes among its episodes."""
    return Figures(episodes=document.episodes, successes=document.successes)


def by_task(episodes: Sequence[Episode]) -> dict[str, list[int]]:
    """Successes and episodes of each task."""
    tasks: dict[str, list[int]] = {}
    for episode in episodes:
        tally = tasks.setdefault(episode.task, [0, 0])
        tally[0] += episode.success
        tally[1] += 1
    return tasks


def _parsed(assignment: Assignment, subject: Subject, data: bytes) -> EvaluationDocument:
    try:
        document = EvaluationDocument.model_validate_json(data)
    except ValidationError:
        raise Corrupt(f"{subject.key}: expected an evaluation, got something else") from None
    own = [*assignment.identity(), "environment", "world", "adapter_sha256"]
    theirs = {name: document.inputs.get(name) for name in own}
    ours = {**assignment.evaluation_inputs(), "adapter_sha256": subject.adapter.sha256}
    check_same_run(assignment.storage.prefix, theirs, {name: ours[name] for name in own})
    return document
