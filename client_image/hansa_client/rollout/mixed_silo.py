"""The parts of a silo: itself, or each world of its world `mixed` as a silo of its own.

A part is demonstrated, explored and evaluated with the name, and so the seeds, of an environment: a
central silo that pools five others plays the tasks that the five would have played.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hansa.api.assignment import Assignment
from hansa_client.rollout.live_episodes import EpisodeJob
from hansa_client.rollout.tasks import explain_world_errors, make_world, require_tasks
from hansa_client.trajectory import Episode
from hansa_worlds import Split, Task, mixed

Choose = Callable[[Assignment, Sequence[Task]], list[EpisodeJob]]


def split_parts(assignment: Assignment) -> list[Assignment]:
    """The assignments that the parts would have; a plain silo is its own only part."""
    if assignment.world != mixed.NAME:
        return [assignment]
    with explain_world_errors(assignment):
        parts = mixed.parse_parts(assignment.options)
    shared = assignment.settings.experience.demonstrations_from
    return [
        assignment.model_copy(
            update={
                "environment": part.name,
                "world": part.world,
                "options": dict(part.options),
                "demonstrations": assignment.demonstrations
                if part.demonstrations is None
                else part.demonstrations,
                "demonstrations_from": part.demonstrations_from or shared,
            }
        )
        for part in parts
    ]


def choose_jobs(assignment: Assignment, split: Split, choose: Choose) -> list[EpisodeJob]:
    """The episodes to play, part by part, as tasks of the silo's own world."""
    chosen: list[EpisodeJob] = []
    for part in split_parts(assignment):
        jobs = choose(part, require_tasks(part, make_world(part), split))
        if assignment.world == mixed.NAME:
            named = mixed.MixedPart(part.environment, part.world)
            jobs = [replace(job, task=mixed.wrap_task(named, job.task)) for job in jobs]
        chosen += jobs
    return chosen


def prefix_tasks(
    assignment: Assignment, part: Assignment, episodes: Sequence[Episode]
) -> list[Episode]:
    """A part's episodes under the names that their tasks have in the silo."""
    if assignment.world != mixed.NAME:
        return list(episodes)
    before = f"{part.environment}/"
    return [episode.model_copy(update={"task": before + episode.task}) for episode in episodes]


def make_state_check(assignment: Assignment) -> Callable[[Episode], bool]:
    """Whether an episode's observations show its world's state, by the part that played it."""
    shown = {part.environment: make_world(part).shows_state for part in split_parts(assignment)}
    if assignment.world != mixed.NAME:
        return lambda episode: shown[assignment.environment]
    return lambda episode: shown.get(episode.task.partition("/")[0], False)
