"""The story of one client's round: evaluate, explore, remember, choose, train, send.

Safe to repeat at every step. Each object is written once; a restarted client goes on with what is
stored: its shard instead of exploring again, its adapter instead of training again.
"""

from dataclasses import replace
from functools import partial

from hansa.adapter import lora
from hansa.api import bucket_keys, task_kinds
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import EvaluationDocument, Figures, Learning
from hansa.runtime import program
from hansa_client import evaluation as evaluations
from hansa_client import figures, masks, personalize, probes, send
from hansa_client.agent import Agent
from hansa_client.experience import demonstrations, optimizer_state
from hansa_client.experience.demonstrations import DemonstrationFile
from hansa_client.experience.shards import DEMONSTRATIONS, Shard, Shards
from hansa_client.learners import Trained, TrainingSet
from hansa_client.rollout import mixed_silo, tasks
from hansa_client.send import Committed, TrainedUpdate
from hansa_client.silo import Silo
from hansa_client.trajectory import Episode
from hansa_worlds import World

DemonstrationFiles = dict[str, DemonstrationFile | None]
"""Files that were read before anything slow was loaded, by the part of the silo they are for."""


def play_round(silo: Silo) -> ClientReport:
    """Offer this round's update, or find it offered already, and report it."""
    assignment, ledger = silo.assignment, silo.ledger
    masks.check(silo)
    owner = silo.owner()
    committed = send.find_committed(silo.exchange, assignment)
    start = find_evaluation(silo) if assignment.evaluate else None
    own = find_own_evaluation(silo, committed)
    is_measured = start is not None or not assignment.evaluate
    if committed and is_measured and (own or not is_own_wanted(silo, committed)):
        silo.log.info("already_committed", round=assignment.round)
        return report(silo, masks.sent(silo, committed), start, own)

    if ledger:
        ledger.check_budget(trains=not committed, evaluates=not is_measured)
    files = check_world(silo)
    agent = silo.load(owner)
    if not is_measured:
        start = evaluate(silo, agent)
    if not committed:
        shards = explore(silo, agent, files)
        lesson = choose(silo, agent, shards)
        committed = train_and_send(silo, agent, shards, lesson)
    sent = masks.sent(silo, committed)
    if not own and is_own_wanted(silo, committed):
        own = evaluate_own(silo, agent, committed)
    return report(silo, sent, start, own)


def check_world(silo: Silo) -> DemonstrationFiles:
    """Refuse, before torch is loaded, what could only fail hours later."""
    program.progress(phase="load", done=0, total=1)
    assignment = silo.assignment
    tasks.make_world(assignment)
    _ = assignment.turns_from
    is_round = assignment.role == "client"
    is_shown = is_round and Shards(silo.private, assignment).has(DEMONSTRATIONS)
    measured = assignment.settings.evaluation
    if assignment.evaluate:
        probes.check(assignment)
    files: DemonstrationFiles = {}
    for part in mixed_silo.parts_of(assignment):
        world = tasks.make_world(part)
        if part.evaluate or measured.own_update:
            tasks.split_tasks(part, world, "test")
        chooses = measured.validation_tasks or personalize.is_wanted(part)
        if part.evaluate and chooses:
            tasks.split_tasks(part, world, "validation")
        if is_round:
            files[part.environment] = _check_training(silo, part, world, is_shown=is_shown)
    return files


def _check_training(
    silo: Silo, part: Assignment, world: World, *, is_shown: bool
) -> DemonstrationFile | None:
    settings, file = part.settings, None
    if not is_shown:
        demonstrations.check_expert(part, world)
        file = demonstrations.read(part, silo.private)
    is_shown_by_expert = part.demonstrations_wanted and not (is_shown or file)
    if settings.exploration.tasks_per_round or is_shown_by_expert:
        tasks.split_tasks(part, world, "train")
    return file


# -- evaluate -------------------------------------------------------------------------------------


def find_evaluation(silo: Silo) -> EvaluationDocument | None:
    """How the start adapter did, when it was measured already."""
    subject = evaluations.of_start(silo.assignment)
    return evaluations.find(silo.exchange, silo.assignment, subject)


