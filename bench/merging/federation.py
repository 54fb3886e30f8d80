"""One federation from its first round to its last, in one process and in memory."""

import argparse
import gc
import hashlib
import json
import platform
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import merges
import moments
import torch
from moments import Moments

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import StartAdapter, sha256
from hansa.api.spec import S3, Environment, FederationSpec
from hansa.api.status import RoundSettings
from hansa.api.strategies import FrozenOptions
from hansa.core import logs
from hansa.core.errors import NotFound, Precondition
from hansa.core.files import replace_file
from hansa.store.base import ObjectStore
from hansa_client import round as client
from hansa_client import seeds
from hansa_client.agent import Agent
from hansa_client.experience.shards import Shard
from hansa_client.learners import Trained, TrainingSet
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.round import DemonstrationFiles
from hansa_client.silo import Silo

Split = Literal["validation", "test"]

MOST_READ = 96
"""Trajectories, of those that a silo has trained on, whose tokens its moments are of."""
HOME_TASKS = 50
"""Validation tasks by which a silo chooses what it explores with."""
SENT_RANK = 64
"""Directions for which the size of moments is told."""


class MemoryStore:
    """A silo's private store, as far as its shards need one."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def get(self, key: str) -> bytes:
        if key not in self._objects:
            raise NotFound(key)
        return self._objects[key]

    def size(self, key: str) -> int:
        return len(self.get(key))

    def put_if_absent(self, key: str, data: bytes) -> None:
        if key in self._objects:
            raise Precondition(key)
        self._objects[key] = data

    def list(self, prefix: str) -> Iterator[str]:
        yield from sorted(key for key in self._objects if key.startswith(prefix))


def as_assignment(spec: FederationSpec, environment: Environment, round_: int) -> Assignment:
    """What the client of an environment would be told of a round."""
    private = environment.experience_storage
    return Assignment(
        role="client",
        federation="question",
        seed=spec.seed,
        model=spec.model,
        adapter=spec.adapter,
        round=round_,
        start=StartAdapter(round=round_ - 1),
        settings=RoundSettings.from_spec(spec),
        storage=S3(bucket="memory"),
        experience_storage=private.s3 if private else None,
        environments=sorted(each.name for each in spec.environments),
        environment=environment.name,
        world=environment.world,
        options=environment.options,
        demonstrations=environment.demonstrations,
        demonstrations_from=environment.demonstrations_from or spec.experience.demonstrations_from,
        evaluate=False,
    )


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a silo has made of a round."""

    trained: Trained | None
    """Its adapter; none where there was nothing to learn from."""
    moments: Moments | None
    """Of its inputs, where the merge wants them."""
    facts: dict[str, Any]
    """How it went, for the result."""


