"""Which tasks are played: explored ones anew each round, held-out ones always the same.

All choices follow from seeds, so that an attempt repeats what the one before it did.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hansa.api.assignment import Assignment
from hansa.core.errors import PermanentError, PluginMissing, WorldBroken
from hansa_client import seeds
from hansa_client.rollout.live_episodes import EpisodeJob
from hansa_worlds import Split, Task, World, WorldDown, WorldError, make
from hansa_worlds.errors import WorldMissing


def make_world(assignment: Assignment) -> World:
    """The environment's world, or a permanent error that names the field."""
    with explain_world_errors(assignment):
        return make(assignment.world, assignment.options)


def require_tasks(assignment: Assignment, world: World, split: Split) -> Sequence[Task]:
    """The tasks of a split, or a permanent error where there are none: nothing could be played."""
    with explain_world_errors(assignment):
        tasks = world.tasks(split)
    if not tasks:
        raise PermanentError(
            f"spec.environments[{assignment.environment}].options: world {assignment.world} has "
            f"no task in its split {split} with them, expected at least one"
        )
    return tasks


@contextmanager
def explain_world_errors(of: Assignment | str) -> Iterator[None]:
    """Turn a world's errors into Hansa's, with the field that they are about."""
    where = of if isinstance(of, str) else f"spec.environments[{of.environment}]"
    try:
        yield
    except WorldDown as error:
        raise WorldBroken(f"{where}.world: {error}") from error
    except WorldMissing as error:
        raise PluginMissing(f"{where}.{error}") from error
    except WorldError as error:
        raise PermanentError(f"{where}.{error}") from error


def choose_training_jobs(assignment: Assignment, tasks: Sequence[Task]) -> list[EpisodeJob]:
    """This round's training tasks; none comes twice before all have come once."""
    how = assignment.settings.exploration
    seed = seeds.derive(assignment.seed, assignment.environment, assignment.round, "explore")
    chosen = _draw_indexes(len(tasks), how.tasks_per_round, seed)
    named = [(f"{place}/{tasks[index].id}", tasks[index]) for place, index in enumerate(chosen)]
    return _make_jobs(named, seed, how.samples_per_task)


def choose_evaluation_jobs(
    assignment: Assignment,
    tasks: Sequence[Task],
    wanted: int | None = None,
    samples: int | None = None,
) -> list[EpisodeJob]:
    """Held-out tasks: the same with the same random numbers for every adapter that is measured.

    Equal draws make the difference of two adapters less noisy than either's success. `wanted` tasks
    and `samples` of each replace the settings' numbers.
    """
    seed = seeds.derive(assignment.seed, assignment.environment, 0, "evaluate")
    how = assignment.settings.evaluation
    count = how.tasks if wanted is None else wanted
    return choose_held_out_jobs(tasks, count, seed, samples or how.samples_per_task)


def choose_held_out_jobs(
    tasks: Sequence[Task], wanted: int, seed: int, samples: int = 1
) -> list[EpisodeJob]:
    """The first tasks in the seed's order, each `samples` times; more keep those before."""
    chosen = _draw_indexes(len(tasks), len(tasks), seed)[:wanted]
    return _make_jobs([(tasks[index].id, tasks[index]) for index in chosen], seed, samples)


def _make_jobs(named: Sequence[tuple[str, Task]], seed: int, samples: int) -> list[EpisodeJob]:
    """Each task `samples` times, with seeds by its name."""
    return [
        EpisodeJob(task, sample, seeds.derive_episode_seed(seed, name, sample))
        for name, task in named
        for sample in range(samples)
    ]


def _draw_indexes(size: int, wanted: int, seed: int) -> list[int]:
    """As many random indexes below size as wanted; all come once before any comes twice."""
    draw = random.Random(seed)
    chosen: list[int] = []
    while size and len(chosen) < wanted:
        chosen += draw.sample(range(size), min(size, wanted - len(chosen)))
    return chosen
