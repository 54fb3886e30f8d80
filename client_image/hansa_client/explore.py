"""Which tasks are played: explored ones anew each round, demonstrations once, held-out ones always.

All choices follow from seeds, so that an attempt repeats what the one before it did.
"""

import random
from collections.abc import Callable, Sequence

from hansa.assignment import Assignment
from hansa.errors import PermanentError
from hansa_client import seeds
from hansa_client.chat import Chat
from hansa_client.experience import DEMONSTRATIONS
from hansa_client.rollout import Job
from hansa_client.trajectory import Episode, Turn
from hansa_client.worlds import Task, World, WorldError, make

_PURPOSE_EXPLORE = "explore"
_PURPOSE_EVALUATE = "evaluate"
_PURPOSE_DEMONSTRATE = "demonstrate"


def make_world(assignment: Assignment) -> World:
    """The environment's world, or a permanent error that names the field."""
    try:
        return make(assignment.world, assignment.options)
    except WorldError as error:
        raise PermanentError(f"spec.environments[{assignment.environment}].{error}") from error


def explore_jobs(assignment: Assignment, tasks: Sequence[Task]) -> list[Job]:
    """This round's training tasks; none comes twice before all have come once."""
    how = assignment.settings.exploration
    seed = _seed(assignment, assignment.round, _PURPOSE_EXPLORE)
    chosen = _shuffled(len(tasks), how.tasks_per_round, seed)
    return [
        Job(tasks[index], sample, seeds.of_episode(seed, f"{place}/{tasks[index].id}", sample))
        for place, index in enumerate(chosen)
        for sample in range(how.samples_per_task)
    ]


def evaluate_jobs(assignment: Assignment, tasks: Sequence[Task]) -> list[Job]:
    """Held-out tasks: the same, with the same luck, for every adapter that is measured.

    Equal draws make the difference of two adapters less noisy than either's success.
    """
    seed = _seed(assignment, 0, _PURPOSE_EVALUATE)
    return held_out_jobs(tasks, assignment.settings.evaluation.tasks, seed)


def held_out_jobs(tasks: Sequence[Task], wanted: int, seed: int) -> list[Job]:
    """The first tasks of a seed's order, each once: asking for more keeps those before."""
    chosen = _shuffled(len(tasks), len(tasks), seed)[:wanted]
    return [Job(tasks[i], 0, seeds.of_episode(seed, tasks[i].id, 0)) for i in chosen]


def demonstrate(
    assignment: Assignment, world: World, chat: Chat, progress: Callable[[int, int], None]
) -> list[Episode]:
    """Expert episodes of training tasks, successful ones only, as many as are wanted."""
    wanted = assignment.settings.experience.demonstrations
    seed = _seed(assignment, 0, _PURPOSE_DEMONSTRATE)
    tasks = world.tasks("train")
    shown: list[Episode] = []
    for tried, index in enumerate(_shuffled(len(tasks), len(tasks), seed)):
        if len(shown) >= wanted:
            break
        episode = _expert_episode(world, tasks[index], chat, seed)
        if episode.success:
            shown.append(episode)
        progress(tried + 1, len(shown))
    return shown


def _expert_episode(world: World, task: Task, chat: Chat, seed: int) -> Episode:
    seen = world.start(task)
    heard, done = [seen.text], []
    while not seen.done:
        done.append(world.expert())
        seen = world.step(done[-1])
        heard.append(seen.text)
    return Episode(
        task=task.id,
        round=DEMONSTRATIONS,
        source="demonstration",
        seed=seed,
        success=world.success,
        reward=float(seen.reward),
        turns=_as_turns(heard, done, chat),
    )


def _as_turns(heard: list[str], done: list[str], chat: Chat) -> list[Turn]:
    """The turns as a rollout would have recorded them; nobody answered the last observation."""
    read = chat.observations(heard[:1], first=True) + chat.observations(heard[1:-1], first=False)
    turns: list[Turn] = []
    for text, tokens, act, own in zip(heard, read, done, chat.actions(done), strict=False):
        turns.append(Turn(role="user", text=text, tokens=tokens))
        turns.append(Turn(role="agent", text=act, tokens=own))
    return [*turns, Turn(role="user", text=heard[-1])]


def _seed(assignment: Assignment, round_: int, purpose: str) -> int:
    return seeds.derive(assignment.seed, assignment.environment, round_, purpose)


def _shuffled(size: int, wanted: int, seed: int) -> list[int]:
    """So many indexes below size in random order, again from the start when there are too few."""
    draw = random.Random(seed)
    chosen: list[int] = []
    while size and len(chosen) < wanted:
        chosen += draw.sample(range(size), min(size, wanted - len(chosen)))
    return chosen
