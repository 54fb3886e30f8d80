"""Personalisation: after the last round a silo chooses what it serves, by tasks of its own.

Averaging silos with different worlds costs each of them some success. So the silo compares the
global adapter with its own last update, with mixes of both, and with the global adapter finetuned
further by the silo alone, on validation tasks that nobody trains on or reports. The global adapter
is always a candidate and wins ties. The choice is kept in the private store and never sent; only
its success on the test tasks is reported.

A finetuning round is a round of the federation without the averaging: explore, remember, train on
all that was kept. It is repeated while it helps, at most as often as the federation had rounds.

Limits: with few validation tasks the choice is uncertain, and the best of several candidates looks
a little better on them than it is.
"""

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
)
from hansa.core.errors import Corrupt, Diverged
from hansa.store.base import get_if_present, put_once
from hansa_client import evaluation as evaluations
from hansa_client import seeds, send
from hansa_client.agent import check_digest
from hansa_client.experience.shards import Shards

if TYPE_CHECKING:
    from hansa.api.assignment import Assignment
    from hansa.store.base import ObjectStore
    from hansa_client.agent import Agent
    from hansa_client.learners import TrainingSet
    from hansa_client.silo import Silo

SHARES = (25, 50, 75)
"""Per cent of the silo's own update in a mix."""
GLOBAL = "global"
"""The candidate that always exists."""
ALONE = "alone"
"""What the silo would have had without the others; a candidate with evaluation.alone."""
PATIENCE = 2
"""Finetuning stops after this many rounds in a row without a better success."""
_PURPOSE = "personal"


def is_wanted(assignment: "Assignment") -> bool:
    """Whether the silo chooses; one that shares nothing has only its own adapter."""
    return assignment.settings.personalization != "none" and not assignment.own_start


def find(private: "ObjectStore", assignment: "Assignment") -> PersonalManifest | None:
    """The choice of an earlier attempt, if there is one."""
    if not is_wanted(assignment):
        return None
    data = get_if_present(private, _folder(assignment) + bucket_keys.MANIFEST)
    return _parse_choice(assignment, data) if data is not None else None


def choose(
    silo: "Silo", agent: "Agent", evaluation: EvaluationDocument, alone: Tensors | None = None
) -> PersonalManifest:
    """Try all candidates on validation tasks, keep the best one, and measure it.

    `alone` is what the silo evolved from the base without the others, where it is known.
    """
    assignment, trial = silo.assignment, Trial(silo, agent)
    mode = assignment.settings.personalization
    if mode in ("interpolate", "best"):
        for name, tensors in _make_mixes(silo, agent):
            trial.try_candidate(name, tensors)
    if mode in ("finetune", "best"):
        try_until_no_better(trial.try_candidate, trial.ratio(GLOBAL), _evolve_alone(silo, agent))
    if alone:
        trial.try_candidate(ALONE, alone)
    subject = evaluations.make_subject(assignment)
    known = evaluations.read_tallies(silo.private, assignment, subject)
    if known and trial.best == GLOBAL:
        tasks, greedy = known.tasks, known.greedy
    else:
        tasks = evaluations.tally_by_task(
            silo.play_held_out(agent, "test", tensors=trial.kept).episodes
        )
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
    return _parse_choice(assignment, data)


class Trial:
    """Candidates on validation tasks: how each did, and the best so far with its tensors."""

    def __init__(self, silo: "Silo", agent: "Agent") -> None:
        measured = silo.assignment.settings.evaluation
        self._silo, self._agent = silo, agent
        self._tasks = measured.validation_tasks or measured.tasks
        self.figures: dict[str, Figures] = {}
        """How each did."""
        self.best, self.kept = GLOBAL, agent.global_adapter
        self.try_candidate(GLOBAL, agent.global_adapter)

    def try_candidate(self, name: str, tensors: Tensors) -> float:
        """Try one more; its success."""
        played = self._silo.play_held_out(self._agent, "validation", self._tasks, tensors)
        self.figures[name] = Figures(episodes=len(played.episodes), successes=played.successes)
        self._silo.log.info("tried", candidate=name, successes=played.successes)
        if self.ratio(name) > self.ratio(self.best):
            self.best, self.kept = name, tensors
        return self.ratio(name)

    def ratio(self, name: str) -> float:
        """Success of a candidate; 0 where all episodes broke."""
        return self.figures[name].ratio or 0.0


