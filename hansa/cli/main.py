"""The `hansa` program: a table of commands, each loaded only when it is used.

`hansa --help` shows this table without importing a single command, so it is instant and works
where an extra is missing.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hansa.cli.common import run_guarded
from hansa.cli.helptext import PlainCommand
from hansa.cli.option_groups import expand_groups
from hansa.core.errors import InputError
from hansa.version import __version__

GROUP = "hansa.commands"
"""Entry-point group of commands that other packages bring: `mine = "my_package.mine:mine"`."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One line of the table: where a command lives and what its line in the help says."""

    target: str
    """Function as `module:function`."""
    summary: str
    """One line for `hansa --help`."""
    extra: str = ""
    """Extra of the distribution that brings the command; empty: always there."""


_CLI, _CLIENT, _SERVER = "hansa.cli", "hansa_client.commands", "hansa_server.commands"
_TABLE = {
    "Start": (
        ("demo", _CLI, "Watch five worlds make one small agent better."),
        ("run", _CLI, "Run a federation on this machine, or resume it."),
        ("retry", _CLI, "Open the next round after one that failed."),
        ("rollback", _CLI, "Continue from the adapter of an earlier round."),
        ("compare", _CLI, "Run methods and seeds over one federation, as one table."),
        ("validate", _CLI, "Check a manifest and say what is wrong."),
        ("explain", _CLI, "Print what a field of a Federation means."),
    ),
    "Look": (
        ("status", _CLI, "Show how far it is, and why it is stalled."),
        ("watch", _CLI, "Show a federation, or a run, until it ends."),
        ("report", _CLI, "Write one HTML page about a run."),
        ("logs", _CLI, "Print the logs of a federation's Jobs."),
        ("trajectories", _CLIENT, "Browse the episodes that a run has played."),
        ("audit", _SERVER, "Check a run by its audit log, and merge each round again."),
        ("export", _CLI, "Send a run's figures to MLflow, TensorBoard or W&B."),
    ),
    "Worlds": (
        ("worlds", _CLIENT, "List the worlds; --score measures simple players in them."),
        ("play", _CLIENT, "Play an episode, or watch an expert or a model."),
        ("demonstrate", _CLIENT, "Write a world's expert episodes to a file."),
        ("evaluate", _CLIENT, "Play a world's held-out tasks with an adapter."),
    ),
    "Serve and share": (
        ("serve", _CLIENT, "Serve adapters by an OpenAI-compatible API."),
        ("chat", _CLIENT, "Talk to a served adapter in the terminal."),
        ("pull", _CLI, "Copy an adapter out of the store, ready for PEFT."),
        ("push", _CLIENT, "Publish an adapter on the Hugging Face hub or in a registry."),
    ),
    "On a cluster": (
        ("apply", _CLI, "Create or change a federation on a cluster."),
        ("wait", _CLI, "Wait until a federation has succeeded, for scripts."),
        ("suspend", _CLI, "Stop a federation's Jobs for a while."),
        ("resume", _CLI, "Resume a suspended federation."),
        ("delete", _CLI, "Delete a federation; its bucket is untouched."),
        ("crd", _CLI, "Print the CustomResourceDefinition for Kubernetes."),
    ),
    "Between parties": (
        ("keys", _CLI, "Make a key that signs or opens, or show its public half."),
        ("policy", _CLI, "Print the bucket policy that one party needs."),
        ("invite", _CLI, "Print what a silo that runs elsewhere is asked to agree to."),
        ("member", _CLI, "Print the manifest of a silo that accepts an invitation."),
        ("join", _CLI, "Take part in somebody else's federation, from this machine."),
        ("mail", _CLI, "Print and verify the letters between coordinator and silo."),
    ),
    "Tools": (
        ("privacy", _CLI, "Print what spec.privacy will have cost after each round."),
        ("model", _CLIENT, "Print the digests of a manifest's base model and adapter."),
        ("aggregate", _SERVER, "Merge LoRA adapters into one, outside any federation."),
        ("inspect", _SERVER, "Print an adapter's rank, layers, norms and digest."),
    ),
}
"""Name, package and summary of each command, in the sections of `hansa --help`."""
_MODULES = {"resume": "suspend"}
"""Modules of commands that are not named after the command."""
COMMANDS: dict[str, Listing] = {
    name: Listing(
        target=f"{package}.{_MODULES.get(name, name)}:{name}",
        summary=summary,
        extra="client" if package == _CLIENT else "",
    )
    for section in _TABLE.values()
    for name, package, summary in section
}
"""Every command that this distribution knows; packages add theirs by entry points."""


def _list_plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in COMMANDS}


def _find_listing(name: str) -> Listing | None:
    if name in COMMANDS:
        return COMMANDS[name]
    point = _list_plugins().get(name)
    if point is None:
        return None
    return Listing(target=point.value, summary=f"From the package of {point.module}.")


def load_function(name: str, listing: Listing) -> Callable[..., Any]:
    """The command's function, or a sentence that says which extra brings it."""
    module, _, attribute = listing.target.partition(":")
    try:
        function: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        remedy = f"pip install 'hansa[{listing.extra}]'" if listing.extra else "see --debug"
        raise InputError(f"command {name}: cannot be loaded ({error})", hint=remedy) from error
    return function


class LazyCommand(TyperCommand):
    """A line in the help until it is called, then the command itself."""

    listing: Listing

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """Load the real command; its context carries on."""
        function = load_function(self.name or "", self.listing)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name=self.name, cls=PlainCommand)(expand_groups(function))
        return typer.main.get_command(app).make_context(info_name, args, *rest, **extra)


class CommandTable(TyperGroup):
    """The commands of this distribution and of the packages beside it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of a first visit, then those of other packages."""
        return [*COMMANDS, *sorted(_list_plugins())]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands by what they are for."""
        sections = {title: [row[0] for row in rows] for title, rows in _TABLE.items()}
        for title, names in {**sections, "From other packages": sorted(_list_plugins())}.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(n, self.get_command(ctx, n).help) for n in names])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The line of one command; nothing is imported yet."""
        listing = _find_listing(cmd_name)
        if listing is None:
            return None
        command = LazyCommand(name=cmd_name, help=listing.summary)
        command.listing = listing
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; the base class suggests near names from `self.commands` alone."""
        self.commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return super().resolve_command(ctx, args)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hansa {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandTable,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def hansa(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Federated self-evolution of LLM agents: several worlds make one shared agent better."""


def kubectl_main() -> None:
    """The same program as a plugin: kubectl runs `kubectl-hansa` for `kubectl hansa`."""
    main(program="kubectl hansa")


def main(args: list[str] | None = None, program: str = "hansa") -> None:
    """Run the program and leave with its exit code."""
    given = sys.argv[1:] if args is None else args
    # `--debug` counts wherever it stands: people add it at the end of the line that failed.
    words = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in words
    rest = [word for i, word in enumerate(given) if not (word == "--debug" and i < len(words))]
    command = typer.main.get_command(app)
    sys.exit(
        run_guarded(lambda: command.main(rest, prog_name=program, standalone_mode=False), debug)
    )


if __name__ == "__main__":
    main()
