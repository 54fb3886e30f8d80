"""Episodes of worlds without a model."""

from collections.abc import Callable

from hansa_worlds import Observation, Task, World


def play(world: World, task: Task, choose: Callable[[World], str]) -> Observation:
    """Play a task to its end; the last observation."""
    observation = world.start(task)
    while not observation.done:
        observation = world.step(choose(world))
    return observation
