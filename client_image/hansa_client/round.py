"""The story of one client's round: evaluate, explore, remember, choose, train, send.

Each step is idempotent. Each object is written once; a restarted client resumes from what is
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
from hansa_client.learners import TrainingSet
from hansa_client.rollout import mixed_silo, tasks
from hansa_client.send import Committed, TrainedUpdate
from hansa_client.silo import Silo
from hansa_client.trajectory import Episode
from hansa_worlds import World

DemonstrationFiles = dict[str, DemonstrationFile | None]
"""Files that were read before the model was loaded, by the part of the silo that they are for."""


def play_round(silo: Silo) -> ClientReport:
    """Commit this round's update, unless an earlier attempt did, and report it."""
    assignment, ledger = silo.assignment, silo.ledger
    masks.check(silo)
    owner = silo.find_owner()
    committed = send.find_committed(silo.exchange, assignment)
    start = find_evaluation(silo) if assignment.evaluate else None
    own = find_own_evaluation(silo, committed)
    is_measured = start is not None or not assignment.evaluate
    if committed and is_measured and (own or not is_own_wanted(silo, committed)):
        silo.log.info("already_committed", round=assignment.round)
        return make_report(silo, masks.send_update(silo, committed), start, own)

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
    sent = masks.send_update(silo, committed)
    if not own and is_own_wanted(silo, committed):
        own = evaluate_own(silo, agent, committed)
    return make_report(silo, sent, start, own)


def check_world(silo: Silo) -> DemonstrationFiles:
    """Refuse, before torch is loaded, what could only fail hours later."""
    program.progress(phase="load", done=0, total=1)
    assignment = silo.assignment
    tasks.make_world(assignment)
    _ = assignment.turn_endpoint
    is_round = assignment.role == "client"
    is_shown = is_round and Shards(silo.private, assignment).has_round(DEMONSTRATIONS)
    measured = assignment.settings.evaluation
    if assignment.evaluate:
        probes.check(assignment)
    files: DemonstrationFiles = {}
    for part in mixed_silo.split_parts(assignment):
        world = tasks.make_world(part)
        if part.evaluate or measured.own_update:
            tasks.require_tasks(part, world, "test")
        chooses = measured.validation_tasks or personalize.is_wanted(part)
        if part.evaluate and chooses:
            tasks.require_tasks(part, world, "validation")
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
        tasks.require_tasks(part, world, "train")
    return file


# -- evaluate -------------------------------------------------------------------------------------


def find_evaluation(silo: Silo) -> EvaluationDocument | None:
    """The start adapter's evaluation, if it was measured already."""
    subject = evaluations.make_subject(silo.assignment)
    return evaluations.find(silo.exchange, silo.private, silo.assignment, subject)


def evaluate(silo: Silo, agent: Agent) -> EvaluationDocument:
    """Play test tasks with the start adapter, and validation tasks that choose the best one."""
    played = silo.play_held_out(agent, "test")
    greedy = silo.play_greedily(agent)
    validation = None
    noisy = silo.ledger.make_noisy_counts() if silo.ledger else None
    wanted = silo.assignment.settings.evaluation.validation_tasks
    if wanted:
        chosen = silo.play_held_out(agent, "validation", wanted)
        validation = Figures(episodes=len(chosen.episodes), successes=chosen.successes)
        if noisy:
            planned = len(chosen.episodes) + len(chosen.broken)
            validation = noisy.add_noise("validation", chosen.successes, planned)
    probed = probes.play(silo, agent)
    seconds = silo.watch.lap("evaluate")
    counts = {"episodes": len(played.episodes), "successes": played.successes}
    silo.log_event("evaluated", {**counts, "seconds": seconds}, adapter=silo.assignment.start.round)
    return evaluations.commit(
        silo.exchange,
        silo.private,
        silo.assignment,
        evaluations.make_subject(silo.assignment),
        played.episodes,
        seconds,
        broken=len(played.broken),
        greedy=greedy,
        validation=validation,
        probed=probed,
        noisy=noisy,
    )


def is_own_wanted(silo: Silo, committed: Committed) -> bool:
    """Whether the update is to be measured before it is merged; an empty one cannot be."""
    return silo.assignment.settings.evaluation.own_update and committed.manifest.trained


def find_own_evaluation(silo: Silo, committed: Committed | None) -> EvaluationDocument | None:
    """The update's own evaluation, if that is wanted and was measured already."""
    if not committed or not is_own_wanted(silo, committed):
        return None
    subject = evaluations.make_subject(silo.assignment, committed.adapter)
    return evaluations.find(silo.exchange, silo.private, silo.assignment, subject)


def evaluate_own(silo: Silo, agent: Agent, committed: Committed) -> EvaluationDocument:
    """Play the same held-out tasks with the update, before it is merged."""
    assignment = silo.assignment
    silo.watch.lap("send")
    key = send.update_folder(assignment) + bucket_keys.ADAPTER
    whole = lora.join(agent.frozen, lora.decode(silo.exchange.get(key)))
    played = silo.play_held_out(agent, "test", tensors=whole, phase="own")
    seconds = silo.watch.lap("own")
    silo.log.info(
        "evaluated_own", episodes=len(played.episodes), successes=played.successes, seconds=seconds
    )
    return evaluations.commit(
        silo.exchange,
        silo.private,
        assignment,
        evaluations.make_subject(assignment, committed.adapter),
        played.episodes,
        seconds,
        broken=len(played.broken),
    )


# -- explore and remember -------------------------------------------------------------------------


