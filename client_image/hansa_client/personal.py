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

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationError

import hansa
from hansa import adapter, keys, program
from hansa.adapter import Tensors
from hansa.errors import Corrupt, Diverged, NotFound
from hansa.manifest import (
    EvaluationDocument,
    Figures,
    FileEntry,
    GlobalManifest,
    PersonalManifest,
    UpdateManifest,
    canonical,
    check_same_run,
    fingerprint,
    sha256,
)
from hansa.store.base import put_once
from hansa_client import evaluate, learners, seeds
from hansa_client.experience import Shards

if TYPE_CHECKING:
    from hansa.assignment import Assignment
    from hansa.store.base import ObjectStore
    from hansa_client.agent import Agent
    from hansa_client.learners import Lesson
    from hansa_client.round import Client

See = Callable[[str, Tensors], float]
"""Tries a candidate of that name; its success."""
SHARES = (25, 50, 75)
"""Per cent of the silo's own update in a mix."""
GLOBAL = "global"
"""The candidate that is always there."""
PATIENCE = 2
"""Rounds alone in a row that may bring nothing; the last of them cost time, and no success."""
_PURPOSE = "personal"


def is_wanted(told: Assignment) -> bool:
    """Whether the silo chooses; one that shares nothing has only its own adapter."""
    return told.settings.personalization != "none" and not told.own_start


def find(private: ObjectStore, told: Assignment) -> PersonalManifest | None:
    """What an earlier attempt has chosen."""
    if not is_wanted(told):
        return None
    try:
        return _parsed(told, private.get(_folder(told) + keys.MANIFEST))
    except NotFound:
        return None


def choose(client: Client, agent: Agent, evaluation: EvaluationDocument) -> PersonalManifest:
    """Try all candidates on validation tasks, keep the best one, and measure it."""
    told, trial = client.told, Trial(client, agent)
    mode = told.settings.personalization
    if mode in ("interpolate", "best"):
        for name, tensors in _mixes(client, agent):
            trial.see(name, tensors)
    if mode in ("finetune", "best"):
        while_it_helps(trial.see, trial.ratio(GLOBAL), _evolved(client, agent))
    tasks = evaluation.tasks
    if trial.best != GLOBAL:
        tasks = evaluate.by_task(client.play_held_out(agent, "test", tensors=trial.kept).episodes)
    client.lap("personal")
    made = PersonalManifest(
        program=hansa.__version__,
        environment=told.environment,
        adapter=told.start,
        fingerprint=fingerprint(_inputs(told)),
        inputs=_inputs(told),
        choice=trial.best,
        validation=trial.figures,
        files={} if trial.best == GLOBAL else _store(client.private, told, trial.kept),
        tasks=tasks,
    )
    data = put_once(client.private, _folder(told) + keys.MANIFEST, canonical(made.to_json()))
    return _parsed(told, data)


class Trial:
    """Candidates on validation tasks: how each did, and the best so far with its tensors."""

    def __init__(self, client: Client, agent: Agent) -> None:
        measured = client.told.settings.evaluation
        self._client, self._agent = client, agent
        self._tasks = measured.validation_tasks or measured.tasks
        self.figures: dict[str, Figures] = {}
        """How each did."""
        self.best, self.kept = GLOBAL, agent.whole
        self.see(GLOBAL, agent.whole)

    def see(self, name: str, tensors: Tensors) -> float:
        """Try one more; its success."""
        played = self._client.play_held_out(self._agent, "validation", self._tasks, tensors)
        self.figures[name] = Figures(episodes=len(played.episodes), successes=played.successes)
        self._client.log.info("tried", candidate=name, successes=played.successes)
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


def _mixes(client: Client, agent: Agent) -> Iterator[tuple[str, Tensors]]:
    """The silo's own update and mixes, one at a time: they need not all be in memory."""
    own = _own(client)
    if own:
        yield "own", own
        for share in SHARES:
            yield f"mix-{share}", mix(agent.whole, own, share / 100)


def mix(shared: Tensors, own: Tensors, share: float) -> Tensors:
    """The adapter whose B·A is exactly the mean of both, with so much of the own.

    The factors are stacked, for a mean of A and of B would have products of one's A with the
    other's B in it; the rank is the sum of both.
    """
    mixed: Tensors = {}
    for name, array in shared.items():
        if adapter.side(name) == "A":
            mixed[name] = np.concatenate([array, own[name]], axis=0)
        else:
            parts = [array * np.float32(1 - share), own[name] * np.float32(share)]
            mixed[name] = np.concatenate(parts, axis=1)
    return mixed