def evaluate(silo: Silo, agent: Agent) -> EvaluationDocument:
    """Play held-out tasks with the start adapter, and others by which the best is chosen."""
    played = silo.play_held_out(agent, "test")
    greedy = silo.play_greedily(agent)
    validation = None
    veil = silo.ledger.veil() if silo.ledger else None
    wanted = silo.assignment.settings.evaluation.validation_tasks
    if wanted:
        chosen = silo.play_held_out(agent, "validation", wanted)
        validation = Figures(episodes=len(chosen.episodes), successes=chosen.successes)
        if veil:
            planned = len(chosen.episodes) + len(chosen.broken)
            validation = veil.figures("validation", chosen.successes, planned)
    probed = probes.play(silo, agent)
    seconds = silo.watch.lap("evaluate")
    counts = {"episodes": len(played.episodes), "successes": played.successes}
    silo.tell("evaluated", {**counts, "seconds": seconds}, adapter=silo.assignment.start.round)
    return evaluations.commit(
        evaluations.Stores(silo.exchange, silo.private),
        silo.assignment,
        evaluations.of_start(silo.assignment),
        played.episodes,
        seconds,
        broken=len(played.broken),
        greedy=greedy,
        validation=validation,
        probed=probed,
        veil=veil,
    )


def is_own_wanted(silo: Silo, committed: Committed) -> bool:
    """Whether the update is to be measured before it is merged; an empty one cannot be."""
    return silo.assignment.settings.evaluation.own_update and committed.manifest.trained


def find_own_evaluation(silo: Silo, committed: Committed | None) -> EvaluationDocument | None:
    """How the update did, when that is wanted and was measured already."""
    if not committed or not is_own_wanted(silo, committed):
        return None
    subject = evaluations.of_own(silo.assignment, committed.adapter)
    return evaluations.find(silo.exchange, silo.assignment, subject)


def evaluate_own(silo: Silo, agent: Agent, committed: Committed) -> EvaluationDocument:
    """Play the same held-out tasks with the update, while it is the environment's alone."""
    assignment = silo.assignment
    silo.watch.lap("send")
    folder = bucket_keys.update_folder(
        assignment.storage.prefix, assignment.environment, assignment.round
    )
    own = lora.decode(silo.exchange.get(folder + bucket_keys.ADAPTER))
    whole = lora.join(agent.frozen, own)
    played = silo.play_held_out(agent, "test", tensors=whole, phase="own")
    seconds = silo.watch.lap("own")
    silo.log.info(
        "evaluated_own", episodes=len(played.episodes), successes=played.successes, seconds=seconds
    )
    return evaluations.commit(
        evaluations.Stores(silo.exchange, silo.private),
        assignment,
        evaluations.of_own(assignment, committed.adapter),
        played.episodes,
        seconds,
        broken=len(played.broken),
    )


# -- explore and remember -------------------------------------------------------------------------


def explore(silo: Silo, agent: Agent, files: DemonstrationFiles) -> list[Shard]:
    """All shards that may be learned from; demonstrations and this round are made if absent."""
    round_ = silo.assignment.round
    shards = Shards(silo.private, silo.assignment)
    shown = shards.find(DEMONSTRATIONS) or demonstrate(silo, agent, shards, files)
    explored = shards.find(round_) or silo.play_training(agent, shards, round_)
    all_shards = [shown, *earlier(silo, shards), explored]
    silo.watch.lap("explore")
    return all_shards


def earlier(silo: Silo, shards: Shards) -> list[Shard]:
    """What earlier rounds explored, where that is learned from."""
    if not silo.assignment.settings.experience.history:
        return []
    rounds = [r for r in shards.rounds() if DEMONSTRATIONS < r < silo.assignment.round]
    return [shard for past in rounds if (shard := shards.find(past))]


def demonstrate(silo: Silo, agent: Agent, shards: Shards, files: DemonstrationFiles) -> Shard:
    """Shard 0: what experts or files show, part by part."""
    episodes: list[Episode] = []
    inputs: dict[str, str] = {}
    broken = 0
    for part in mixed_silo.parts_of(silo.assignment):
        file = files.get(part.environment)
        shown = demonstrations.show(part, file, agent.base.chat)
        count, wanted = len(shown.episodes), part.demonstrations_wanted
        silo.tell("demonstrated", {"episodes": count}, wanted=wanted, file=bool(file))
        silo.log_broken("demonstrate", shown.broken)
        episodes += mixed_silo.named(silo.assignment, part, shown.episodes)
        broken += len(shown.broken)
        inputs = file.inputs() if file else inputs
    return shards.write(DEMONSTRATIONS, episodes, broken=broken, more_inputs=inputs)


# -- choose, train and send -----------------------------------------------------------------------


