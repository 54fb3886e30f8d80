"""Figures: what a round says about the policy, in numbers that may leave the silo."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hansa.api import task_kinds
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts, Learning
from hansa_client import trajectory
from hansa_client.evaluation import tally, tally_by_task
from hansa_client.experience.shards import Shard
from hansa_client.rollout import mixed_silo
from hansa_client.rollout.tasks import choose_training_jobs, explain_world_errors, make_world
from hansa_client.trajectory import Episode

if TYPE_CHECKING:
    from hansa_client.agent import Agent
    from hansa_client.learners import TrainingSet

MOST_EPISODES = 16
"""Episodes whose entropy is measured: enough for a curve, and little of a round's time."""


def summarize_learning(
    assignment: Assignment, shards: Sequence[Shard], agent: "Agent", skipped: int
) -> Learning:
    """What leaves the silo of a round, beside its counts."""
    own = next(shard for shard in shards if shard.header.round == assignment.round)
    return Learning(
        solved=len({e.task for s in shards for e in s.episodes if e.success and e.round}),
        groups=tally_by_kind(own.episodes, name_kinds(assignment)) if own.episodes else {},
        pass_at=compute_pass_at(tally_by_task(own.episodes)),
        entropy=_measure_entropy(assignment, own.episodes, agent),
        skipped=skipped,
    )


def count_round(shards: list[Shard], lesson: "TrainingSet", round_: int) -> Counts:
    """What the round did; the steps follow from the training set, whichever attempt trained it."""
    own = next(shard for shard in shards if shard.header.round == round_)
    steps = lesson.plan_steps()
    return Counts(
        explored=len(own.episodes),
        succeeded=sum(episode.success for episode in own.episodes),
        experience=sum(len(shard.episodes) for shard in shards),
        kept=sum(not sequence.continues for sequence in lesson.sequences),
        steps=len(steps),
        tokens=sum(len(lesson.sequences[index]) for step in steps for index in step),
        generated=own.header.generated,
        broken=own.header.broken,
    )


def count_public(shards: Sequence[Shard], round_: int, steps: int) -> Counts:
    """What may leave the silo with privacy: what was planned, and nothing of the outcome."""
    own = next(shard for shard in shards if shard.header.round == round_).header
    return Counts(explored=own.episodes + own.broken, steps=steps)


def tally_by_kind(episodes: Sequence[Episode], kind_of: Mapping[str, str]) -> dict[str, list[int]]:
    """Successes and episodes by kind of task; empty where all are of one kind."""
    return dict(sorted(tally(episodes, lambda each: kind_of.get(each.task, "")).items()))


def name_kinds(assignment: Assignment) -> dict[str, str]:
    """The public name of each task's kind, for the tasks of the round."""
    with explain_world_errors(assignment):
        world = make_world(assignment)
        names = task_kinds.public_names(world.groups(), len(world.tasks("train")))
        jobs = mixed_silo.choose_jobs(assignment, "train", choose_training_jobs)
        return {job.task.id: names.get(world.group(job.task), "") for job in jobs}


def compute_pass_at(tasks: Mapping[str, Sequence[int]]) -> dict[str, float]:
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


def _measure_entropy(
    assignment: Assignment, episodes: Sequence[Episode], agent: "Agent"
) -> float | None:
    """The policy's mean entropy at the agent's tokens of some episodes, evenly spread."""
    if not episodes:
        return None
    from hansa_client.training.scoring import measure_entropy

    chosen = episodes[:: math.ceil(len(episodes) / MOST_EPISODES)]
    longest = agent.base.cap_length(assignment.settings.training.max_length)
    sequences = [chat for each in chosen for chat in trajectory.render_all(each, longest)]
    with agent.merge_adapter() as base:
        nats = measure_entropy(base, [sequence for sequence in sequences if len(sequence)])
    # Canonical JSON has no NaN: an adapter with NaN logits must not end the round with a traceback.
    return nats if nats is not None and math.isfinite(nats) else None