def try_until_no_better(
    see: Callable[[str, Tensors], float], best: float, trained: Iterator[Tensors]
) -> None:
    """Try one finetuning round after another, until PATIENCE in a row were no better."""
    since = 0
    for number, tensors in enumerate(trained, start=1):
        success = see(f"finetuned-{number}", tensors)
        best, since = (success, 0) if success > best else (best, since + 1)
        if since == PATIENCE:
            return


def _make_mixes(silo: "Silo", agent: "Agent") -> Iterator[tuple[str, Tensors]]:
    """The silo's own update and its mixes, one at a time to save memory."""
    own = _read_own_update(silo)
    if own:
        yield "own", own
        for share in SHARES:
            yield f"mix-{share}", mix(agent.global_adapter, own, share / 100)


def mix(shared: Tensors, own: Tensors, share: float) -> Tensors:
    """The adapter whose B·A is exactly the weighted mean of both; `share` is the own one's weight.

    The factors are concatenated: averaging A and B would add products of one adapter's A with the
    other's B. The rank is the sum of both.
    """

    def weigh(tensors: Tensors, weight: float) -> Tensors:
        return {
            name: array if lora.side(name) == "A" else array * np.float32(weight)
            for name, array in tensors.items()
        }

    return lora.join(weigh(shared, 1 - share), weigh(own, share))


def _read_own_update(silo: "Silo") -> Tensors | None:
    """The silo's update in the round of the last adapter, whole; nothing where it has none."""
    assignment, store = silo.assignment, silo.exchange
    folder = bucket_keys.update_folder(
        assignment.storage.prefix, assignment.environment, assignment.start.round
    )
    if assignment.own_manifest == "":
        return None  # the silo sent none, so an object there is not its own
    data = get_if_present(store, folder + bucket_keys.MANIFEST)
    if data is None:
        return None
    is_staged = assignment.settings.aggregation.secure is not None  # in the private store
    if assignment.own_manifest and not is_staged:
        check_digest(folder + bucket_keys.MANIFEST, data, assignment.own_manifest)
    update = UpdateManifest.model_validate_json(data)
    if not update.trained:
        return None
    named = update.files.get(bucket_keys.ADAPTER)
    trained = _read_unchanged(store, folder + bucket_keys.ADAPTER, named.sha256 if named else "")
    return lora.join(_read_frozen(silo, update.start), trained)


def _read_unchanged(store: "ObjectStore", key: str, digest: str) -> Tensors:
    """Tensors of the bucket, checked by digest: its owner could replace them."""
    data = store.get(key)
    check_digest(key, data, digest)
    return lora.decode(data)


def _read_frozen(silo: "Silo", start: StartAdapter) -> Tensors:
    """The frozen part that the update was trained on top of; most strategies have none."""
    if not start.round:
        return {}
    folder = bucket_keys.global_folder(silo.assignment.storage.prefix, start.round)
    manifest = GlobalManifest.model_validate_json(silo.exchange.get(folder + bucket_keys.MANIFEST))
    if not manifest.frozen_rank:
        return {}
    whole = _read_unchanged(silo.exchange, folder + bucket_keys.ADAPTER, start.sha256)
    return lora.split(whole, silo.assignment.adapter.rank).frozen


