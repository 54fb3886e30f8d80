"""Evaluation: how an adapter does on held-out tasks, written once per adapter.

Counts are public. Which tasks succeeded stays with the silo's experience in its private store.
"""

from collections.abc import Callable, Sequence
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
    sum_tallies,
)
from hansa.api.probes import ProbeFigures
from hansa.api.storage import S3
from hansa.core.errors import Corrupt
from hansa.store.base import ObjectStore, get_if_present, put_once
from hansa.store.documents import parse
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
    released_key: str
    """There, too: the document as it was published, where that store is the silo's own."""


def make_subject(assignment: Assignment, own_sha256: str = "") -> Subject:
    """The adapter that the round starts from, which all share, or the environment's own update."""
    name, is_own = assignment.environment, bool(own_sha256)
    own = StartAdapter(round=assignment.round, sha256=own_sha256)
    adapter = own if is_own else assignment.start
    private = assignment.private_storage.prefix
    return Subject(
        adapter,
        bucket_keys.evaluation(assignment.storage.prefix, name, adapter.round, own=is_own),
        bucket_keys.evaluation_tasks(private, name, adapter.round, own=is_own),
        bucket_keys.released_evaluation(private, name, adapter.round, own=is_own),
    )


def find(
    exchange: ObjectStore, private: ObjectStore, assignment: Assignment, subject: Subject
) -> EvaluationDocument | None:
    """An adapter's evaluation, if it was measured already.

    The copy in a store of the silo's own counts: whoever deletes the published one has nothing
    played again, and asks for other tasks in vain. Two noised answers would tell what is between.
    """
    if _keeps_copy(assignment):
        released = get_if_present(private, subject.released_key)
        if released is not None:
            put_once(exchange, subject.key, released)
            return _parse_evaluation(assignment, subject, released)
    data = get_if_present(exchange, subject.key)
    return _parse_evaluation(assignment, subject, data) if data is not None else None


def read_tallies(
    private: ObjectStore, assignment: Assignment, subject: Subject
) -> TaskTallies | None:
    """An evaluation task by task; None where the private store has lost it."""
    data = get_if_present(private, subject.private_key)
    return _parse_tallies(assignment, subject, data) if data is not None else None


def commit(
    exchange: ObjectStore,
    private: ObjectStore,
    assignment: Assignment,
    subject: Subject,
    episodes: Sequence[Episode],
    seconds: float,
    *,
    broken: int = 0,
    greedy: dict[str, list[int]] | None = None,
    validation: Figures | None = None,
    probed: ProbeFigures | None = None,
    noisy: NoisyCounts | None = None,
) -> EvaluationDocument:
    """Store what was measured; an attempt that wrote it first is right, whatever tokens it drew.

    With noise nothing exact is published: broken episodes count as failed, and no time is given.
    """
    inputs = {**assignment.evaluation_inputs(), "adapter_sha256": subject.adapter.sha256}
    mine = TaskTallies(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=subject.adapter,
        fingerprint=fingerprint(inputs),
        inputs=inputs,
        tasks=tally_by_task(episodes),
        greedy=greedy or {},
    )
    first = put_once(private, subject.private_key, canonical(mine.to_json()))
    kept = _parse_tallies(assignment, subject, first)
    own = EvaluationDocument(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=subject.adapter,
        fingerprint=kept.fingerprint,
        inputs=kept.inputs,
        temperature=assignment.settings.evaluation.temperature,
        broken=0 if noisy else broken,
        validation=validation,
        probes=probed,
        seconds=0.0 if noisy else round(seconds, 3),
        **(_add_noise(kept, len(episodes) + broken, noisy) if noisy else kept.counts()),
    )
    return _publish(exchange, private, assignment, subject, canonical(own.to_json()))


def _publish(
    exchange: ObjectStore,
    private: ObjectStore,
    assignment: Assignment,
    subject: Subject,
    data: bytes,
) -> EvaluationDocument:
    if is_kept := _keeps_copy(assignment):
        data = put_once(private, subject.released_key, data)
    stored = put_once(exchange, subject.key, data)
    return _parse_evaluation(assignment, subject, data if is_kept else stored)


def _keeps_copy(assignment: Assignment) -> bool:
    """Whether the private store is one of the silo's own; with noise it must be."""
    own, shared = assignment.private_storage, assignment.storage
    is_other = (own.endpoint, own.bucket) != (shared.endpoint, shared.bucket)
    return is_other or assignment.settings.privacy is not None


def _add_noise(kept: TaskTallies, planned: int, noisy: NoisyCounts) -> dict[str, Any]:
    """What is published instead of counts; several episodes of a task are worth at least one."""
    tasks = planned // noisy.samples
    noised = noisy.add_noise("test", sum_tallies(kept.tasks).successes, planned)
    worth = float(tasks) if noisy.samples > 1 else None
    return {**noised.model_dump(), "task_count": tasks, "worth": worth}


def make_report(document: EvaluationDocument) -> EvaluationReport:
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


def count_successes(document: EvaluationDocument) -> Figures:
    """Its successes among its episodes."""
    return Figures(episodes=document.episodes, successes=document.successes)


def tally_by_task(episodes: Sequence[Episode]) -> dict[str, list[int]]:
    """Successes and episodes of each task."""
    return tally(episodes, lambda episode: episode.task)


def tally(episodes: Sequence[Episode], key: Callable[[Episode], str]) -> dict[str, list[int]]:
    """Successes and episodes by a key; those whose key is empty do not count."""
    tallies: dict[str, list[int]] = {}
    for episode in episodes:
        if name := key(episode):
            counts = tallies.setdefault(name, [0, 0])
            counts[0] += episode.success
            counts[1] += 1
    return tallies


def _parse_evaluation(assignment: Assignment, subject: Subject, data: bytes) -> EvaluationDocument:
    document = parse(EvaluationDocument, subject.key, data)
    _check_own(assignment, subject, assignment.place, document.inputs)
    return document


def _parse_tallies(assignment: Assignment, subject: Subject, data: bytes) -> TaskTallies:
    try:
        document = TaskTallies.model_validate_json(data)
    except ValidationError:
        where = subject.private_key
        raise Corrupt(f"{where}: expected an evaluation's tasks, got something else") from None
    _check_own(assignment, subject, assignment.private_place, document.inputs)
    return document


def _check_own(
    assignment: Assignment, subject: Subject, place: tuple[str, S3], inputs: dict[str, Any]
) -> None:
    """Refuse an evaluation of another run, or of another adapter."""
    own = [*assignment.identity(), "environment", "world", "adapter_sha256"]
    theirs = {name: inputs.get(name) for name in own}
    ours = {**assignment.evaluation_inputs(), "adapter_sha256": subject.adapter.sha256}
    check_same_run(place, theirs, {name: ours[name] for name in own})
