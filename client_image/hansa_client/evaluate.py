"""Evaluation: how the global adapter does on held-out tasks, written once per adapter."""

from collections.abc import Sequence

from pydantic import ValidationError

import hansa
from hansa import keys
from hansa.assignment import Assignment, EvaluationReport
from hansa.errors import Corrupt, NotFound
from hansa.manifest import EvaluationDocument, canonical, check_same_run, fingerprint
from hansa.store.base import ObjectStore, put_once
from hansa_client.trajectory import Episode


def find(store: ObjectStore, assignment: Assignment) -> EvaluationDocument | None:
    """The start adapter's evaluation, when it was measured already."""
    try:
        data = store.get(_key(assignment))
    except NotFound:
        return None
    return _parsed(assignment, data)


def commit(
    store: ObjectStore,
    assignment: Assignment,
    episodes: Sequence[Episode],
    seconds: float,
    broken: int = 0,
) -> EvaluationDocument:
    """Store what was measured; a twin that was faster is right, even if its luck was other."""
    inputs = {**assignment.evaluation_inputs(), "adapter_sha256": assignment.start.sha256}
    own = EvaluationDocument(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=assignment.start,
        fingerprint=fingerprint(inputs),
        inputs=inputs,
        temperature=assignment.settings.evaluation.temperature,
        episodes=len(episodes),
        successes=sum(episode.success for episode in episodes),
        broken=broken,
        tasks=by_task(episodes),
        seconds=round(seconds, 3),
    )
    stored = put_once(store, _key(assignment), canonical(own.to_json()))
    return _parsed(assignment, stored)


def report(document: EvaluationDocument) -> EvaluationReport:
    """The figures that the operator reads."""
    return EvaluationReport(
        round=document.adapter.round,
        episodes=document.episodes,
        successes=document.successes,
        broken=document.broken,
        effective=document.effective(),
    )


def by_task(episodes: Sequence[Episode]) -> dict[str, list[int]]:
    """Successes and episodes of each task."""
    tasks: dict[str, list[int]] = {}
    for episode in episodes:
        seen = tasks.setdefault(episode.task, [0, 0])
        seen[0] += episode.success
        seen[1] += 1
    return tasks


def _key(assignment: Assignment) -> str:
    place = assignment.storage.prefix
    return keys.evaluation(place, assignment.environment, assignment.start.round)


def _parsed(assignment: Assignment, data: bytes) -> EvaluationDocument:
    try:
        document = EvaluationDocument.model_validate_json(data)
    except ValidationError:
        raise Corrupt(f"{_key(assignment)}: expected an evaluation, got something else") from None
    own = [*assignment.identity(), "environment", "world", "adapter_sha256"]
    theirs = {name: document.inputs.get(name) for name in own}
    ours = {**assignment.evaluation_inputs(), "adapter_sha256": assignment.start.sha256}
    check_same_run(assignment.storage.prefix, theirs, {name: ours[name] for name in own})
    return document
