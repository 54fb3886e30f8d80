"""`hansa demonstrate`: a world's expert writes demonstrations in AgentGym's conversation format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say
from hansa.core.errors import InputError
from hansa_client.commands import common
from hansa_client.experience import agentgym_format
from hansa_client.experience.agentgym_format import Conversation
from hansa_worlds.base import Task, World, rng
from hansa_worlds.errors import NoPlayer


def demonstrate(
    world: common.WorldName,
    out: Annotated[Path, typer.Option("--out", help="File to write; - is stdout.")],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Episodes wanted.")] = 200,
    option: common.OptionPairs = None,
    options: common.OptionsText = "{}",
    split: common.SplitName = "train",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks' order.")] = 7,
    thoughts: Annotated[
        bool, typer.Option(help="Write the expert's thoughts before its actions.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
) -> None:
    """Write successful expert episodes, one conversation per line; each task comes once at most."""
    common.check_target("--out", out, force=force)
    game = common.make_world(world, common.read_options(option, options))
    with closing(game), common.explained():
        tasks = game.tasks(split)
        if not tasks:
            raise InputError(f"--split: got {split}, of which world {world!r} has no tasks")
        shown = _collect(game, tasks, count, seed, thoughts=thoughts)
    if not shown:
        raise InputError(f"world {world!r}: its expert solved none of {len(tasks)} tasks")
    common.write_file("--out", out, agentgym_format.write(shown))
    _conclude(shown, count, out, split)


def _collect(
    world: World, tasks: Sequence[Task], wanted: int, seed: int, *, thoughts: bool
) -> list[Conversation]:
    shown: list[Conversation] = []
    progress = common.ProgressCounter("episodes", wanted)
    for task in _in_order(tasks, seed):
        if len(shown) >= wanted:
            break
        said = _expert_episode(world, task, thoughts=thoughts)
        if world.success:
            shown.append(agentgym_format.of_episode(task.id, world.introduction(), said))
        progress(len(shown))
    progress.end()
    return shown


def _in_order(tasks: Sequence[Task], seed: int) -> Iterator[Task]:
    """All tasks once, in a seed's order; made one by one, since there may be thousands."""
    for index in rng("demonstrate", seed).sample(range(len(tasks)), len(tasks)):
        yield tasks[index]


def _expert_episode(world: World, task: Task, *, thoughts: bool) -> list[str]:
    """What was said, the world first and last."""
    observation = world.start(task)
    said = [observation.text]
    while not observation.done:
        try:
            move = world.expert()
        except NoPlayer as error:
            raise InputError(f"{error}, so there is nobody to demonstrate") from error
        text = move.text if thoughts else move.action
        observation = world.step(text)
        said += [text, observation.text]
    return said


def _conclude(shown: list[Conversation], wanted: int, out: Path, split: str) -> None:
    where = "stdout" if out == common.STDOUT else out
    short = f", not {wanted}: the {split} split has no more" if len(shown) < wanted else ""
    say(f"{len(shown)} episodes in {where}{short}")
    if split == "test":
        say("note: tables report test tasks; an agent that trained on them proves nothing there")
