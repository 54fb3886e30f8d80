"""`hansa demonstrate`: a world's expert writes demonstrations in AgentGym's conversation format."""

from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say
from hansa.core.errors import InputError
from hansa_client.commands import common
from hansa_client.experience import agentgym_format
from hansa_client.experience.agentgym_format import Conversation
from hansa_client.experience.demonstrations import play_expert
from hansa_client.rollout.faults import BadAnswer
from hansa_worlds.base import Task, World, rng
from hansa_worlds.errors import NoPlayer


def demonstrate(
    world: common.WorldName,
    options: common.WorldOptions,
    out: Annotated[Path, typer.Option("--out", help="File to write; - is stdout.")],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Episodes wanted.")] = 200,
    split: common.SplitName = "train",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks' order.")] = 7,
    thoughts: Annotated[
        bool, typer.Option(help="Write the expert's thoughts before its actions.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
) -> None:
    """Write successful expert episodes, one conversation per line; each task comes once at most."""
    common.check_target("--out", out, force=force)
    game = common.make_world(world, options.read())
    with closing(game), common.explain_world_errors(game):
        tasks = game.tasks(split)
        if not tasks:
            raise InputError(f"--split: got {split}, of which world {world!r} has no tasks")
        shown = _collect(game, tasks, count, seed, thoughts=thoughts)
    if not shown:
        raise InputError(f"world {world!r}: its expert solved none of {len(tasks)} tasks")
    where = common.write_file("--out", out, agentgym_format.write(shown))
    short = f", not {count}: the {split} split has no more" if len(shown) < count else ""
    say(f"{len(shown)} episodes in {where}{short}")
    if split == "test":
        say("note: tables report test tasks; an agent that trained on them proves nothing there")


def _collect(
    world: World, tasks: Sequence[Task], wanted: int, seed: int, *, thoughts: bool
) -> list[Conversation]:
    shown: list[Conversation] = []
    progress = common.ProgressCounter("episodes")
    for index in rng("demonstrate", seed).sample(range(len(tasks)), len(tasks)):
        if len(shown) >= wanted:
            break
        task = tasks[index]  # made now: there may be thousands
        try:
            observations, actions, _, success = play_expert(world, task, thoughts=thoughts)
        except NoPlayer as error:
            raise InputError(f"{error}, so there is nobody to demonstrate") from error
        except BadAnswer as error:
            raise InputError(f"world {world.name!r}: {error}") from error
        if success:
            pairs = zip(observations, actions, strict=False)
            said = [*chain.from_iterable(pairs), observations[-1]]
            shown.append(agentgym_format.make_conversation(task.id, world.introduction(), said))
        progress(len(shown), wanted)
    progress.clear()
    return shown