def _evolve_alone(silo: "Silo", agent: "Agent") -> Iterator[Tensors]:
    """The global adapter after one, two and more rounds that the silo plays alone.

    What each explores and trains is stored before it is tried, so that an attempt after a kill does
    not repeat it. It is kept apart from the experience: if the federation is continued, later
    rounds do not train on it.
    """
    assignment = silo.assignment
    # As of the next round, so that shards are checked for their owner, not for this Job's settings.
    shared = Shards(silo.private, assignment.model_copy(update={"round": assignment.round + 1}))
    earlier = [round_ for round_ in shared.list_rounds() if round_ <= assignment.round]
    known = [shard for round_ in earlier if (shard := shared.find(round_))]
    own = _open_shards(silo)
    start, whole = agent.start, agent.global_adapter
    for number in range(1, assignment.start.round + 1):
        round_ = assignment.round + number
        if assignment.settings.exploration.tasks_per_round:
            known.append(own.find(round_) or silo.play_training(agent, own, round_, whole))
        seed = seeds.derive(assignment.seed, assignment.environment, round_ - 1, _PURPOSE)
        lesson = replace(silo.make_training_set(agent, known, round_), start=start, seed=seed)
        if not lesson.sequences:
            return
        try:
            start = _train_once(silo, agent, lesson, number)
        except Diverged as diverged:  # the candidates so far remain
            silo.log.warning("finetuning_ended", trainings=number, message=diverged.message)
            return
        whole = lora.join(agent.frozen, start)
        yield whole


def _open_shards(silo: "Silo") -> Shards:
    """The shards of finetuning rounds, beside the adapters that they trained."""
    assignment = silo.assignment
    place = assignment.private_storage
    folder = place.model_copy(update={"prefix": _folder(assignment).rstrip("/")})
    return Shards(silo.private, assignment.model_copy(update={"experience_storage": folder}))


def _train_once(silo: "Silo", agent: "Agent", lesson: "TrainingSet", number: int) -> Tensors:
    """The adapter of a finetuning round, trained by this attempt or an earlier one."""
    assignment = silo.assignment
    prefix = assignment.private_storage.prefix
    key = bucket_keys.finetuned_adapter(
        prefix, assignment.environment, assignment.start.round, number
    )
    data = get_if_present(silo.private, key)
    if data is None:
        made = silo.train(agent, lesson, "finetune").tensors
        data = put_once(silo.private, key, lora.encode(made))
    return lora.decode(data)


def _store(
    private: "ObjectStore", assignment: "Assignment", tensors: Tensors
) -> dict[str, FileEntry]:
    """Adapter and config as PEFT loads them, in the private store."""
    data = put_once(private, _folder(assignment) + bucket_keys.ADAPTER, lora.encode(tensors))
    shapes = lora.parse_shapes(data, len(data))
    extra = lora.frozen_rank(shapes, assignment.adapter.rank)
    config = lora.render_config(
        assignment.adapter, assignment.model.source, lora.target_names(shapes), extra
    )
    config = put_once(private, _folder(assignment) + bucket_keys.CONFIG, config)
    return send.describe_files({bucket_keys.ADAPTER: data, bucket_keys.CONFIG: config})


def _folder(assignment: "Assignment") -> str:
    place = assignment.private_storage
    return bucket_keys.personal_folder(place.prefix, assignment.environment, assignment.start.round)


def _inputs(assignment: "Assignment") -> dict[str, object]:
    mode = assignment.settings.personalization
    own = {"adapter_sha256": assignment.start.sha256, "personalization": mode}
    more = {"aloneRounds": assignment.alone_rounds} if assignment.alone_rounds else {}
    return {**assignment.evaluation_inputs(), **own, **more}


def _parse_choice(assignment: "Assignment", data: bytes) -> PersonalManifest:
    try:
        document = PersonalManifest.model_validate_json(data)
    except ValidationError:
        where = _folder(assignment) + bucket_keys.MANIFEST
        raise Corrupt(f"{where}: expected a silo's choice, got something else") from None
    check_same_run(assignment.private_place, document.inputs, _inputs(assignment))
    return document
