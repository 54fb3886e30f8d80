"""Personalisation: after the last round a silo chooses what it serves, by tasks of its own.

Averaging worlds that differ costs each of them something. So the silo compares the global adapter
with its own last update, with mixes of both, and with the global adapter evolved further alone, on
validation tasks that nobody trains on or reports. The global adapter is always among them and wins
a tie. The choice is kept in the private store and never sent; what is reported is its success on
the held-out tasks that all adapters are measured by.

Evolving alone is what it was in the federation, without the averaging: explore, remember, train on
all that was kept. One such round is far less than a silo that is alone all along has had. So it
goes on while that helps, as many times as there were rounds at most.

Limits: the choice is as sure as the validation tasks are many, and the best of several candidates
looks a little better on them than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

import hansa
from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api import bucket_keys
from hansa.api.bucket_documents import (
    EvaluationDocument,
    Figures,
    FileEntry,
    GlobalManifest,
    PersonalManifest,
    StartAdapter,
    UpdateManifest,
    canonical,
    check_same_run,
    fingerprint,
    sha256,
)
from hansa.core.errors import Corrupt, Diverged, NotFound
from hansa.store.base import put_once
from hansa_client import evaluation as evaluations
from hansa_client import seeds
from hansa_client.experience.shards import Shards

if TYPE_CHECKING:
    from hansa.api.assignment import Assignment
    from hansa.store.base import ObjectStore
    from hansa_client.agent import Agent
    from hansa_client.learners import TrainingSet
    from hansa_client.silo import Silo

See = Callable[[str, Tensors], float]
"""Tries a candidate of that name; its success."""
SHARES = (25, 50, 75)
"""Per cent of the silo's own update in a mix."""
GLOBAL = "global"
"""The candidate that is always there."""
ALONE = "alone"
"""What the silo would have had without the others; there where evaluation.alone asks for it."""
PATIENCE = 2
"""Rounds alone in a row that may bring nothing; the last of them cost time, and no success."""
_PURPOSE = "personal"


def is_wanted(assignment: Assignment) -> bool:
    """Whether the silo chooses; one that shares nothing has only its own adapter."""
    return assignment.settings.personalization != "none" and not assignment.own_start


def find(private: ObjectStore, assignment: Assignment) -> PersonalManifest | None:
    """What an earlier attempt has chosen."""
    if not is_wanted(assignment):
        return None
    try:
        return _parsed(assignment, private.get(_folder(assignment) + bucket_keys.MANIFEST))
    except NotFound:
        return None


def choose(
    silo: Silo, agent: Agent, evaluation: EvaluationDocument, alone: Tensors | None = None
) -> PersonalManifest:
    """Try all candidates on validation tasks, keep the best one, and measure it.

    What the silo evolved alone from the base is one of them, where it is known.
    """
    assignment, trial = silo.assignment, Trial(silo, agent)
    mode = assignment.settings.personalization
    if mode in ("interpolate", "best"):
        for name, tensors in _mixes(silo, agent):
            trial.see(name, tensors)
    if mode in ("finetune", "best"):
        while_it_helps(trial.see, trial.ratio(GLOBAL), _evolved(silo, agent))
    if alone:
        trial.see(ALONE, alone)
    subject = evaluations.of_start(assignment)
    known = evaluations.tallies(silo.private, assignment, subject)
    if known and trial.best == GLOBAL:
        tasks, greedy = known.tasks, known.greedy
    else:
        tasks = evaluations.by_task(silo.play_held_out(agent, "test", tensors=trial.kept).episodes)
        greedy = silo.play_greedily(agent, trial.kept)
    silo.watch.lap("personal")
    made = PersonalManifest(
        program=hansa.__version__,
        environment=assignment.environment,
        adapter=assignment.start,
        fingerprint=fingerprint(_inputs(assignment)),
        inputs=_inputs(assignment),
        choice=trial.best,
        validation=trial.figures,
        files={} if trial.best == GLOBAL else _store(silo.private, assignment, trial.kept),
        tasks=tasks,
        greedy=greedy,
    )
    data = put_once(
        silo.private, _folder(assignment) + bucket_keys.MANIFEST, canonical(made.to_json())
    )
    return _parsed(assignment, data)


