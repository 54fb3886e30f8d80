"""`hansa worlds serve`: a world behind an OpenEnv server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say
from hansa_client.commands import common
from hansa_client.commands.serve import LOOPBACK, read_key, until_told


def serve_world(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="Which world; see hansa worlds.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that requests must carry.")
    ] = None,
    sessions: Annotated[
        int, typer.Option(min=1, max=256, help="Episodes at a time; more are refused.")
    ] = 64,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long requests may take to end after SIGTERM.")
    ] = 5.0,
    option: common.OptionPairs = None,
    options: common.OptionsText = "{}",
) -> None:
    """Serve a world to any OpenEnv client: reset, step and state by WebSocket or HTTP.

    A seed is the number of a task; reset takes the split, too. An action is {"message": text}.
    """
    from hansa_client.openenv.life import serving
    from hansa_client.openenv.server import Settings

    settings = Settings(
        world=world,
        options=common.read_options(option, options),
        host=host,
        port=port,
        api_key=read_key(api_key_file),
        sessions=sessions,
        drain_seconds=drain_seconds,
    )
    if not settings.api_key and host not in LOOPBACK:
        say(f"note: --host {host} without --api-key-file: whoever reaches it may use it")
    with common.explained(), until_told() as is_over, serving(settings) as server:
        print(server.url, flush=True)
        say(f"serving {world}, at most {sessions} sessions at a time")
        is_over.wait()
        say(f"ending, at most {drain_seconds:g} s")
