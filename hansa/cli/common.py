"""What all commands share: the ways to print data, and the way an error leaves the program."""

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.core.errors import HansaError, describe_bug
from hansa.core.exits import Exit
from hansa.core.sanitize import sanitize

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130
READER_LEFT = 141
"""As after death by SIGPIPE, which is how other programs end in `hansa status | head`."""


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[
    Format,
    typer.Option("-o", "--output", help="How to print the data.", case_sensitive=False),
]
"""The `-o` option: declare a parameter `output: Output = Format.TABLE`."""


def print_data(data: Any, output: Format) -> None:
    """Print plain data for a program to read; commands print their own tables.

    Readable where it can be: with characters that would steer a terminal, all others than ASCII's
    are escaped as the format does it, so that a program reads the same text.
    """
    text = _dump(data, output)
    print(text if sanitize(text) == text else _dump(data, output, ascii_only=True), end="")


def _dump(data: Any, output: Format, *, ascii_only: bool = False) -> str:
    if output is Format.JSON:
        return json.dumps(data, indent=2, ensure_ascii=ascii_only) + "\n"
    return to_yaml(data, ascii_only=ascii_only)


def to_yaml(data: Any, *, ascii_only: bool = False) -> str:
    """YAML as kubectl prints it: block style, keys in their order, no aliases."""
    import yaml  # a tenth of the time of `hansa --help`, so only where it is used

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump(
        data, Dumper=Plain, sort_keys=False, allow_unicode=not ascii_only, width=100
    )
    return text


def console(*, stderr: bool = False) -> "Console":
    """A rich console: stdout for data, stderr for talk."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def say(text: str) -> None:
    """Print a message to stderr, so that stdout has data only; a closed stderr is ignored."""
    _say(sanitize(text))


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # the reader is gone; the command still does its work
        _mute(2)


def say_lost(why: str) -> None:
    """Say that the cluster is away while it is watched."""
    say(f"the cluster does not answer ({why}); trying again")


def show_error(message: str, hint: str = "") -> None:
    """One sentence, then a blank line and what to do."""
    say(f"error: {message}")
    if hint:
        say(f"\nhint: {hint}")


def run_guarded(program: Callable[[], Any], debug: bool = False) -> int:
    """Run a program and turn every way it can end into an exit code and at most one sentence."""
    _open_closed_streams()
    try:
        result = program()
        sys.stdout.flush()
    except BrokenPipeError:
        return _end_quietly()
    except SystemExit as stop:
        if not _is_broken_pipe(stop):
            raise
        return _end_quietly()
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        return int(Exit.CRASHED)
    except Exception as error:
        return _explain(error, debug)
    return result if isinstance(result, int) else int(Exit.DONE)


def _explain(error: Exception, debug: bool) -> int:
    if debug and not _is_usage(error):
        traceback.print_exception(error)
    if isinstance(error, HansaError):
        show_error(error.message, error.hint)
        return int(error.exit)
    if _is_usage(error):
        return _explain_usage(error)
    show_error(describe_bug(error), "" if debug else "run it again with --debug for the traceback")
    return int(Exit.CRASHED)


def _is_usage(error: Exception) -> bool:
    """Whether typer refused the command line; its base class is private, its shape is not."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _explain_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # a bare `hansa` asks what there is
        _say(str(error.format_message()))  # our own help, which may be in colour
        return int(Exit.BAD_INPUT)
    where = f"see '{context.command_path} --help'" if context is not None else ""
    message = " ".join(str(error.format_message()).split())
    show_error(message[:1].lower() + message[1:].rstrip("."), where)
    return int(Exit.BAD_INPUT)


def _is_broken_pipe(stop: SystemExit) -> bool:
    """Whether typer or rich asked for the end, with 1, since the reader has gone."""
    cause = stop.__context__
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def _end_quietly() -> int:
    """The reader has gone (`hansa status | head`): not an error, and nothing to flush at exit."""
    _mute(1)
    return READER_LEFT


def _open_closed_streams() -> None:
    """Fill the places of closed standard streams, or the next file opened becomes one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "r+")  # noqa: SIM115, PTH123  (it stays open to the end)
            if stream.fileno() != number:
                os.dup2(stream.fileno(), number)
            setattr(sys, name, stream)


def _mute(stream: int) -> None:
    """Send a stream nowhere, so that Python's own last flush of it does not fail."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream)
    os.close(devnull)