class Trial:
    """Candidates on validation tasks: how each did, and the best so far with its tensors."""

    def __init__(self, silo: Silo, agent: Agent) -> None:
        measured = silo.assignment.settings.evaluation
        self._silo, self._agent = silo, agent
        self._tasks = measured.validation_tasks or measured.tasks
        self.figures: dict[str, Figures] = {}
        """How each did."""
        self.best, self.kept = GLOBAL, agent.whole
        self.see(GLOBAL, agent.whole)

    def see(self, name: str, tensors: Tensors) -> float:
        """Try one more; its success."""
        played = self._silo.play_held_out(self._agent, "validation", self._tasks, tensors)
        self.figures[name] = Figures(episodes=len(played.episodes), successes=played.successes)
        self._silo.log.info("tried", candidate=name, successes=played.successes)
        if self.ratio(name) > self.ratio(self.best):
            self.best, self.kept = name, tensors
        return self.ratio(name)

    def ratio(self, name: str) -> float:
        """Success of one that was tried; nothing where no episode was played to its end."""
        return self.figures[name].ratio or 0.0


def while_it_helps(see: See, best: float, trained: Iterator[Tensors]) -> None:
    """Try one round alone after another, until some in a row were no better than the best."""
    since = 0
    for number, tensors in enumerate(trained, start=1):
        success = see(f"finetuned-{number}", tensors)
        best, since = (success, 0) if success > best else (best, since + 1)
        if since == PATIENCE:
            return


def _mixes(silo: Silo, agent: Agent) -> Iterator[tuple[str, Tensors]]:
    """The silo's own update and mixes, one at a time: they need not all be in memory."""
    own = _own(silo)
    if own:
        yield "own", own
        for share in SHARES:
            yield f"mix-{share}", mix(agent.whole, own, share / 100)


def mix(shared: Tensors, own: Tensors, share: float) -> Tensors:
    """The adapter whose B·A is exactly the weighted mean of both; `share` is the own one's weight.

    The factors are stacked, for a mean of A and of B would have products of one's A with the
    other's B in it; the rank is the sum of both.
    """
    mixed: Tensors = {}
    for name, array in shared.items():
        if lora.side(name) == "A":
            mixed[name] = np.concatenate([array, own[name]], axis=0)
        else:
            parts = [array * np.float32(1 - share), own[name] * np.float32(share)]
            mixed[name] = np.concatenate(parts, axis=1)
    return mixed


def _own(silo: Silo) -> Tensors | None:
    """The silo's update in the round of the last adapter, whole; nothing where it has none."""
    assignment, store = silo.assignment, silo.exchange
    folder = bucket_keys.update_folder(
        assignment.storage.prefix, assignment.environment, assignment.start.round
    )
    if assignment.own_manifest == "":
        return None  # what lies there is somebody's word, and not known to be the silo's
    try:
        data = store.get(folder + bucket_keys.MANIFEST)
    except NotFound:
        return None
    is_staged = assignment.settings.aggregation.secure is not None  # in the silo's own store
    if assignment.own_manifest and not is_staged:
        _check(folder + bucket_keys.MANIFEST, data, assignment.own_manifest)
    update = UpdateManifest.model_validate_json(data)
    if not update.trained:
        return None
    named = update.files.get(bucket_keys.ADAPTER)
    trained = _same(store, folder + bucket_keys.ADAPTER, named.sha256 if named else "")
    return lora.join(_frozen(silo, update.start), trained)


def _same(store: ObjectStore, key: str, digest: str) -> Tensors:
    """Tensors that the bucket still has as they were; whoever holds it could exchange them."""
    data = store.get(key)
    _check(key, data, digest)
    return lora.decode(data)


def _check(key: str, data: bytes, digest: str) -> None:
    if sha256(data) != digest:
        raise Corrupt(f"{key}: got {sha256(data)}, expected {digest}: it was changed since")


def _frozen(silo: Silo, start: StartAdapter) -> Tensors:
    """The frozen part that the update was trained on top of; most strategies have none."""
    if not start.round:
        return {}
    folder = bucket_keys.global_folder(silo.assignment.storage.prefix, start.round)
    manifest = GlobalManifest.model_validate_json(silo.exchange.get(folder + bucket_keys.MANIFEST))
    if not manifest.frozen_rank:
        return {}
    whole = _same(silo.exchange, folder + bucket_keys.ADAPTER, start.sha256)
    return lora.split(whole, silo.assignment.adapter.rank).frozen