def _own(client: Client) -> Tensors | None:
    """The silo's update in the round of the last adapter, whole; nothing where it has none."""
    told, store = client.told, client.exchange
    folder = keys.update_folder(told.storage.prefix, told.environment, told.start.round)
    try:
        update = UpdateManifest.model_validate_json(store.get(folder + keys.MANIFEST))
    except NotFound:
        return None
    if not update.trained:
        return None
    trained = adapter.decode(store.get(folder + keys.ADAPTER))
    return adapter.join(_frozen(client, update.start.round), trained)


def _frozen(client: Client, round_: int) -> Tensors:
    """The frozen part that the update was trained on top of; most strategies have none."""
    if not round_:
        return {}
    folder = keys.global_folder(client.told.storage.prefix, round_)
    manifest = GlobalManifest.model_validate_json(client.exchange.get(folder + keys.MANIFEST))
    if not manifest.frozen_rank:
        return {}
    whole = adapter.decode(client.exchange.get(folder + keys.ADAPTER))
    return adapter.split(whole, client.told.adapter.rank).frozen


def _evolved(client: Client, agent: Agent) -> Iterator[Tensors]:
    """The global adapter after one, two and more rounds that the silo plays alone.

    What each explores and trains is stored before it is tried, so that an attempt after a kill need
    not do it again. It lies apart from the experience: a federation that goes on knows nothing of
    it.
    """
    told = client.told
    # Shards of earlier rounds are asked for who they belong to, not for this Job's settings.
    shared = Shards(client.private, told.model_copy(update={"round": told.round + 1}))
    earlier = [round_ for round_ in shared.rounds() if round_ <= told.round]
    known = [shard for round_ in earlier if (shard := shared.find(round_))]
    own = _shards(client)
    start, whole = agent.start, agent.whole
    for number in range(1, told.start.round + 1):
        alone = copy.copy(client)
        alone.told = told.model_copy(update={"round": told.round + number})
        if told.settings.exploration.tasks_per_round:
            played = own.find(alone.told.round) or alone.play_training(agent, own, whole)
            known.append(played)
        lesson = replace(alone.choose(agent, known), start=start, half="both", optimizer=None)
        if not lesson.sequences:
            return
        try:
            start = _trained(client, agent, lesson, number)
        except Diverged as diverged:  # those before are there, and the global adapter
            client.log.warning("finetuning_ended", trainings=number, message=diverged.message)
            return
        whole = adapter.join(agent.frozen, start)
        yield whole


def _shards(client: Client) -> Shards:
    """What rounds alone have played, beside what they have trained."""
    told = client.told
    place = told.experience_storage or told.storage
    folder = place.model_copy(update={"prefix": _folder(told).rstrip("/")})
    return Shards(client.private, told.model_copy(update={"experience_storage": folder}))


def _trained(client: Client, agent: Agent, lesson: Lesson, number: int) -> Tensors:
    told = client.told
    key = f"{_folder(told)}finetuned-{number:05d}.safetensors"
    try:
        return adapter.decode(client.private.get(key))
    except NotFound:
        seed = seeds.derive(told.seed, told.environment, told.round + number - 1, _PURPOSE)
        again = replace(lesson, seed=seed)
        made = learners.get(lesson.training.learner)(agent.base, again, _progress).tensors
        if not adapter.is_finite(made):
            raise Diverged("a weight is no number after the last step") from None
        return adapter.decode(put_once(client.private, key, adapter.encode(made)))


def _progress(done: int, total: int) -> None:
    program.progress(phase="finetune", done=done, total=total)


def _store(private: ObjectStore, told: Assignment, tensors: Tensors) -> dict[str, FileEntry]:
    """Adapter and config as PEFT loads them, in the private store."""
    data = put_once(private, _folder(told) + keys.ADAPTER, adapter.encode(tensors))
    shapes = adapter.shapes(data)
    rank = next(shape[0] for name, shape in shapes.items() if adapter.side(name) == "A")
    extra = rank - told.adapter.rank
    config = adapter.config(told.adapter, told.model.source, adapter.target_names(shapes), extra)
    config = put_once(private, _folder(told) + keys.CONFIG, config)
    return {
        name: FileEntry(sha256=sha256(content), size=len(content))
        for name, content in ((keys.ADAPTER, data), (keys.CONFIG, config))
    }


def _folder(told: Assignment) -> str:
    place = told.experience_storage or told.storage
    return keys.personal_folder(place.prefix, told.environment, told.start.round)


def _inputs(told: Assignment) -> dict[str, object]:
    mode = told.settings.personalization
    own = {"adapter_sha256": told.start.sha256, "personalization": mode}
    return {**told.evaluation_inputs(), **own}


def _parsed(told: Assignment, data: bytes) -> PersonalManifest:
    try:
        document = PersonalManifest.model_validate_json(data)
    except ValidationError:
        where = _folder(told) + keys.MANIFEST
        raise Corrupt(f"{where}: expected a silo's choice, got something else") from None
    place = told.experience_storage or told.storage
    check_same_run(place.prefix, document.inputs, _inputs(told))
    return document
