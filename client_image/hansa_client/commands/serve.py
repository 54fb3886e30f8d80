"""`hansa serve`: adapters behind an OpenAI-compatible API."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.api.bucket_keys import CONFIG
from hansa.cli import target
from hansa.cli.common import say
from hansa.core.errors import HansaError, InputError
from hansa.runtime.stop_signals import stop_on_signals
from hansa_client.commands.common import BUILTIN, Threads

if TYPE_CHECKING:
    from hansa_client.serving.server import ChatServer
    from hansa_client.serving.sources import AdapterSource

Where = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="Folder of a run or of a PEFT adapter, or name of a federation on the cluster.",
    ),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option("--adapter", help="One more adapter, as NAME=FOLDER; repeatable."),
]
BaseSource = Annotated[
    str | None,
    typer.Option(help="Base model, as in spec.model.source; default: that of the adapters."),
]
LOOK_SECONDS = 1.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    access: target.StoreAccess,
    run: Where = None,
    adapter: Adapters = None,
    model: BaseSource = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that requests must carry.")
    ] = None,
    slots: Annotated[int, typer.Option(min=1, max=4096, help="Answers written at a time.")] = 64,
    max_length: Annotated[
        int, typer.Option(min=16, help="Tokens of a prompt and its answer at most.")
    ] = 4096,
    threads: Threads = 1,
    adapter_folder: Annotated[
        Path | None,
        typer.Option(help="Requests may load adapters from folders below this one."),
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long requests may take to end after SIGTERM.")
    ] = 30.0,
) -> None:
    """Serve adapters by an OpenAI-compatible API: /v1/models, /v1/chat/completions.

    Of a run or a federation all rounds are served (final, best, round-7, ...), and what silos serve
    themselves (silo-NAME) where these credentials read it. The base is always there as `base`.
    """
    from hansa_client.serving.life import ServingSettings, run_server

    settings = ServingSettings(
        host=host,
        port=port,
        api_key=read_key(api_key_file),
        slots=slots,
        max_length=max_length,
        threads=threads,
        drain_seconds=drain_seconds,
        adapter_folder=adapter_folder,
    )
    if not settings.api_key and host not in LOOPBACK:
        say(f"note: --host {host} without --api-key-file: everyone who can reach it may use it")

    stop_on_signals()  # until it serves; also removes the copied files
    with TemporaryDirectory(prefix="hansa-serve-") as scratch:
        source = find(run, adapter or [], model, access, Path(scratch))
        say(f"loading {source.model}")
        with watch_stop_signals() as is_over, run_server(source, settings) as server:
            print(server.url, flush=True)
            say(f"serving {', '.join(server.completions.names)}")
            _wait(is_over, server)
            say(f"ending, at most {drain_seconds:g} s")


def find(
    where: str | None,
    adapters: list[str],
    model: str | None,
    access: target.StoreAccess,
    scratch: Path,
) -> "AdapterSource":
    """The adapters to serve."""
    from hansa_client.serving import sources
    from hansa_client.serving.sources import AdapterSource

    if where is None:
        source = AdapterSource(model=BUILTIN, entries=[])
    elif (Path(where) / CONFIG).is_file() and not access.is_meant(where):
        source = sources.read_folder(Path(where))
    else:
        source = sources.read(access.find(where), access.credentials, scratch)
    more = [sources.parse_option(text) for text in adapters]
    bases = {each.model for each in more}
    if where is None and model is None and bases:
        source = AdapterSource(model=sorted(bases)[0], entries=[])
    entries = [*source.entries, *(entry for each in more for entry in each.entries)]
    return AdapterSource(model=model or source.model, entries=entries, storage=source.storage)


def read_key(path: Path | None) -> str:
    """The key in a file; InputError where it is none."""
    if path is None:
        return ""
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise InputError(f"--api-key-file: got {path}: {reason}") from None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"--api-key-file: got {path}, expected a key of printable ASCII in it")
    return key


@contextmanager
def watch_stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set; a second signal ends the program at once."""
    is_over = threading.Event()

    def end(*_: object) -> None:
        if is_over.is_set():
            raise KeyboardInterrupt
        is_over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield is_over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(is_over: threading.Event, server: "ChatServer") -> None:
    while not is_over.wait(LOOK_SECONDS):
        if not server.completions.is_alive:
            raise HansaError("the engine has ended, see the log above")
