"""The parts of a silo: itself, or each world of its world `mixed` as if it were one of its own.

A part is shown, explored and evaluated with the settings, the name and so the seeds of an
environment. A centre that pools five silos plays the tasks that the five would have played.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hansa.assignment import Assignment
from hansa_client import explore
from hansa_client.seat import Job
from hansa_client.trajectory import Episode
from hansa_client.worlds import Split, Task, mixed

Choose = Callable[[Assignment, Sequence[Task]], list[Job]]


def of(told: Assignment) -> list[Assignment]:
    """The assignments that the parts would have; a plain silo is its own only part."""
    if told.world != mixed.NAME:
        return [told]
    with explore.explained(told):
        parts = mixed.parts_of(told.options)
    shared = told.settings.experience.demonstrations_from
    return [
        told.model_copy(
            update={
                "environment": part.name,
                "world": part.world,
                "options": dict(part.options),
                "demonstrations": told.demonstrations
                if part.demonstrations is None
                else part.demonstrations,
                "demonstrations_from": part.demonstrations_from or shared,
            }
        )
        for part in parts
    ]


def jobs(told: Assignment, split: Split, choose: Choose) -> list[Job]:
    """The episodes to play, part by part, as tasks of the silo's own world."""
    if told.world != mixed.NAME:
        return choose(told, explore.tasks(told, explore.make_world(told), split))
    chosen: list[Job] = []
    for part in of(told):
        tasks = explore.tasks(part, explore.make_world(part), split)
        named = mixed.Part(part.environment, part.world)
        chosen += [replace(job, task=mixed.within(named, job.task)) for job in choose(part, tasks)]
    return chosen


def named(told: Assignment, part: Assignment, episodes: Sequence[Episode]) -> list[Episode]:
    """A part's episodes under the names that their tasks have in the silo."""
    if told.world != mixed.NAME:
        return list(episodes)
    before = f"{part.environment}/"
    return [episode.model_copy(update={"task": before + episode.task}) for episode in episodes]
