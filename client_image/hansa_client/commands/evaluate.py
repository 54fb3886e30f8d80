"""`hansa evaluate`: play a world's held-out tasks with an adapter, outside any federation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.errors import InputError, PermanentError

if TYPE_CHECKING:
    from hansa_client.model import Base
    from hansa_client.worlds import World


def evaluate(
    world: Annotated[str, typer.Option(help="World to play: maze, wordle, ...")],
    model: Annotated[str, typer.Option(help="Base model, as in spec.model.source.")] = (
        "builtin:tiny"
    ),
    adapter: Annotated[
        Path | None, typer.Option(help="Folder of a PEFT adapter; absent: the base alone.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the world, as size=6; repeatable.")
    ] = None,
    options: Annotated[
        str, typer.Option(help="Options of the world as JSON, as in the manifest.")
    ] = "{}",
    tasks: Annotated[int, typer.Option(min=1, help="Held-out tasks to play.")] = 200,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature.")] = 1.0,
    greedy: Annotated[bool, typer.Option(help="Play greedily as well.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks' order and luck.")] = 7,
    batch: Annotated[int, typer.Option(min=1, help="Episodes played together.")] = 64,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    output: Output = Format.TABLE,
) -> None:
    """Play held-out tasks and print the success with its 95 % interval."""
    game = _world(world, _options(option or [], options))
    base = _load(model, adapter, threads)
    temperatures = [temperature, 0.0] if greedy and temperature else [temperature]
    results = [_measure(base, game, tasks, t, seed, batch) for t in temperatures]
    if output is not Format.TABLE:
        about = {"world": world, "model": model, "adapter": str(adapter) if adapter else None}
        print_data({**about, "results": results}, output)
        return
    for result in results:
        low, high = result["interval"]
        print(
            f"{world}: {result['success']:.1%} ({low:.1%} to {high:.1%}) of "
            f"{result['episodes']} held-out tasks, {result['decoding']}"
        )


def _options(pairs: list[str], text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError:
        raise InputError(f"--options: got {text!r}, expected a JSON object") from None
    if not isinstance(options, dict):
        raise InputError(f"--options: got {text!r}, expected a JSON object")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--option: got {pair!r}, expected NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:  # a bare word is text: map=generated
            options[name] = value
    return options


def _world(name: str, options: dict[str, Any]) -> World:
    from hansa_client.worlds import WorldError, make

    try:
        return make(name, options)
    except WorldError as error:
        raise InputError(str(error)) from error


def _load(source: str, adapter: Path | None, threads: int) -> Base:
    """The base, with the adapter loaded by PEFT itself: this also proves that the folder is one."""
    from dataclasses import replace

    from hansa_client import model

    if adapter and not adapter.is_dir():
        raise InputError(f"--adapter: got {adapter}, expected the folder of a PEFT adapter")
    try:
        folder = model.resolve(source)
        say(f"loading {source}")
        base = model.load(source, folder, threads, for_peft=adapter is not None)
    except PermanentError as error:
        raise InputError(
            error.message.replace("spec.model.source", "--model"), error.hint
        ) from error
    if not adapter:
        return base
    from peft import PeftModel

    try:
        wrapped = PeftModel.from_pretrained(base.model, str(adapter), local_files_only=True)
    except Exception as error:  # whatever a folder that is no adapter makes of PEFT
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"--adapter: {adapter} does not fit {source} ({first})") from error
    return replace(base, model=wrapped.merge_and_unload().eval())


def _measure(
    base: Base, world: World, tasks: int, temperature: float, seed: int, batch: int
) -> dict[str, Any]:
    from hansa.intervals import wilson
    from hansa_client import explore, rollout
    from hansa_client.worlds import make

    jobs = explore.held_out_jobs(world.tasks("test"), tasks, seed)
    how = rollout.Play(
        temperature=temperature,
        max_length=base.longest(rollout.MAX_LENGTH),
        batch_episodes=batch,
        round=0,
        source="evaluation",
    )
    played = rollout.play(base, lambda: make(world.name, world.options), jobs, how)
    episodes = len(played.episodes)
    interval = wilson(played.successes, episodes)
    return {
        "decoding": f"temperature {temperature:g}" if temperature else "greedy",
        "temperature": temperature,
        "episodes": episodes,
        "successes": played.successes,
        "success": played.successes / episodes,
        "interval": [interval.low, interval.high],
    }
