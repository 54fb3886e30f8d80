"""The story of one client's round: evaluate, explore, remember, choose, train, send.

Safe to repeat at every step. Each object is written once; a restarted client goes on with what it
finds: its shard instead of exploring again, its adapter instead of training again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import ValidationError

from hansa import adapter, keys, manifest, program
from hansa.assignment import Assignment, ClientReport, EvaluateReport
from hansa.errors import Corrupt, Diverged, NotFound
from hansa.logs import Log
from hansa.manifest import EvaluationDocument, FederationDocument, Figures
from hansa.store.base import ObjectStore
from hansa_client import (
    demonstrations,
    evaluate,
    explore,
    faults,
    insight,
    learners,
    momentum,
    parts,
    personal,
    rollout,
    seeds,
    send,
    vllm_engine,
)
from hansa_client.agent import Agent
from hansa_client.demonstrations import DEMONSTRATIONS
from hansa_client.experience import Shard, Shards
from hansa_client.learners import Lesson, Trained
from hansa_client.send import Committed, Update
from hansa_client.trajectory import Episode
from hansa_client.worlds import Task, World

Clock = Callable[[], float]


class Client:
    """One assignment, the stores it reaches, and what it has done so far."""

    def __init__(
        self,
        assignment: Assignment,
        exchange: ObjectStore,
        private: ObjectStore,
        log: Log,
        clock: Clock = time.monotonic,
    ) -> None:
        self.told = assignment
        self.exchange = exchange
        self.private = private
        self.log = log
        self._clock = clock
        self._since = clock()
        self._files: dict[str, demonstrations.File | None] = {}
        self.seconds: dict[str, float] = {}
        """Phases that are over."""

    def play_round(self) -> ClientReport:
        """Offer this round's update, or find it offered already, and report it."""
        owner = self.check_owner()
        committed = send.find_committed(self.exchange, self.told)
        evaluation = self._find_evaluation() if self.told.evaluate else None
        own = self._find_own(committed)
        is_measured = evaluation is not None or not self.told.evaluate
        if committed and is_measured and (own or not self._owes_own(committed)):
            self.log.info("already_committed", round=self.told.round)
            return self.report(committed, evaluation, own)

        agent = self.load(owner)
        if not is_measured:
            evaluation = self.evaluate(agent)
        if not committed:
            shards = self.explore(agent)
            lesson = self.choose(agent, shards)
            committed = self.train_and_send(agent, shards, lesson)
        if not own and self._owes_own(committed):
            own = self.evaluate_own(agent, committed)
        return self.report(committed, evaluation, own)

    def _find_evaluation(self) -> EvaluationDocument | None:
        return evaluate.find(self.exchange, self.told, evaluate.of_start(self.told))

    def _owes_own(self, committed: Committed) -> bool:
        """Whether the update is to be measured before it is merged; an empty one cannot be."""
        return self.told.settings.evaluation.own_update and committed.manifest.trained

    def _find_own(self, committed: Committed | None) -> EvaluationDocument | None:
        if not committed or not self._owes_own(committed):
            return None
        subject = evaluate.of_own(self.told, committed.adapter)
        return evaluate.find(self.exchange, self.told, subject)

    def evaluate_only(self) -> EvaluateReport:
        """Measure the start adapter, or find it measured already, and report it."""
        owner = self.check_owner()
        evaluation = self._find_evaluation()
        served = personal.find(self.private, self.told)
        owes = personal.is_wanted(self.told) and not served
        if not evaluation or owes:
            agent = self.load(owner)
            evaluation = evaluation or self.evaluate(agent)
            served = personal.choose(self, agent, evaluation) if owes else served
        return EvaluateReport(
            environment=self.told.environments.index(self.told.environment),
            evaluation=evaluate.report(evaluation),
            personal=served.figures() if served else None,
            serves=served.choice if served else "",
            seconds=self.seconds,
        )

    def check_owner(self) -> FederationDocument | None:
        """Who owns the prefix, which must be this run; nobody before the first aggregation."""
        prefix = self.told.storage.prefix
        key = keys.federation(prefix)
        try:
            owner = FederationDocument.model_validate_json(self.exchange.get(key))
        except NotFound:
            return None
        except ValidationError:
            raise Corrupt(f"{key}: expected the owner of the prefix, got something else") from None
        manifest.check_same_run(prefix, owner.identity, self.told.identity())
        return owner

    def load(self, owner: FederationDocument | None) -> Agent:
        """The agent, with the same base model as the others have."""
        program.progress(phase="load", done=0, total=1)
        self.check_world()
        agent = Agent(self.told, self.exchange)
        if owner and owner.base_model != agent.base_model:
            theirs, ours = {"model.sha256": owner.base_model}, {"model.sha256": agent.base_model}
            manifest.check_same_run(self.told.storage.prefix, theirs, ours)
        self.log.info("loading", model=self.told.model.source, start=self.told.start.round)
        _ = agent.base, agent.start
        self.lap("load")
        return agent

    def check_world(self) -> None:
        """Refuse, before torch is loaded, what could only fail hours later."""
        vllm_engine.check(self.told.settings.exploration.engine)
        explore.make_world(self.told)
        plays = self.told.role == "client"
        shown = plays and Shards(self.private, self.told).has(DEMONSTRATIONS)
        measured = self.told.settings.evaluation
        for part in parts.of(self.told):
            world = explore.make_world(part)
            if part.evaluate or measured.own_update:
                explore.tasks(part, world, "test")
            chooses = measured.validation_tasks or personal.is_wanted(part)
            if part.evaluate and chooses:
                explore.tasks(part, world, "validation")
            if plays:
                self._check_part(part, world, shown=shown)

    def _check_part(self, part: Assignment, world: World, *, shown: bool) -> None:
        settings, file = part.settings, None
        if not shown:
            demonstrations.check_expert(part, world)
            file = self._files[part.environment] = demonstrations.read(part, self.private)
        is_shown_by_expert = part.demonstrations_wanted and not (shown or file)
        if settings.exploration.tasks_per_round or is_shown_by_expert:
            explore.tasks(part, world, "train")

    def evaluate(self, agent: Agent) -> EvaluationDocument:
        """Play held-out tasks with the start adapter, and others by which the best is chosen."""
        played = self.play_held_out(agent, "test")
        validation = None
        wanted = self.told.settings.evaluation.validation_tasks
        if wanted:
            chosen = self.play_held_out(agent, "validation", wanted)
            validation = Figures(episodes=len(chosen.episodes), successes=chosen.successes)
        seconds = self.lap("evaluate")
        self.log.info(
            "evaluated", episodes=len(played.episodes), successes=played.successes, seconds=seconds
        )
        return evaluate.commit(
            self.exchange,
            self.told,
            evaluate.of_start(self.told),
            played.episodes,
            seconds,
            broken=len(played.broken),
            validation=validation,
        )

    def evaluate_own(self, agent: Agent, committed: Committed) -> EvaluationDocument:
        """Play the same held-out tasks with the update, while it is the environment's alone."""
        self.lap("send")
        key = keys.update_folder(self.told.storage.prefix, self.told.environment, self.told.round)
        own = adapter.decode(self.exchange.get(key + keys.ADAPTER))
        whole = adapter.join(agent.frozen, own)
        played = self.play_held_out(agent, "test", tensors=whole)
        seconds = self.lap("own")
        self.log.info(
            "evaluated_own",
            episodes=len(played.episodes),
            successes=played.successes,
            seconds=seconds,
        )
        subject = evaluate.of_own(self.told, committed.adapter)
        broken = len(played.broken)
        return evaluate.commit(
            self.exchange, self.told, subject, played.episodes, seconds, broken=broken
        )

    def play_held_out(
        self,
        agent: Agent,
        split: Literal["validation", "test"],
        wanted: int | None = None,
        tensors: adapter.Tensors | None = None,
    ) -> rollout.Played:
        """Play held-out tasks with the start adapter, or with the one given."""

        def choose(part: Assignment, tasks: Sequence[Task]) -> list[rollout.Job]:
            return explore.evaluate_jobs(part, tasks, wanted)

        how = self._how(agent, "evaluation")
        played = agent.play(parts.jobs(self.told, split, choose), how, "evaluate", tensors)
        self._tell_broken("evaluate", played.broken)
        return played

    def _how(self, agent: Agent, source: Literal["exploration", "evaluation"]) -> rollout.Play:
        settings = self.told.settings
        explores = source == "exploration"
        return rollout.Play(
            temperature=(settings.exploration if explores else settings.evaluation).temperature,
            max_length=agent.base.longest(settings.training.max_length),
            batch_episodes=settings.exploration.batch_episodes,
            max_new_tokens=settings.exploration.max_new_tokens,
            max_broken=settings.exploration.max_broken_episodes,
            stop=settings.exploration.stop,
            engine=settings.exploration.engine,
            round=self.told.round if explores else self.told.start.round,
            source=source,
        )

    def _tell_broken(self, phase: str, broken: list[faults.Fault]) -> None:
        if broken:
            told = faults.summary(broken)
            self.log.warning("episodes_dropped", phase=phase, broken=len(broken), faults=told)

    def explore(self, agent: Agent) -> list[Shard]:
        """All shards that may be learned from; demonstrations and this round are made if absent."""
        shards = Shards(self.private, self.told)
        shown = shards.find(DEMONSTRATIONS) or self._demonstrate(agent, shards)
        explored = shards.find(self.told.round) or self.play_training(agent, shards)
        earlier = [
            shard
            for round_ in shards.rounds()
            if self.told.settings.experience.history and DEMONSTRATIONS < round_ < self.told.round
            if (shard := shards.find(round_))
        ]
        self.lap("explore")
        return [shown, *earlier, explored]

    def _demonstrate(self, agent: Agent, shards: Shards) -> Shard:
        episodes: list[Episode] = []
        inputs: dict[str, str] = {}
        broken = 0
        for part in parts.of(self.told):
            file = self._files.get(part.environment)
            shown = demonstrations.show(part, file, agent.base.chat)
            count, wanted = len(shown.episodes), part.demonstrations_wanted
            self.log.info("demonstrated", episodes=count, wanted=wanted, file=bool(file))
            self._tell_broken("demonstrate", shown.broken)
            episodes += parts.named(self.told, part, shown.episodes)
            broken += len(shown.broken)
            inputs = file.inputs() if file else inputs
        return shards.write(DEMONSTRATIONS, episodes, broken=broken, more_inputs=inputs)

    def play_training(
        self, agent: Agent, shards: Shards, tensors: adapter.Tensors | None = None
    ) -> Shard:
        """Explore and keep it there, with the start adapter or with the one given."""
        how = self._how(agent, "exploration")
        played = agent.play(self._tasks_to_explore(), how, "explore", tensors)
        self._tell_broken("explore", played.broken)
        self.log.info(
            "explored",
            episodes=len(played.episodes),
            successes=played.successes,
            generated=played.generated,
            engine=played.engine,
        )
        broken, generated = len(played.broken), played.generated
        return shards.write(self.told.round, played.episodes, generated=generated, broken=broken)

    def _tasks_to_explore(self) -> list[rollout.Job]:
        if not self.told.settings.exploration.tasks_per_round:
            return []  # a world that only shows may have no tasks of its own
        return parts.jobs(self.told, "train", explore.explore_jobs)

    def choose(self, agent: Agent, shards: list[Shard]) -> Lesson:
        """What the learner is given: kept trajectories as tokens, in a fixed order."""
        settings = self.told.settings
        choose = learners.chooser(settings.training.learner)
        choice = choose(shards, settings.experience, self.told.round)
        sequences, weights = choice.rendered(agent.base.longest(settings.training.max_length))
        return Lesson(
            sequences=sequences,
            weights=weights,
            together=choice.together,
            skipped=choice.skipped,
            start=agent.start,
            frozen=agent.frozen,
            half=settings.aggregation.half(self.told.round),
            adapter=self.told.adapter,
            training=settings.training,
            seed=seeds.derive(self.told.seed, self.told.environment, self.told.round, "train"),
            optimizer=momentum.find(self.private, self.told),
        )

    def train_and_send(self, agent: Agent, shards: list[Shard], lesson: Lesson) -> Committed:
        """Train unless an earlier attempt did, then commit what is stored."""
        counts = insight.count(shards, lesson, self.told.round)
        learned = insight.of(self.told, shards, agent, lesson.skipped)
        if not lesson.sequences:
            self.log.info("nothing_to_learn", explored=counts.explored, skipped=lesson.skipped)
            empty = Update(
                base_model=agent.base_model, counts=counts, learning=learned, seconds=self.seconds
            )
            return send.commit(self.exchange, self.told, empty)
        stored, loss = send.find_adapter(self.exchange, self.told), 0.0
        if not stored:
            stored, trained = self._train(agent, lesson)
            loss, shrunk = trained.loss, trained.micro_batch_tokens
            learned = learned.model_copy(update={"micro_batch_tokens": shrunk})
        self.lap("train")
        files = send.store_config(self.exchange, self.told, stored)
        norm = adapter.distance(adapter.decode(stored), agent.start)
        self.lap("send")
        update = Update(
            base_model=agent.base_model,
            files=files,
            counts=counts,
            learning=learned,
            norm=norm,
            loss=loss,
            seconds=self.seconds,
        )
        self.log.info("sending", norm=norm, loss=loss, kept=counts.kept, steps=counts.steps)
        return send.commit(self.exchange, self.told, update)

    def _train(self, agent: Agent, lesson: Lesson) -> tuple[bytes, Trained]:
        def progress(done: int, total: int) -> None:
            program.progress(phase="train", done=done, total=total)

        train = learners.get(lesson.training.learner)
        with agent.crew(lesson):
            trained = train(agent.base, lesson, progress)
        if not adapter.is_finite(trained.tensors):
            rate, steps = lesson.training.learning_rate, len(lesson.steps())
            raise Diverged.at(steps, steps, "a weight without a value", rate)
        if trained.micro_batch_tokens:
            self.log.warning("memory_short", micro_batch_tokens=trained.micro_batch_tokens)
        momentum.store(self.private, self.told, trained.optimizer)
        return send.store_adapter(self.exchange, self.told, trained.tensors), trained

    def report(
        self,
        committed: Committed,
        evaluation: EvaluationDocument | None,
        own: EvaluationDocument | None = None,
    ) -> ClientReport:
        """What the operator reads, from what is committed."""
        document = committed.manifest
        return ClientReport(
            environment=self.told.environments.index(self.told.environment),
            round=self.told.round,
            trained=document.trained,
            manifest=committed.sha256,
            adapter=committed.adapter,
            counts=document.counts,
            evaluation=evaluate.report(evaluation) if evaluation else None,
            own=evaluate.figures(own) if own else None,
            solved=document.learning.solved,
            entropy=document.learning.entropy,
            norm=document.norm,
            bytes=sum(entry.size for entry in document.files.values()),
            seconds=document.seconds,
        )

    def lap(self, phase: str) -> float:
        """A phase is over; its seconds."""
        now = self._clock()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now
        return self.seconds[phase]
