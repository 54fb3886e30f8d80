"""`hansa play`: one episode of a world on the terminal, played by you, a script or a model."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import Format, Output, console, print_data, say
from hansa.core.errors import InputError, WorldBroken
from hansa.core.sanitize import sanitize
from hansa_client.commands import common, human
from hansa_client.commands.show import EpisodeScreen
from hansa_client.commands.watched import Watched
from hansa_worlds.base import Task, rng
from hansa_worlds.errors import NoPlayer
from hansa_worlds.players import PLAYERS

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base


class PlayerName(StrEnum):
    """Who plays."""

    HUMAN = "human"
    RANDOM = "random"
    LEGAL = "legal"
    GREEDY = "greedy"
    EXPERT = "expert"
    MODEL = "model"


def play(
    world: common.WorldName,
    player: Annotated[
        PlayerName | None,
        typer.Option("--as", help="Who plays; default: you, or the model of --adapter."),
    ] = None,
    adapter: common.AdapterFolder = None,
    model: common.ModelSource = common.BUILTIN,
    task: Annotated[
        str | None, typer.Option(help="Id of a task, or its place in the split; default: drawn.")
    ] = None,
    split: common.SplitName = "test",
    option: common.OptionPairs = None,
    options: common.OptionsText = "{}",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed of the task and of the player.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Of a model; 0 is greedy.")] = 1.0,
    threads: common.Threads = 1,
    output: Output = Format.TABLE,
) -> None:
    """Play one episode; Ctrl-D leaves it, and ? lists what you can do where a world tells."""
    who = player or (PlayerName.MODEL if adapter else PlayerName.HUMAN)
    if adapter and who is not PlayerName.MODEL:
        raise InputError(f"--adapter: got {adapter} with --as {who}, expected --as model")
    game = common.make_world(world, common.read_options(option, options))
    drawn_seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    chosen = common.choose_task(game, split, task, rng("play", drawn_seed))
    shows_itself = who is PlayerName.HUMAN and human.is_typing()
    watched = Watched(game, _make_screen(who, output), who, echo=not shows_itself)
    with closing(game), common.explain_world_errors():
        if who is PlayerName.MODEL:
            base = common.load_base(model, adapter, threads)
            _play_model(base, temperature, watched, chosen, drawn_seed)
        elif who is PlayerName.HUMAN:
            human.play(watched, chosen, data_on_stdout=output is not Format.TABLE)
        else:
            _play_script(watched, chosen, who, rng("player", drawn_seed))
    if output is not Format.TABLE:
        about = {
            "world": world,
            "options": dict(game.options),
            "player": str(who),
            "seed": drawn_seed,
        }
        print_data({**about, **watched.record()}, output)
    elif seed is None:
        say(f"again: --task {sanitize(chosen.id)} --seed {drawn_seed}")


def _make_screen(who: PlayerName, output: Format) -> EpisodeScreen | None:
    """Where the episode is shown: nowhere when only a program reads the output."""
    if output is Format.TABLE:
        return EpisodeScreen(console())
    return EpisodeScreen(console(stderr=True)) if who is PlayerName.HUMAN else None


def _play_script(world: Watched, task: Task, who: PlayerName, draw: random.Random) -> None:
    observation = world.begin(task)
    action = _ask(world, who, draw)  # before anything is shown: the world may lack this player
    world.show_first(observation)
    while True:
        observation = world.step(action)
        if observation.done:
            break
        action = _ask(world, who, draw)
    world.end()


def _ask(world: Watched, who: PlayerName, draw: random.Random) -> str:
    try:
        return PLAYERS[who](world.inner, draw)
    except NoPlayer as error:
        raise InputError(f"--as: got {who}, but {error}") from error


def _play_model(base: Base, temperature: float, world: Watched, task: Task, seed: int) -> None:
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
