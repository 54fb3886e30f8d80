"""Players without a model: random, random among legal actions, greedy, and the expert.

Their scores are the baselines of a world: an agent below chance has not learned the format, one
above the greedy player plans ahead, and the expert shows that the tasks can be solved.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from hansa.core.stats import Interval, clustered_interval
from hansa_worlds.base import Split, Task, World, rng
from hansa_worlds.errors import WorldError
from hansa_worlds.registry import make

Player = Callable[[World, random.Random], str]
"""Returns its next turn; all its random choices come from the generator."""

PLAYERS: dict[str, Player] = {
    "random": lambda world, draw: draw.choice(world.actions()),
    "legal": lambda world, draw: draw.choice(world.legal()),
    "greedy": lambda world, draw: world.greedy(draw),
    "expert": lambda world, draw: world.expert().text,
}
"""By name, the least able first; the expert says why. A world that lacks one raises NoPlayer."""

LEAST_EPISODES = 1_000
"""Episodes of a small split: its tasks are played again, as 25 episodes say little."""


@dataclass(frozen=True)
class PlayedTask:
    """How one episode ended."""

    success: bool
    turns: int


@dataclass(frozen=True)
class EpisodeTally:
    """Figures of some episodes."""

    tasks: int
    episodes: int
    successes: int
    success: Interval
    """Share of the episodes; repeats of a task are clusters."""
    turns: float
    """Mean actions per episode, failed ones too."""


@dataclass(frozen=True)
class PlayerScore:
    """A player's score in a split of a world."""

    whole: EpisodeTally
    groups: Mapping[str, EpisodeTally]
    """The same by `World.group`; empty where all tasks are of one kind."""


def has_player(world: World, player: str) -> bool:
    """Whether a world has such a player: whether its class overrides what the player calls."""
    methods = ("actions", "legal") if player == "random" else (player,)
    return any(getattr(type(world), name) is not getattr(World, name) for name in methods)


def play(world: World, task: Task, player: Player, draw: random.Random) -> PlayedTask:
    """Play an episode to its end."""
    seen = world.start(task)
    turns = 0
    while not seen.done:
        seen = world.step(player(world, draw))
        turns += 1
    return PlayedTask(world.success, turns)


def score(
    name: str,
    options: Mapping[str, object],
    player: str,
    split: Split = "test",
    episodes: int | None = None,
    seed: int = 7,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PlayerScore:
    """Play a split with a player; the same arguments give the same figures on every machine.

    Without `episodes` every task is played, and all of them again until there are a thousand
    episodes; the expert draws nothing, so it plays each once. Fewer episodes than tasks are a
    sample of the split.
    """
    if player not in PLAYERS:
        raise WorldError(f"player: got {player!r}, expected one of {', '.join(PLAYERS)}")
    played: dict[str, list[tuple[str, PlayedTask]]] = {}
    with closing(make(name, options)) as world:
        plan = schedule(world.tasks(split), episodes, seed, repeats=player != "expert")
        total = len(plan)
        for done, (task, again) in enumerate(plan):
            draw = rng("score", player, seed, task.id, again)
            result = play(world, task, PLAYERS[player], draw)
            played.setdefault(world.group(task), []).append((task.id, result))
            progress(done + 1, total)
    every = [entry for group in played.values() for entry in group]
    groups = {group: tally(played[group]) for group in sorted(played)} if any(played) else {}
    return PlayerScore(tally(every), groups)


def schedule(
    tasks: Sequence[Task], episodes: int | None, seed: int, *, repeats: bool
) -> list[tuple[Task, int]]:
    """Which tasks are played, each with its repetition: whole sweeps, or a sample of one.

    The sample is drawn: every n-th task would meet only some levels where levels take turns.
    """
    if not tasks:
        raise WorldError("split: got one without tasks, expected at least one")
    wanted = max(len(tasks), LEAST_EPISODES) if episodes is None else episodes
    if not repeats:
        wanted = min(wanted, len(tasks))
    if wanted < len(tasks):
        drawn = rng("score", "tasks", seed).sample(range(len(tasks)), wanted)
        return [(tasks[index], 0) for index in sorted(drawn)]
    sweeps = -(-wanted // len(tasks))
    return [(task, again) for again in range(sweeps) for task in tasks]


def tally(played: Sequence[tuple[str, PlayedTask]]) -> EpisodeTally:
    """Sum up episodes, given with the ids of their tasks."""
    tasks: dict[str, tuple[int, int]] = {}
    for task, episode in played:
        won, count = tasks.get(task, (0, 0))
        tasks[task] = (won + episode.success, count + 1)
    return EpisodeTally(
        tasks=len(tasks),
        episodes=len(played),
        successes=sum(won for won, _ in tasks.values()),
        success=clustered_interval(tasks),
        turns=sum(episode.turns for _, episode in played) / len(played),
    )
