"""Figures: what a round's exploration says about the policy, in figures that may leave the silo."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hansa.api import task_kinds
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts, Learning
from hansa_client import trajectory
from hansa_client.evaluation import by_task
from hansa_client.experience.shards import Shard
from hansa_client.rollout import mixed_silo
from hansa_client.rollout.tasks import explained, explore_jobs, make_world
from hansa_client.training import batches
from hansa_client.trajectory import Episode

if TYPE_CHECKING:
    from hansa_client.agent import Agent
    from hansa_client.learners import TrainingSet

MOST_EPISODES = 16
"""Episodes whose entropy is looked at: enough for a curve, and little of a round's time."""


def of(assignment: Assignment, shards: Sequence[Shard], agent: Agent, skipped: int) -> Learning:
    """What leaves the silo of a round, beside its counts."""
    own = next(shard for shard in shards if shard.header.round == assignment.round)
    return Learning(
        solved=len({e.task for s in shards for e in s.episodes if e.success and e.round}),
        groups=groups(own.episodes, kinds_of(assignment)) if own.episodes else {},
        pass_at=pass_at(by_task(own.episodes)),
        entropy=_entropy(assignment, own.episodes, agent),
        skipped=skipped,
    )


def count(shards: list[Shard], lesson: TrainingSet, round_: int) -> Counts:
    """What the round did; the steps follow from the lesson, trained by this attempt or not."""
    own = next(shard for shard in shards if shard.header.round == round_)
    steps = lesson.steps()
    return Counts(
        explored=len(own.episodes),
        succeeded=sum(episode.success for episode in own.episodes),
        experience=sum(len(shard.episodes) for shard in shards),
        kept=sum(not sequence.continues for sequence in lesson.sequences),
        steps=len(steps),
        tokens=batches.tokens(steps, [len(sequence) for sequence in lesson.sequences]),
        generated=own.header.generated,
        broken=own.header.broken,
    )


def public(shards: Sequence[Shard], round_: int, steps: int) -> Counts:
    """What may be told of a round with privacy: what was asked for, whatever came of it."""
    own = next(shard for shard in shards if shard.header.round == round_).header
    return Counts(explored=own.episodes + own.broken, steps=steps)


def groups(episodes: Sequence[Episode], kind_of: Mapping[str, str]) -> dict[str, list[int]]:
    """Successes and episodes by kind of task; nothing where all are of one kind."""
    by_kind: dict[str, list[int]] = {}
    for episode in episodes:
        if kind := kind_of.get(episode.task, ""):
            tally = by_kind.setdefault(kind, [0, 0])
            tally[0] += episode.success
            tally[1] += 1
    return dict(sorted(by_kind.items()))


def kinds_of(assignment: Assignment) -> dict[str, str]:
    """The kind of each task of the round, as it may be told."""
    with explained(assignment):
        world = make_world(assignment)
        names = task_kinds.public_names(world.groups(), len(world.tasks("train")))
        jobs = mixed_silo.jobs(assignment, "train", explore_jobs)
        return {job.task.id: names.get(world.group(job.task), "") for job in jobs}


def pass_at(tasks: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Chance that one of k episodes of a task succeeds, for k = 1, 2, 4, ..., without bias.

    Of n episodes c succeeded: how often do k of the n hold one of the c, as a mean over tasks.
    Those with fewer than k episodes, some of which broke perhaps, do not count for that k.
    """
    most = max((played for _, played in tasks.values()), default=0)
    if most < 2:
        return {}
    rates: dict[str, float] = {}
    for k in (2**power for power in range(most.bit_length())):
        probabilities = [
            1 - math.comb(played - won, k) / math.comb(played, k)
            for won, played in tasks.values()
            if played >= k
        ]
        rates[str(k)] = round(sum(probabilities) / len(probabilities), 6)
    return rates


def _entropy(assignment: Assignment, episodes: Sequence[Episode], agent: Agent) -> float | None:
    """The policy's mean entropy at the agent's tokens of some episodes, evenly spread."""
    if not episodes:
        return None
    from hansa_client.training.scoring import entropy

    chosen = episodes[:: math.ceil(len(episodes) / MOST_EPISODES)]
    longest = agent.base.longest(assignment.settings.training.max_length)
    sequences = [chat for each in chosen for chat in trajectory.render_all(each, longest)]
    with agent.playing() as base:
        nats = entropy(base, [sequence for sequence in sequences if len(sequence)])
    # That of an adapter with which no logit is a number would end the round with a traceback.
    return nats if nats is not None and math.isfinite(nats) else None