class Play:
    """A federation from its first round to its last."""

    def __init__(self, given: argparse.Namespace, spec: FederationSpec, begun: float) -> None:
        self._given, self._spec, self._begun = given, spec, begun
        self._environments = sorted(spec.environments, key=lambda each: each.name)
        self._stores = {each.name: MemoryStore() for each in self._environments}
        self._log = logs.get("question")
        self._seconds: defaultdict[str, float] = defaultdict(float)
        with self._timed("load"):
            self._base = self._load()
            self._shapes = lora.shapes(self._base.model, spec.adapter)
        start = adapter.init_adapter(self._shapes, spec.adapter.rank, spec.seed)
        self._wholes = {each.name: start for each in self._environments}
        self._owns: dict[str, Tensors] = {}
        self._rounds: list[dict[str, Any]] = []
        self._evaluations: list[dict[str, Any]] = []
        self._is_stopped = False

    def run(self) -> None:
        """All rounds, unless the time is over before."""
        rounds = self._spec.rounds
        for round_ in range(1, rounds + 1):
            began = time.monotonic()
            self._play_round(round_)
            spent = time.monotonic() - began
            self._is_stopped = round_ < rounds and self._is_late(spent)
            is_last = round_ == rounds or self._is_stopped
            self._rounds[-1]["seconds"] = round(spent, 3)
            if is_last or round_ % self._spec.evaluation.every_rounds == 0:
                self._evaluate(round_, is_last=is_last)
            self._write()
            if is_last:
                return

    def _load(self) -> Base:
        source, threads = self._spec.model.source, self._spec.training.cpu_threads
        return base_model.load(source, base_model.resolve(source), threads)

    def _is_late(self, round_seconds: float) -> bool:
        """Whether one more round like the last would end too late."""
        limit = self._given.stop_after
        return limit is not None and time.monotonic() - self._begun + round_seconds > limit

    def _silo(self, environment: Environment, round_: int) -> tuple[Silo, Agent]:
        assignment = as_assignment(self._spec, environment, round_)
        store = cast(ObjectStore, self._stores[environment.name])
        agent = Agent(assignment, store)
        agent.base, agent.global_adapter = self._base, self._wholes[environment.name]
        return Silo(assignment, store, store, self._log), agent

    def _play_round(self, round_: int) -> None:
        offers = {each.name: self._offer(each, round_) for each in self._environments}
        fields: dict[str, Any] = {"round": round_}
        with self._timed("merge"):
            if self._given.alone:
                self._go_on_alone(offers)
            else:
                fields |= self._merge(round_, offers)
                first = self._wholes[self._environments[0].name]
                fields["adapterSha256"] = sha256(adapter.encode(first))
        fields["silos"] = {name: offer.facts for name, offer in offers.items()}
        self._rounds.append(fields)

    def _offer(self, environment: Environment, round_: int) -> Offer:
        silo, agent = self._silo(environment, round_)
        with self._timed("explore"):
            files = client.check_world(silo) if round_ == 1 else {}
            _ = agent.start, agent.frozen  # of the shared adapter, which is trained on from
            shared, agent.global_adapter = agent.global_adapter, self._explorer(silo, agent)
            is_own = agent.global_adapter is not shared
            shards = self._shards(silo, agent, files)
            agent.global_adapter = shared
        lesson = self._lesson(silo, agent, shards)
        fields: dict[str, Any] = {
            "explored": len(shards[-1].episodes),
            "successes": sum(episode.success for episode in shards[-1].episodes),
            "kept": len(lesson.sequences),
            "learnedTokens": sum(sum(sequence.is_agent) for sequence in lesson.sequences),
        }
        if self._given.home:
            fields["exploredWithOwn"] = is_own
        if silo.ledger:
            fields["epsilon"] = silo.ledger.epsilon
        if not lesson.sequences and not lesson.private:
            return Offer(trained=None, moments=None, facts=fields)
        with self._timed("train"):
            trained = silo.train(agent, lesson, "train")
            gc.collect()  # recorded steps refer to each other and hold the GPU's memory
        if self._given.home:
            self._owns[environment.name] = adapter.join(agent.frozen, trained.tensors)
        fields["loss"] = round(trained.loss, 5)
        fields["norm"] = round(adapter.distance(trained.tensors, agent.start), 5)
        own = None
        if self._given.merge == "regmean" and not self._given.alone:
            with self._timed("moments"):
                own = self._moments(silo, agent, lesson.sequences, trained)
        return Offer(trained=trained, moments=own, facts=fields)

    def _shards(self, silo: Silo, agent: Agent, files: DemonstrationFiles) -> list[Shard]:
        """What may be learned from; whoever measures what an adapter remembers changes it."""
        return client.explore(silo, agent, files)

    def _lesson(self, silo: Silo, agent: Agent, shards: list[Shard]) -> TrainingSet:
        """As the client chooses it; with privacy it is paid for.

        Here noise is of the seed, so that a run can be repeated. A silo's own is of a key that
        nobody can know.
        """
        if silo.ledger:
            assignment = silo.assignment
            name = silo.ledger.make_entry("training", assignment.round).name
            place = bucket_keys.privacy_secret(assignment.environment, name)
            words = f"{assignment.seed}/{assignment.environment}/{assignment.round}"
            silo.private.put_if_absent(place, hashlib.sha256(words.encode()).digest())
        return client.choose(silo, agent, shards)

    def _explorer(self, silo: Silo, agent: Agent) -> Tensors:
        """What the silo explores with: the shared adapter, or what does better at home."""
        own = self._owns.get(silo.assignment.environment)
        if own is None:
            return agent.global_adapter
        shared, home = (
            silo.play_held_out(agent, "validation", HOME_TASKS, tensors).successes
            for tensors in (agent.global_adapter, own)
        )
        return own if home > shared else agent.global_adapter

    def _moments(self, silo: Silo, agent: Agent, sequences: Sequence[Any], own: Trained) -> Moments:
        """Of a sample of what the silo has trained on, by the model that came of it."""
        assignment = silo.assignment
        seed = seeds.derive(assignment.seed, assignment.environment, assignment.round, "moments")
        count = min(MOST_READ, len(sequences))
        chosen = sorted(random.Random(seed).sample(range(len(sequences)), count))
        modules = adapter.target_names(self._shapes)
        with agent.merge_adapter(adapter.join(agent.frozen, own.tensors)) as base:
            made = moments.collect(base, modules, [sequences[index] for index in chosen]).damped()
        if self._given.trace:
            made = made.of_trace_one()
        rank = self._given.moments_rank
        return made.cut(rank) if rank else made

    # -- merging ----------------------------------------------------------------------------------

    def _go_on_alone(self, offers: dict[str, Offer]) -> None:
        for name, offer in offers.items():
            if offer.trained:
                self._wholes[name] = offer.trained.tensors

    def _merge(self, round_: int, offers: dict[str, Offer]) -> dict[str, Any]:
        """The next adapter for all silos; what there is to tell of it."""
        updates = [offer.trained.tensors for offer in offers.values() if offer.trained]
        if not updates:
            return {}
        whole = next(iter(self._wholes.values()))
        if self._given.merge == "regmean":
            made, facts = self._fold(round_, whole, updates, offers)
        else:
            step = merges.adaptive_step(whole, updates)
            facts = {"adaptiveStep": step}
            step = min(step, self._given.most_step or step)
            step = step if self._given.merge == "auto" else 1.0
            made = merges.stepped(whole, updates, step)
            facts["step"] = step
        self._wholes = dict.fromkeys(self._wholes, made)
        return facts

    def _fold(
        self, round_: int, whole: Tensors, updates: list[Tensors], offers: dict[str, Offer]
    ) -> tuple[Tensors, dict[str, Any]]:
        rank, seed = self._spec.adapter.rank, self._spec.seed
        own = [offer.moments for offer in offers.values() if offer.moments]
        before = adapter.split(whole, rank).frozen
        folded = merges.regmean(before, updates, own, FrozenOptions().max_rank)
        fresh = adapter.init_adapter(self._shapes, rank, seed, round_)
        sent = {"momentsBytes": own[0].bytes_at(SENT_RANK), "momentsBytesRank": SENT_RANK}
        update = {"updateBytes": len(adapter.encode(updates[0]))}
        return adapter.join(folded.frozen, fresh), {"lost": folded.lost, **sent, **update}

    # -- measuring --------------------------------------------------------------------------------

    def _evaluate(self, round_: int, *, is_last: bool) -> None:
        own = self._spec.evaluation.temperature
        for split in self._given.split:
            is_greedy = is_last and not self._given.sampled_only
            for temperature in dict.fromkeys((own, 0.0) if is_greedy else (own,)):
                with self._timed("evaluate"):
                    self._evaluations.append(self._measured(round_, split, temperature))
                self._write()

    def _measured(self, round_: int, split: Split, temperature: float) -> dict[str, Any]:
        success: dict[str, float] = {}
        for environment in self._environments:
            silo, agent = self._silo(environment, round_ + 1)
            settings = silo.assignment.settings
            how = settings.evaluation.model_copy(update={"temperature": temperature})
            settings = settings.model_copy(update={"evaluation": how})
            silo.assignment = silo.assignment.model_copy(update={"settings": settings})
            played = silo.play_held_out(agent, split)
            success[environment.name] = played.successes / len(played.episodes)
        return {
            "round": round_,
            "split": split,
            "temperature": temperature,
            "tasks": self._spec.evaluation.tasks,
            "success": success,
            "macro": sum(success.values()) / len(success),
        }

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._seconds[phase] += time.monotonic() - began

    def document(self) -> dict[str, Any]:
        """The result so far."""
        given = {name: _plain(value) for name, value in vars(self._given).items()}
        has_gpu = torch.cuda.is_available()
        return {
            "merge": "alone" if self._given.alone else self._given.merge,
            "seed": self._spec.seed,
            "flags": given,
            "spec": self._spec.to_json(),
            "device": torch.cuda.get_device_name() if has_gpu else platform.machine(),
            "torch": torch.__version__,
            "evaluations": self._evaluations,
            "rounds": self._rounds,
            "seconds": {phase: round(spent, 3) for phase, spent in self._seconds.items()},
            "wallSeconds": round(time.monotonic() - self._begun, 3),
            "peakGpuBytes": torch.cuda.max_memory_allocated() if has_gpu else 0,
            "stopped": self._is_stopped,
        }

    def _write(self) -> None:
        """The result so far, in place of the one before."""
        text = json.dumps(self.document(), indent=1, ensure_ascii=False)
        replace_file(self._given.out, text.encode() + b"\n")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
