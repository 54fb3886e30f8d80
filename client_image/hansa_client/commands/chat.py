"""`hansa chat`: talk to a served adapter in the terminal."""

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from hansa.cli.common import say, show_error
from hansa.cli.target import StoreAccess
from hansa.core.errors import HansaError, InputError
from hansa.core.sanitize import sanitize
from hansa_client.commands import serve
from hansa_client.commands.common import BUILTIN, Threads
from hansa_client.serving.client import ChatClient, Message

TINY = (
    "note: builtin:tiny knows the worlds of the demo, and nothing else: it answers what a world "
    "says with an action, and a question with nonsense"
)
DEFAULT_URL = "http://127.0.0.1:8000"


def chat(
    access: StoreAccess,
    where: serve.Where = None,
    url: Annotated[
        str | None, typer.Option(help=f"Address of a server; default: {DEFAULT_URL}.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Which of its models; default: its first.")
    ] = None,
    system: Annotated[str, typer.Option(help="System message of the chat.")] = "",
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0 is greedy.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer at most.")] = 256,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with the server's key.")] = None,
    threads: Threads = 1,
) -> None:
    """Talk to a served adapter; each line is a message, Ctrl-D ends it."""
    if where and url:
        raise InputError(f"got RUN ({where}) and --url ({url}), expected one of them")
    options = {"temperature": temperature, "max_tokens": max_tokens}
    if seed is not None:
        options["seed"] = seed
    key = serve.read_key(api_key_file)
    with _open_client(where, url or DEFAULT_URL, key, threads, access) as client:
        names = client.models()
        chosen = model or (names[0] if names else "")
        if chosen not in names:
            known = ", ".join(names) or "none"
            raise InputError(f"--model: got '{chosen}', expected one that is served: {known}")
        say(f"talking to {chosen}; Ctrl-D ends")
        _talk(client, chosen, system, options)


@contextmanager
def _open_client(
    where: str | None, url: str, key: str, threads: int, access: StoreAccess
) -> Iterator[ChatClient]:
    """A client of a server; a folder is served by this process until the chat ends."""
    if where is None:
        yield ChatClient(url, key)
        return
    from hansa_client.serving.life import ServingSettings, run_server

    own = secrets.token_urlsafe(16)
    settings = ServingSettings(port=0, api_key=own, slots=1, threads=threads, drain_seconds=0)
    with TemporaryDirectory(prefix="hansa-chat-") as scratch:
        source = serve.find(where, [], None, access, Path(scratch))
        say(f"loading {source.model}")
        if source.model == BUILTIN:
            say(TINY)
        with run_server(source, settings) as server:
            yield ChatClient(server.url, own)


def _talk(client: ChatClient, model: str, system: str, options: dict[str, Any]) -> None:
    """Lines in, answers out; a refused message is dropped, and the chat continues."""
    first: list[Message] = [{"role": "system", "content": system}] if system else []
    said: list[Message] = []
    is_typing = sys.stdin.isatty()
    while (line := _read_line(is_typing)) is not None:
        if not line.strip():
            continue
        asked = [*said, {"role": "user", "content": line}]
        answer = ""
        try:
            for piece in client.stream(model, [*first, *asked], **options):
                answer += piece
                print(sanitize(piece), end="", flush=True)
        except HansaError as error:
            if not is_typing:
                raise
            show_error(error.message, error.hint)
            continue
        finally:
            if answer:
                print(flush=True)
        said = [*asked, {"role": "assistant", "content": answer}]


def _read_line(is_typing: bool) -> str | None:
    """The next line; None at the end of the input."""
    try:
        return input("> ") if is_typing else input()
    except EOFError:
        if is_typing:
            print()
        return None
