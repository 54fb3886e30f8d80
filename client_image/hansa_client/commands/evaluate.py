"""`hansa evaluate`: play a world's held-out tasks with an adapter, outside any federation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data
from hansa.errors import InputError
from hansa_client.commands.common import (
    BUILTIN,
    AdapterFolder,
    ModelSource,
    OptionPairs,
    OptionsText,
    Threads,
    explained,
    load_base,
    make_world,
    read_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hansa_client.model import Base
    from hansa_client.seat import Job, Play
    from hansa_client.worlds import World


def evaluate(
    world: Annotated[str, typer.Option(help="World to play: maze, wordle, ...")],
    model: ModelSource = BUILTIN,
    adapter: AdapterFolder = None,
    option: OptionPairs = None,
    options: OptionsText = "{}",
    tasks: Annotated[int, typer.Option(min=1, help="Held-out tasks to play.")] = 200,
    samples: Annotated[int, typer.Option(min=1, max=64, help="Episodes of each task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature.")] = 1.0,
    greedy: Annotated[bool, typer.Option(help="Play greedily as well.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks' order and luck.")] = 7,
    batch: Annotated[int, typer.Option(min=1, help="Episodes played together.")] = 64,
    threads: Threads = 1,
    output: Output = Format.TABLE,
) -> None:
    """Play held-out tasks and print the success with its 95 % interval, clustered by task."""
    given = read_options(option, options)
    jobs = _jobs(make_world(world, given), tasks, seed, samples)
    base = load_base(model, adapter, threads)
    temperatures = [temperature, 0.0] if greedy and temperature else [temperature]
    results = [
        _measure(base, lambda: make_world(world, given), jobs, _how(base, t, batch))
        for t in temperatures
    ]
    if output is not Format.TABLE:
        about = {"world": world, "model": model, "adapter": str(adapter) if adapter else None}
        print_data({**about, "results": results}, output)
        return
    for result in results:
        print(_line(world, result))


def _jobs(world: World, tasks: int, seed: int, samples: int) -> list[Job]:
    from hansa_client import explore

    with explained():
        found = world.tasks("test")
    if not found:
        raise InputError(f"--world: {world.name} has no held-out task with these options")
    return explore.held_out_jobs(found, tasks, seed, samples)


def _how(base: Base, temperature: float, batch: int) -> Play:
    from hansa_client import rollout

    return rollout.Play(
        temperature=temperature,
        max_length=base.longest(rollout.MAX_LENGTH),
        batch_episodes=batch,
        round=0,
        source="evaluation",
    )


def _line(world: str, result: dict[str, Any]) -> str:
    low, high = result["interval"]
    played = f"{result['tasks']} held-out tasks"
    if result["episodes"] != result["tasks"]:
        played = f"{result['episodes']} episodes of {played}"
    dropped = f", {result['broken']} dropped" if result["broken"] else ""
    return (
        f"{world}: {result['success']:.1%} ({low:.1%} to {high:.1%}) of {played}, "
        f"{result['decoding']}{dropped}"
    )


def _measure(
    base: Base, make: Callable[[], World], jobs: Sequence[Job], how: Play
) -> dict[str, Any]:
    from hansa.intervals import clustered
    from hansa_client import rollout
    from hansa_client.evaluate import by_task

    with explained():
        played = rollout.play(base, make, jobs, how)
    episodes, tasks = len(played.episodes), by_task(played.episodes)
    interval = clustered({name: (won, count) for name, (won, count) in tasks.items()})
    return {
        "decoding": f"temperature {how.temperature:g}" if how.temperature else "greedy",
        "temperature": how.temperature,
        "tasks": len(tasks),
        "episodes": episodes,
        "successes": played.successes,
        "broken": len(played.broken),
        "success": interval.value,
        "interval": [interval.low, interval.high],
    }
