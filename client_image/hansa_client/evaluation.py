"""Evaluation: how the global adapter does on held-out tasks, written once per adapter.

Counts are for all to read. Which tasks succeeded is the silo's own, and lies with its experience.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

import hansa
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, EvaluationReport
from hansa.api.bucket_documents import (
    EvaluationDocument,
    Figures,
    StartAdapter,
    TaskTallies,
    canonical,
    check_same_run,
    fingerprint,
    total,
)
from hansa.api.probes import ProbeFigures
from hansa.core.errors import Corrupt, NotFound
from hansa.store.base import ObjectStore, put_once
from hansa_client.privacy import NoisyCounts
from hansa_client.trajectory import Episode


@dataclass(frozen=True)
class Subject:
    """An adapter that is measured, and where its evaluation is kept."""

    adapter: StartAdapter
    """Which adapter."""
    key: str
    """Its document in the exchange."""
    private_key: str
    """The same task by task, in the silo's private store."""


@dataclass(frozen=True)
class Stores:
    """Where an evaluation goes."""

    exchange: ObjectStore
    """Read by others."""
    private: ObjectStore
    """The silo's own."""


def of_start(assignment: Assignment) -> Subject:
    """The adapter that the round starts from, which all share."""
    name, round_ = assignment.environment, assignment.start.round
    return Subject(
        assignment.start,
        bucket_keys.evaluation(assignment.storage.prefix, name, round_),
        bucket_keys.evaluation_tasks(assignment.private_storage.prefix, name, round_),
    )


def of_own(assignment: Assignment, sha256: str) -> Subject:
    """The environment's own update of the round."""
    name, round_ = assignment.environment, assignment.round
    return Subject(
        StartAdapter(round=round_, sha256=sha256),
        bucket_keys.own_evaluation(assignment.storage.prefix, name, round_),
        bucket_keys.own_evaluation_tasks(assignment.private_storage.prefix, name, round_),
    )


def find(store: ObjectStore, assignment: Assignment, subject: Subject) -> EvaluationDocument | None:
    """An adapter's evaluation, when it was measured already."""
    try:
        data = store.get(subject.key)
    except NotFound:
        return None
    return _parsed(assignment, subject, data)


def tallies(private: ObjectStore, assignment: Assignment, subject: Subject) -> TaskTallies | None:
    """An evaluation task by task; nothing where the private store has lost it."""
    try:
        return _parsed_tallies(assignment, subject, private.get(subject.private_key))
    except NotFound:
        return None


def commit(
    stores: Stores,
    assignment: Assignment,
    subject: Subject,
    episodes: Sequence[Episode],
    seconds: float,
    *,
    broken: int = 0,
    greedy: dict[str, list[int]] | None = None,
    validation: Figures | None = None,
    probed: ProbeFigures | None = None,
    veil: NoisyCounts | None = None,
) -> EvaluationDocument:
    """Store what was measured; a twin that was faster is right, even if it drew other tokens.

    Under a veil nothing exact is told: how many broke counts as failed, and time would tell, too.
    """
    mine = _tallies(assignment, subject, by_task(episodes), greedy or {})
    first = put_once(stores.private, subject.private_key, canonical(mine.to_json()))
    kept = _parsed_tallies(assignment, subject, first)
    own = EvaluationDocument(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=subject.adapter,
        fingerprint=kept.fingerprint,
        inputs=kept.inputs,
        temperature=assignment.settings.evaluation.temperature,
        broken=0 if veil else broken,
        validation=validation,
        probes=probed,
        seconds=0.0 if veil else round(seconds, 3),
        **(_veiled(kept, len(episodes) + broken, veil) if veil else kept.counts()),
    )
    stored = put_once(stores.exchange, subject.key, canonical(own.to_json()))
    return _parsed(assignment, subject, stored)


def _veiled(kept: TaskTallies, planned: int, veil: NoisyCounts) -> dict[str, Any]:
    """What may be told instead of counts; several episodes of a task are worth one at least."""
    tasks = planned // veil.samples
    noised = veil.figures("test", total(kept.tasks).successes, planned)
    worth = float(tasks) if veil.samples > 1 else None
    return {**noised.model_dump(), "task_count": tasks, "worth": worth}


def report(document: EvaluationDocument) -> EvaluationReport:
    """The figures that the operator reads."""
    return EvaluationReport(
        round=document.adapter.round,
        episodes=document.episodes,
        successes=document.successes,
        broken=document.broken,
        effective=document.effective(),
        validation=document.validation,
        probes=document.probes,
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


def _tallies(
    assignment: Assignment,
    subject: Subject,
    tasks: dict[str, list[int]],
    greedy: dict[str, list[int]],
) -> TaskTallies:
    inputs = {**assignment.evaluation_inputs(), "adapter_sha256": subject.adapter.sha256}
    return TaskTallies(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=subject.adapter,
        fingerprint=fingerprint(inputs),
        inputs=inputs,
        tasks=tasks,
        greedy=greedy,
    )


def _parsed(assignment: Assignment, subject: Subject, data: bytes) -> EvaluationDocument:
    try:
        document = EvaluationDocument.model_validate_json(data)
    except ValidationError:
        raise Corrupt(f"{subject.key}: expected an evaluation, got something else") from None
    _check_own(assignment, subject, assignment.storage.prefix, document.inputs)
    return document


def _parsed_tallies(assignment: Assignment, subject: Subject, data: bytes) -> TaskTallies:
    try:
        document = TaskTallies.model_validate_json(data)
    except ValidationError:
        where = subject.private_key
        raise Corrupt(f"{where}: expected an evaluation's tasks, got something else") from None
    _check_own(assignment, subject, assignment.private_storage.prefix, document.inputs)
    return document


def _check_own(
    assignment: Assignment, subject: Subject, prefix: str, inputs: dict[str, Any]
) -> None:
    """Refuse what another run has measured, or this one of another adapter."""
    own = [*assignment.identity(), "environment", "world", "adapter_sha256"]
    theirs = {name: inputs.get(name) for name in own}
    ours = {**assignment.evaluation_inputs(), "adapter_sha256": subject.adapter.sha256}
    check_same_run(prefix, theirs, {name: ours[name] for name in own})
