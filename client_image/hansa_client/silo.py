"""A silo: its stores, its clock, and the steps that its Jobs are made of."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hansa.adapter import lora
from hansa.adapter.tensor_file import encode
from hansa.api import bucket_documents
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FederationDocument
from hansa.api.spec import ModelSource
from hansa.api.strategies import RegMeanOptions
from hansa.core.errors import Diverged, PermanentError
from hansa.core.logs import Log
from hansa.core.stopwatch import Clock, Stopwatch
from hansa.runtime import program
from hansa.store.base import ObjectStore
from hansa.store.documents import read_owner
from hansa.store.sealed import Opener
from hansa.store.staged import StagedStore
from hansa_client import learners, privacy, seeds
from hansa_client.agent import Agent
from hansa_client.evaluation import tally_by_task
from hansa_client.experience import circles
from hansa_client.experience.shards import Shard, Shards
from hansa_client.learners import Trained, TrainingSet
from hansa_client.privacy import Ledger, Stream
from hansa_client.rollout import faults, mixed_silo, tasks
from hansa_client.rollout.episodes import EpisodeJob, Played, RolloutConfig
from hansa_worlds import Task, World

if TYPE_CHECKING:
    from hansa_client.learners.private import Protection

MOMENTS_OF = 96
"""Trajectories, of those trained on, whose tokens the second moments are computed from."""


@dataclass(eq=False)
class Silo:
    """One assignment, the stores it reaches, and how long its phases took."""

    assignment: Assignment
    exchange: ObjectStore
    private: ObjectStore
    log: Log
    clock: Clock = time.monotonic
    masking_keys: Opener = list
    """Returns the silo's private keys, where its updates are masked."""

    def __post_init__(self) -> None:
        self.watch = Stopwatch(self.clock)
        self._agent: Agent | None = None
        self._host: Silo | None = None

    @cached_property
    def ledger(self) -> Ledger | None:
        """The silo's privacy ledger; None without spec.privacy."""
        return privacy.open_ledger(self.private, self.assignment)

    @property
    def staged(self) -> StagedStore:
        """The exchange of a silo that masks its updates."""
        if not isinstance(self.exchange, StagedStore):
            raise AssertionError("an update is masked, and its exchange stages nothing")
        return self.exchange

    @property
    def is_private(self) -> bool:
        """Whether nothing exact about the episodes may leave the silo."""
        return self.assignment.settings.privacy is not None

    def log_event(self, event: str, exact: Mapping[str, Any], **fields: Any) -> None:
        """Log an event; with privacy its exact fields are left out."""
        self.log.info(event, **fields, **({} if self.is_private else exact))

    def make_alone_silo(self, assignment: Assignment) -> "Silo":
        """This silo with another assignment, and its private store as the exchange."""
        silo = Silo(assignment, self.private, self.private, self.log, self.clock)
        silo._host = self  # shares its base model, which is loaded once
        return silo

    def load(self, owner: FederationDocument | None) -> Agent:
        """The agent, with the base model that all silos share; loaded once."""
        if self._agent is None:
            self._agent = self._load_agent(owner)
        return self._agent

    def _load_agent(self, owner: FederationDocument | None) -> Agent:
        assignment = self.assignment
        twin = self._host.load(self._host.find_owner()) if self._host else None
        agent = Agent(assignment, self.exchange, twin)
        _check_files(agent, assignment.model)
        if owner and owner.base_model != agent.base_model:
            theirs, ours = {"model.sha256": owner.base_model}, {"model.sha256": agent.base_model}
            bucket_documents.check_same_run(assignment.place, theirs, ours)
        self.log.info("loading", model=assignment.model.source, start=assignment.start.round)
        _check_shapes(agent, assignment)
        _ = agent.base, agent.start
        self.watch.lap("load")
        return agent

    def find_owner(self) -> FederationDocument | None:
        """The document of the run that owns the exchange's prefix, which must be this one."""
        return read_owner(self.exchange, self.assignment)

    def play_held_out(
        self,
        agent: Agent,
        split: Literal["validation", "test"],
        wanted: int | None = None,
        tensors: lora.Tensors | None = None,
        phase: str = "evaluate",
        *,
        greedy: bool = False,
    ) -> Played:
        """Play held-out tasks with the start adapter, or with the one given.

        `greedy`: each of them once, since all would be the same, with the likeliest tokens.
        """
        assignment, samples = self.assignment, 1 if greedy else None

        def choose(part: Assignment, held_out: Sequence[Task]) -> list[EpisodeJob]:
            return tasks.choose_evaluation_jobs(part, held_out, wanted, samples)

        jobs = mixed_silo.choose_jobs(assignment, split, choose)
        how = self._make_rollout_config(agent, "evaluation", assignment.start.round)
        if greedy:
            how = replace(how, temperature=0.0)
        played = agent.play(jobs, how, phase, tensors)
        self.log_faults(phase, played)
        return played

    def play_probe(
        self, agent: Agent, jobs: Sequence[EpisodeJob], make_world: Callable[[], World]
    ) -> Played:
        """Play a probe's tasks with the start adapter, as held-out tasks are played."""
        how = self._make_rollout_config(agent, "evaluation", self.assignment.start.round)
        played = agent.play(jobs, how, "evaluate", make_world=make_world)
        self.log_faults("probe", played)
        return played

    def play_greedily(
        self, agent: Agent, tensors: lora.Tensors | None = None
    ) -> dict[str, list[int]]:
        """The test tasks played greedily, where that is asked for: successes and episodes."""
        if not self.assignment.settings.evaluation.greedy:
            return {}
        return tally_by_task(
            self.play_held_out(agent, "test", tensors=tensors, greedy=True).episodes
        )

    def play_training(
        self, agent: Agent, shards: Shards, round_: int, tensors: lora.Tensors | None = None
    ) -> Shard:
        """Explore a round's tasks with the start adapter or another, and keep the episodes."""
        how, jobs = self._make_rollout_config(agent, "exploration", round_), list[EpisodeJob]()
        if self.assignment.settings.exploration.tasks_per_round:
            # A world that only shows may have no tasks of its own.
            assignment = self.assignment.model_copy(update={"round": round_})
            jobs = mixed_silo.choose_jobs(assignment, "train", tasks.choose_training_jobs)
        played = agent.play(jobs, how, "explore", tensors)
        self.log_faults("explore", played)
        broken, generated = len(played.broken), played.generated
        exact = {"episodes": len(played.episodes), "successes": played.successes}
        self.log_event("explored", {**exact, "generated": generated}, engine=played.engine)
        return shards.write(round_, played.episodes, generated=generated, broken=broken)

    def _make_rollout_config(
        self, agent: Agent, source: Literal["exploration", "evaluation"], round_: int
    ) -> RolloutConfig:
        settings = self.assignment.settings
        sampled = settings.exploration if source == "exploration" else settings.evaluation
        return RolloutConfig(
            temperature=sampled.temperature,
            max_length=agent.base.cap_length(settings.training.max_length),
            batch_episodes=settings.exploration.batch_episodes,
            max_new_tokens=settings.exploration.max_new_tokens,
            max_broken=1.0 if self.is_private else settings.exploration.max_broken_episodes,
            private=self.is_private,
            stop=settings.exploration.stop,
            round=round_,
            source=source,
        )

    def log_faults(self, phase: str, played: Played) -> None:
        """Log why episodes were dropped, and turns of an endpoint that cannot be trained on.

        With privacy, only the shard's header tells.
        """
        if self.is_private:
            return
        if broken := played.broken:
            self.log.warning(
                "episodes_dropped", phase=phase, broken=len(broken), faults=faults.summarize(broken)
            )
        if played.unreadable:
            self.log.warning("turns_unreadable", phase=phase, turns=played.unreadable)

    def make_training_set(self, agent: Agent, shards: Sequence[Shard], round_: int) -> TrainingSet:
        """The training set of a round: kept trajectories as tokens, in a fixed order."""
        assignment, settings = self.assignment, self.assignment.settings
        if settings.experience.circles == "skip":
            shards = circles.mark_circles(shards, mixed_silo.make_state_check(assignment))
        choose = learners.get_chooser(settings.training.learner, settings.training.options)
        choice = choose(shards, settings.experience, round_)
        longest = agent.base.cap_length(settings.training.max_length)
        sequences, weights, of_tasks = choice.render(longest, first_only=self.is_private)
        return TrainingSet(
            sequences=sequences,
            weights=weights,
            together=choice.together,
            skipped=choice.skipped,
            tasks=of_tasks,
            start=agent.start,
            frozen=agent.frozen,
            adapter=assignment.adapter,
            training=settings.training,
            seed=seeds.derive(assignment.seed, assignment.environment, round_, "train"),
        )

    def make_protection(self, lesson: TrainingSet, stream: Stream) -> "Protection":
        """How a round's training protects each task of the set, or each trajectory."""
        from hansa_client.learners.private import Protection

        settings = self.assignment.settings.privacy
        if settings is None or settings.noise_multiplier is None:
            raise PermanentError("settings.privacy: got nothing, expected a noise multiplier")
        units: dict[str, list[int]] = {}
        for index, task in enumerate(lesson.tasks):
            units.setdefault(task if settings.unit == "task" else str(index), []).append(index)
        return Protection(
            units=list(units.values()),
            rate=settings.sampling_rate,
            steps=lesson.training.max_steps,
            clip=settings.clip_norm,
            noise=settings.noise_multiplier,
            divisor=privacy.compute_divisor(settings, self.assignment),
            stream=stream,
        )

    def collect_moments(self, agent: Agent, lesson: TrainingSet, own: lora.Tensors) -> bytes:
        """Second moments of a sample of the training set, by the trained model."""
        from hansa_client.training import moments

        assignment = self.assignment
        seed = seeds.derive(assignment.seed, assignment.environment, assignment.round, "moments")
        count = min(MOMENTS_OF, len(lesson.sequences))
        chosen = sorted(random.Random(seed).sample(range(len(lesson.sequences)), count))
        rank = assignment.settings.aggregation.read(RegMeanOptions).moments_rank
        with agent.merge_adapter(lora.join(agent.frozen, own)) as base:
            sample = [lesson.sequences[index] for index in chosen]
            return encode(moments.collect(base, lora.target_names(own), sample, rank))

    def train(self, agent: Agent, lesson: TrainingSet, phase: str) -> Trained:
        """A trained adapter with finite weights, by all GPUs of this machine."""

        def progress(done: int, total: int) -> None:
            program.progress(phase=phase, done=done, total=total)

        train = learners.get(lesson.training.learner, lesson.training.options)
        # With privacy one process clips and adds noise.
        with nullcontext() if lesson.private else agent.use_all_gpus(lesson):
            trained = train(agent.base, lesson, progress)
        if not lora.is_finite(trained.tensors):
            rate = lesson.training.learning_rate
            steps = lesson.private.steps if lesson.private else len(lesson.plan_steps())
            raise Diverged.at_step(steps, steps, "a weight without a value", rate)
        if trained.micro_batch_tokens:
            self.log.warning("memory_short", micro_batch_tokens=trained.micro_batch_tokens)
        return trained


def _check_files(agent: Agent, model: ModelSource) -> None:
    """Refuse another base model than the spec names, before anything is played."""
    if model.sha256 and model.sha256 != agent.base_model:
        raise PermanentError(
            f"spec.model.sha256: got {model.sha256}, expected {agent.base_model}, which the files "
            f"of {model.source} have here"
        )


def _check_shapes(agent: Agent, assignment: Assignment) -> None:
    """Refuse to play and train with an adapter of other shapes than the spec names."""
    pinned = assignment.adapter.shapes
    if pinned and (own := lora.shapes_digest(agent.shapes)) != pinned:
        raise PermanentError(
            f"spec.adapter.shapes: got {pinned}, expected {own}, which an adapter on "
            f"{assignment.model.source} has here"
        )
