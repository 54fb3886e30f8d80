"""`hansa evaluate`: play a world's held-out tasks with an adapter, outside any federation."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data
from hansa.core.errors import InputError
from hansa_client.commands import common

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hansa_client.models.base_model import Base
    from hansa_client.rollout.live_episodes import EpisodeJob, RolloutConfig
    from hansa_worlds import World


def evaluate(
    where: common.WorldOrRun,
    agent: common.AgentOptions,
    tasks: Annotated[int, typer.Option(min=1, help="Held-out tasks to play.")] = 200,
    samples: Annotated[int, typer.Option(min=1, max=64, help="Episodes of each task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature.")] = 1.0,
    greedy: Annotated[bool, typer.Option(help="Play greedily as well.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the tasks' order and of sampling.")
    ] = 7,
    batch: Annotated[int, typer.Option(min=1, help="Episodes played together.")] = 64,
    output: Output = Format.TABLE,
) -> None:
    """Play held-out tasks and print the success with its 95 % interval, clustered by task.

    `hansa evaluate runs/demo -e maze` plays an environment of a run with the run's last adapter.
    """
    setting = agent.find_setting(where)
    world, given = setting.world, setting.options
    jobs = _choose_jobs(common.make_world(world, given), tasks, seed, samples)
    base = agent.load_agent(setting)
    temperatures = [temperature, 0.0] if greedy and temperature else [temperature]
    hows = [common.make_rollout_config(base, each, batch) for each in temperatures]
    results = [_measure(base, world, given, jobs, how) for how in hows]
    if output is not Format.TABLE:
        played = agent.adapter or (setting.run.path if setting.run else None)
        about = {"world": world, "model": setting.model, "adapter": str(played or "") or None}
        print_data({**about, "results": results}, output)
        return
    for result in results:
        print(_format_result(world, result))


def _choose_jobs(world: "World", tasks: int, seed: int, samples: int) -> "list[EpisodeJob]":
    from hansa_client.rollout.tasks import choose_held_out_jobs

    with common.explain_world_errors(world):
        held_out = world.tasks("test")
    if not held_out:
        raise InputError(f"WORLD: {world.name} has no held-out task with these options")
    return choose_held_out_jobs(held_out, tasks, seed, samples)


def _format_result(world: str, result: dict[str, Any]) -> str:
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
    base: "Base",
    world: str,
    given: dict[str, Any],
    jobs: "Sequence[EpisodeJob]",
    how: "RolloutConfig",
) -> dict[str, Any]:
    from hansa.core.stats import clustered_interval
    from hansa_client.evaluation import tally_by_task
    from hansa_client.rollout.episodes import play

    with common.explain_world_errors(world):
        played = play(base, lambda: common.make_world(world, given), jobs, how)
    episodes, tasks = len(played.episodes), tally_by_task(played.episodes)
    interval = clustered_interval({name: (won, count) for name, (won, count) in tasks.items()})
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