def _evolved(silo: Silo, agent: Agent) -> Iterator[Tensors]:
    """The global adapter after one, two and more rounds that the silo plays alone.

    What each explores and trains is stored before it is tried, so that an attempt after a kill need
    not do it again. It lies apart from the experience: a federation that goes on knows nothing of
    it.
    """
    assignment = silo.assignment
    # Shards of earlier rounds are asked for who they belong to, not for this Job's settings.
    shared = Shards(silo.private, assignment.model_copy(update={"round": assignment.round + 1}))
    earlier = [round_ for round_ in shared.rounds() if round_ <= assignment.round]
    known = [shard for round_ in earlier if (shard := shared.find(round_))]
    own = _shards(silo)
    start, whole = agent.start, agent.whole
    for number in range(1, assignment.start.round + 1):
        round_ = assignment.round + number
        if assignment.settings.exploration.tasks_per_round:
            known.append(own.find(round_) or silo.play_training(agent, own, round_, whole))
        seed = seeds.derive(assignment.seed, assignment.environment, round_ - 1, _PURPOSE)
        lesson = replace(silo.lesson(agent, known, round_), start=start, seed=seed)
        if not lesson.sequences:
            return
        try:
            start = _trained(silo, agent, lesson, number)
        except Diverged as diverged:  # those before are there, and the global adapter
            silo.log.warning("finetuning_ended", trainings=number, message=diverged.message)
            return
        whole = lora.join(agent.frozen, start)
        yield whole


def _shards(silo: Silo) -> Shards:
    """What rounds alone have played, beside what they have trained."""
    assignment = silo.assignment
    place = assignment.private_storage
    folder = place.model_copy(update={"prefix": _folder(assignment).rstrip("/")})
    return Shards(silo.private, assignment.model_copy(update={"experience_storage": folder}))


def _trained(silo: Silo, agent: Agent, lesson: TrainingSet, number: int) -> Tensors:
    """What a training alone made, by this attempt or by one before it."""
    assignment = silo.assignment
    prefix = assignment.private_storage.prefix
    key = bucket_keys.finetuned(prefix, assignment.environment, assignment.start.round, number)
    try:
        return lora.decode(silo.private.get(key))
    except NotFound:
        made = silo.train(agent, lesson, "finetune").tensors
        return lora.decode(put_once(silo.private, key, lora.encode(made)))


def _store(private: ObjectStore, assignment: Assignment, tensors: Tensors) -> dict[str, FileEntry]:
    """Adapter and config as PEFT loads them, in the private store."""
    data = put_once(private, _folder(assignment) + bucket_keys.ADAPTER, lora.encode(tensors))
    shapes = lora.shapes(data)
    rank = next(shape[0] for name, shape in shapes.items() if lora.side(name) == "A")
    extra = rank - assignment.adapter.rank
    config = lora.config(
        assignment.adapter, assignment.model.source, lora.target_names(shapes), extra
    )
    config = put_once(private, _folder(assignment) + bucket_keys.CONFIG, config)
    return {
        name: FileEntry(sha256=sha256(content), size=len(content))
        for name, content in ((bucket_keys.ADAPTER, data), (bucket_keys.CONFIG, config))
    }


def _folder(assignment: Assignment) -> str:
    place = assignment.private_storage
    return bucket_keys.personal_folder(place.prefix, assignment.environment, assignment.start.round)


def _inputs(assignment: Assignment) -> dict[str, object]:
    mode = assignment.settings.personalization
    own = {"adapter_sha256": assignment.start.sha256, "personalization": mode}
    more = {"aloneRounds": assignment.alone_rounds} if assignment.alone_rounds else {}
    return {**assignment.evaluation_inputs(), **own, **more}


def _parsed(assignment: Assignment, data: bytes) -> PersonalManifest:
    try:
        document = PersonalManifest.model_validate_json(data)
    except ValidationError:
        where = _folder(assignment) + bucket_keys.MANIFEST
        raise Corrupt(f"{where}: expected a silo's choice, got something else") from None
    place = assignment.private_storage
    check_same_run(place.prefix, document.inputs, _inputs(assignment))
    return document
