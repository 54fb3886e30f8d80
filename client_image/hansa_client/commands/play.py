"""`hansa play`: one episode of a world on the terminal, played by you, a script or a model."""

import io
import random
import sys
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hansa.cli.common import Format, Output, console, print_data, say
from hansa.core.errors import InputError, WorldBroken
from hansa.core.sanitize import sanitize
from hansa_client.commands import common
from hansa_client.commands.show import EpisodeScreen, Watched, format_prompt
from hansa_worlds.base import Task, rng
from hansa_worlds.errors import NoPlayer
from hansa_worlds.players import PLAYERS

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base

PlayerName = Literal["human", "random", "legal", "greedy", "expert", "model"]
"""Who plays."""
MOST_LISTED = 40
"""Legal actions that `?` shows; a shop has hundreds."""


def play(
    where: common.WorldOrRun,
    agent: common.AgentOptions,
    player: Annotated[
        PlayerName | None,
        typer.Option("--as", help="Who plays; default: you, or the agent of a run or --adapter."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Id of a task, or its place in the split; default: drawn.")
    ] = None,
    split: common.SplitName = "test",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the task and of the player.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Of a model; 0 is greedy.")] = 1.0,
    output: Output = Format.TABLE,
) -> None:
    """Play one episode; Ctrl-D leaves it, and ? lists what you can do where a world tells.

    `hansa play runs/demo -e maze` shows the agent of a run in one of its environments.
    """
    setting = agent.find_setting(where)
    who = player or ("model" if agent.adapter or setting.run else "human")
    if agent.adapter and who != "model":
        raise InputError(f"--adapter: got {agent.adapter} with --as {who}, expected --as model")
    game = common.make_world(setting.world, setting.options)
    drawn_seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    chosen = common.choose_task(game, split, task, rng("play", drawn_seed))
    shows_itself = who == "human" and sys.stdin.isatty()
    screen = console(stderr=output is not Format.TABLE)
    # Nothing is shown when only a program reads the output.
    screen.quiet = output is not Format.TABLE and who != "human"
    watched = Watched(game, EpisodeScreen(screen), who, echo=not shows_itself)
    with closing(game), common.explain_world_errors(game):
        if who == "model":
            base = agent.load_agent(setting)
            _play_model(base, temperature, watched, chosen, drawn_seed)
        elif who == "human":
            _play_human(watched, chosen, data_on_stdout=output is not Format.TABLE)
        else:
            _play_script(watched, chosen, who, rng("player", drawn_seed))
    if output is not Format.TABLE:
        about = {
            "world": setting.world,
            "options": dict(game.options),
            "player": who,
            "seed": drawn_seed,
        }
        print_data({**about, **watched.record()}, output)
    elif seed is None:
        say(f"again: --task {sanitize(chosen.id)} --seed {drawn_seed}")


def _play_human(world: Watched, task: Task, *, data_on_stdout: bool) -> None:
    """Play until the end, or until the person leaves: `?` asks, Ctrl-D leaves."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a pipe may carry any bytes
    with suppress(ImportError):  # gives input() editing and history, where it is installed
        import readline  # noqa: F401
    observation = world.start(task)
    world.screen.show_note("Write an action; ? lists what there is, Ctrl-D leaves.")
    while not observation.done:
        line = _read_action(format_prompt(world.actions_taken + 1), data_on_stdout)
        if line is None:
            break
        if line == "?":
            world.screen.show_note(_list_actions(world))
        elif line:
            observation = world.step(line)
    world.end(unless_done="you left")


def _read_action(before: str, data_on_stdout: bool) -> str | None:
    if not sys.stdin.isatty():  # a terminal echoes what is typed
        line = sys.stdin.readline()
        return line.strip() if line else None
    try:
        if not data_on_stdout:
            return input(before).strip()
        print(before, end="", file=sys.stderr, flush=True)
        return input().strip()
    except EOFError:
        print(file=sys.stderr)  # Ctrl-D leaves the cursor behind the prompt
        return None


def _list_actions(world: Watched) -> str:
    try:
        moves = world.inner.legal()
    except NoPlayer as error:
        return f"{error}; its rules say what there is"
    more = f", and {len(moves) - MOST_LISTED} more" if len(moves) > MOST_LISTED else ""
    return ", ".join(moves[:MOST_LISTED]) + more


def _play_script(world: Watched, task: Task, who: PlayerName, draw: random.Random) -> None:
    observation = world.begin(task)
    action = _ask(world, who, draw)  # before anything is shown: the world may lack this player
    world.show_first(observation)
    while not world.step(action).done:
        action = _ask(world, who, draw)
    world.end()


def _ask(world: Watched, who: PlayerName, draw: random.Random) -> str:
    try:
        return PLAYERS[who](world.inner, draw)
    except NoPlayer as error:
        raise InputError(f"--as: got {who}, but {error}") from error


def _play_model(base: "Base", temperature: float, world: Watched, task: Task, seed: int) -> None:
    """Play with a model, by the rollout that a federation's clients use."""
    from hansa_client import seeds
    from hansa_client.rollout import episodes

    how = replace(common.make_rollout_config(base, temperature, batch=1), max_broken=1.0)
    job = episodes.EpisodeJob(task, 0, seeds.derive_episode_seed(seed, task.id, 0))
    try:
        broken = episodes.play(base, lambda: world, [job], how).broken
    except WorldBroken as error:  # the world's own exception says more
        raise world.fault or error from None
    if broken:  # a rollout tolerates some; here it is the only episode
        raise world.fault or WorldBroken(f"world {world.inner.name}: {broken[0]}")
    world.end(unless_done="too long for the model")