def explore(silo: Silo, agent: Agent, files: DemonstrationFiles) -> list[Shard]:
    """All shards to train on; demonstrations and this round's episodes are played if absent."""
    round_ = silo.assignment.round
    shards = Shards(silo.private, silo.assignment)
    shown = shards.find(DEMONSTRATIONS) or collect_demonstrations(silo, agent, shards, files)
    explored = shards.find(round_) or silo.play_training(agent, shards, round_)
    is_history_wanted = silo.assignment.settings.experience.history
    rounds = shards.list_rounds() if is_history_wanted else []
    earlier = [shards.find(past) for past in rounds if DEMONSTRATIONS < past < round_]
    silo.watch.lap("explore")
    return [shown, *(shard for shard in earlier if shard), explored]


def collect_demonstrations(
    silo: Silo, agent: Agent, shards: Shards, files: DemonstrationFiles
) -> Shard:
    """Write shard 0: the demonstrations of experts or files, part by part."""
    episodes: list[Episode] = []
    inputs: dict[str, str] = {}
    broken = 0
    for part in mixed_silo.split_parts(silo.assignment):
        file = files.get(part.environment)
        shown = demonstrations.collect(part, file, agent.base.chat)
        count, wanted = len(shown.episodes), part.demonstrations_wanted
        silo.log_event("demonstrated", {"episodes": count}, wanted=wanted, file=bool(file))
        silo.log_faults("demonstrate", shown)
        episodes += mixed_silo.prefix_tasks(silo.assignment, part, shown.episodes)
        broken += len(shown.broken)
        inputs = file.to_inputs() if file else inputs
    return shards.write(DEMONSTRATIONS, episodes, broken=broken, more_inputs=inputs)


# -- choose, train and send -----------------------------------------------------------------------


def choose(silo: Silo, agent: Agent, shards: list[Shard]) -> TrainingSet:
    """The training set, with the factor that the aggregation strategy trains in this round.

    With privacy, the release is entered into the ledger here.
    """
    assignment = silo.assignment
    lesson = replace(
        silo.make_training_set(agent, shards, assignment.round),
        half=assignment.settings.aggregation.half(assignment.round),
        optimizer=optimizer_state.find(silo.private, assignment),
    )
    if not silo.ledger:
        return lesson
    digests = [shard.sha256 for shard in shards]
    stream, _ = silo.ledger.pay("training", assignment.round, *digests)
    return replace(lesson, private=silo.make_protection(lesson, stream))


def train_and_send(silo: Silo, agent: Agent, shards: list[Shard], lesson: TrainingSet) -> Committed:
    """Train unless an earlier attempt did, then commit what is stored."""
    assignment = silo.assignment
    if lesson.private:
        counts = figures.count_public(shards, assignment.round, lesson.private.steps)
        learning = Learning()
    else:
        counts = figures.count_round(shards, lesson, assignment.round)
        learning = figures.summarize_learning(assignment, shards, agent, lesson.skipped)
    seconds = {} if lesson.private else silo.watch.seconds
    if not lesson.sequences and not lesson.private:
        silo.log.info("nothing_to_learn", explored=counts.explored, skipped=lesson.skipped)
        empty = TrainedUpdate(
            base_model=agent.base_model, counts=counts, learning=learning, seconds=seconds
        )
        return send.commit(silo.exchange, assignment, empty)
    stored, loss = send.find_adapter(silo.exchange, assignment), 0.0
    if not stored:
        trained = silo.train(agent, lesson, "train")
        optimizer_state.store(silo.private, assignment, trained.optimizer)  # before the adapter
        stored = send.store_adapter(silo.exchange, assignment, trained.tensors)
        loss = trained.loss
        learning = learning.model_copy(update={"micro_batch_tokens": trained.micro_batch_tokens})
    own = lora.decode(stored)
    files = {bucket_keys.ADAPTER: stored}
    if assignment.settings.aggregation.needs_moments:
        make = partial(silo.collect_moments, agent, lesson, own)
        files[bucket_keys.MOMENTS] = send.store_moments(silo.exchange, assignment, make)
    silo.watch.lap("train")
    files[bucket_keys.CONFIG] = send.store_config(silo.exchange, assignment, stored)
    norm = lora.distance(own, agent.start)
    silo.watch.lap("send")
    update = TrainedUpdate(
        base_model=agent.base_model,
        files=send.describe_files(files),
        counts=counts,
        learning=learning,
        norm=norm,
        loss=loss,
        seconds=seconds,
        device=agent.base.device.type,
        privacy=silo.ledger.make_statement() if silo.ledger else None,
    )
    silo.log_event("sending", {"loss": loss, "kept": counts.kept}, norm=norm, steps=counts.steps)
    return send.commit(silo.exchange, assignment, update)


def make_report(
    silo: Silo,
    committed: Committed,
    start: EvaluationDocument | None,
    own: EvaluationDocument | None = None,
) -> ClientReport:
    """What the executor reads, from what is committed.

    A client that only masked its update again reports the seconds of that.
    """
    assignment, document = silo.assignment, committed.manifest
    epoch = assignment.masking.epoch if assignment.masking else None
    seconds = document.seconds
    if epoch:
        seconds = {} if silo.is_private else silo.watch.seconds
    return ClientReport(
        environment=assignment.environments.index(assignment.environment),
        round=assignment.round,
        epoch=epoch,
        trained=document.trained,
        manifest=committed.sha256,
        adapter=committed.adapter,
        counts=document.counts,
        evaluation=evaluations.make_report(start) if start else None,
        own=evaluations.count_successes(own) if own else None,
        solved=document.learning.solved,
        kinds=task_kinds.rates(document.learning.groups),
        entropy=document.learning.entropy,
        epsilon=document.privacy.epsilon if document.privacy else None,
        norm=document.norm,
        bytes=sum(entry.size for entry in document.files.values()),
        seconds=seconds,
    )