def choose(silo: Silo, agent: Agent, shards: list[Shard]) -> TrainingSet:
    """What the learner is given, as the aggregation wants it trained.

    With privacy, the release is paid for here.
    """
    assignment = silo.assignment
    lesson = replace(
        silo.lesson(agent, shards, assignment.round),
        half=assignment.settings.aggregation.half(assignment.round),
        optimizer=optimizer_state.find(silo.private, assignment),
    )
    if not silo.ledger:
        return lesson
    digests = [shard.sha256 for shard in shards]
    stream, _ = silo.ledger.pay("training", assignment.round, *digests)
    return replace(lesson, private=silo.protection(lesson, stream))


def train_and_send(silo: Silo, agent: Agent, shards: list[Shard], lesson: TrainingSet) -> Committed:
    """Train unless an earlier attempt did, then commit what is stored."""
    assignment = silo.assignment
    if lesson.private:
        counts = figures.public(shards, assignment.round, lesson.private.steps)
        learning = Learning()
    else:
        counts = figures.count(shards, lesson, assignment.round)
        learning = figures.of(assignment, shards, agent, lesson.skipped)
    seconds = {} if lesson.private else silo.watch.seconds
    if not lesson.sequences and not lesson.private:
        silo.log.info("nothing_to_learn", explored=counts.explored, skipped=lesson.skipped)
        empty = TrainedUpdate(
            base_model=agent.base_model, counts=counts, learning=learning, seconds=seconds
        )
        return send.commit(silo.exchange, assignment, empty)
    stored, loss = send.find_adapter(silo.exchange, assignment), 0.0
    if not stored:
        stored, trained = _train(silo, agent, lesson)
        loss, learning = trained.loss, _with_memory(learning, trained)
    own = lora.decode(stored)
    files = {bucket_keys.ADAPTER: stored}
    if assignment.settings.aggregation.needs_moments:
        make = partial(silo.moments, agent, lesson, own)
        files[bucket_keys.MOMENTS] = send.store_moments(silo.exchange, assignment, make)
    silo.watch.lap("train")
    files[bucket_keys.CONFIG] = send.store_config(silo.exchange, assignment, stored)
    norm = lora.distance(own, agent.start)
    silo.watch.lap("send")
    update = TrainedUpdate(
        base_model=agent.base_model,
        files=send.describe(files),
        counts=counts,
        learning=learning,
        norm=norm,
        loss=loss,
        seconds=seconds,
        device=agent.base.device.type,
        privacy=silo.ledger.statement() if silo.ledger else None,
    )
    silo.tell("sending", {"loss": loss, "kept": counts.kept}, norm=norm, steps=counts.steps)
    return send.commit(silo.exchange, assignment, update)


def _train(silo: Silo, agent: Agent, lesson: TrainingSet) -> tuple[bytes, Trained]:
    """The stored adapter; the optimizer's state is stored before it."""
    trained = silo.train(agent, lesson, "train")
    optimizer_state.store(silo.private, silo.assignment, trained.optimizer)
    return send.store_adapter(silo.exchange, silo.assignment, trained.tensors), trained


def _with_memory(learning: Learning, trained: Trained) -> Learning:
    return learning.model_copy(update={"micro_batch_tokens": trained.micro_batch_tokens})


def report(
    silo: Silo,
    committed: Committed,
    start: EvaluationDocument | None,
    own: EvaluationDocument | None = None,
) -> ClientReport:
    """What the executor reads, from what is committed."""
    assignment, document = silo.assignment, committed.manifest
    return ClientReport(
        environment=assignment.environments.index(assignment.environment),
        round=assignment.round,
        epoch=assignment.masking.epoch if assignment.masking else None,
        trained=document.trained,
        manifest=committed.sha256,
        adapter=committed.adapter,
        counts=document.counts,
        evaluation=evaluations.report(start) if start else None,
        own=evaluations.figures(own) if own else None,
        solved=document.learning.solved,
        kinds=task_kinds.rates(document.learning.groups),
        entropy=document.learning.entropy,
        epsilon=document.privacy.epsilon if document.privacy else None,
        norm=document.norm,
        bytes=sum(entry.size for entry in document.files.values()),
        seconds=_seconds(silo, committed),
    )


def _seconds(silo: Silo, committed: Committed) -> dict[str, float]:
    """Those of the round; a client that only masked again tells what that took."""
    masks_ = silo.assignment.masking
    if masks_ and masks_.epoch:
        return {} if silo.is_private else silo.watch.seconds
    return committed.manifest.seconds
