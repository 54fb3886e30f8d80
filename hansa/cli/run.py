"""`hansa run`: a federation on this machine, from its manifest to its adapter."""

import errno
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import INTERRUPTED, say, show_error
from hansa.cli.target import CredentialsFile, Manifest, Out, Parallel
from hansa.core.errors import HansaError, Unreachable
from hansa.core.exits import Exit
from hansa.runtime.stop_signals import stop_on_signals

if TYPE_CHECKING:
    from hansa.api.status import Federation
    from hansa.local.loop import RunOptions
    from hansa.local.rundir import RunDir


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """What `run`, `retry` and `rollback` take beside the run, as `RunOptions` has it."""

    embedded: bool = False
    parallel: Parallel = None
    credentials: CredentialsFile = None
    signing_key: Annotated[
        Path | None,
        typer.Option(help="File of the key that signs orders, for silos that run elsewhere."),
    ] = None
    sealing_key: Annotated[
        Path | None,
        typer.Option(help="File of the key that opens updates, where they are sealed."),
    ] = None
    masking_keys: Annotated[
        Path | None, typer.Option(help="Folder with the file NAME.key of each silo's masking key.")
    ] = None

    def read(self) -> "RunOptions":
        """The options, with the credentials of their file."""
        from hansa.local.credentials import read_credentials
        from hansa.local.loop import RunOptions

        given = read_credentials(self.credentials) if self.credentials else None
        return RunOptions(**{**vars(self), "credentials": given})

    def format_retry(self, folder: "RunDir") -> str:
        """The command line that continues with the run."""
        words = ["hansa", "retry", str(folder.path)]
        for name, value in vars(self).items():
            if value is not None and name != "embedded":  # which the folder tells
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)


def run(
    file: Manifest,
    given: RunArguments,
    out: Out = None,
    embedded_store: Annotated[
        bool, typer.Option(help="Ignore the stores of the spec and use one in the run's folder.")
    ] = False,
) -> int:
    """Run a federation on this machine; run it again to resume."""
    from hansa.local.rundir import DEFAULT_ROOT, RunDir
    from hansa.manifests.load import load
    from hansa.manifests.world_notes import find_world_notes

    federation = load(file)
    folder = RunDir(out or DEFAULT_ROOT / federation.metadata.name)
    for note in find_world_notes(federation.spec):
        say(f"note: {note}")
    return carry_out(federation, folder, replace(given, embedded=embedded_store))


def carry_out(
    federation: "Federation",
    folder: "RunDir",
    given: RunArguments,
    *,
    goes_on: str = "run the same command again to resume",
) -> int:
    """Run to the end, write the page and the adapter, and say where they are."""
    from hansa.local import display
    from hansa.local.loop import run as run_loop
    from hansa.local.results import write_results

    folder.prepare()  # refuses what cannot be its folder before anything is said
    _say_ignored_fields(federation)
    options = given.read()
    say(f"{federation.metadata.name}: everything of this run is kept in {folder.path}")
    stop_on_signals()
    try:
        with display.choose() as shown:
            ended = run_loop(federation, folder, options, shown, write_results)
    except KeyboardInterrupt as stop:
        say(f"stopped; nothing is lost: {goes_on} (folder {folder.path})")
        return stop.args[0] if stop.args else INTERRUPTED
    except (OSError, Unreachable) as error:
        # The store on a disk that is full ends with a sentence of its own.
        if getattr(error, "errno", None) != errno.ENOSPC and not folder.is_disk_full():
            raise
        raise HansaError(
            f"--out: got {folder.path}, whose disk is full",
            hint=f"free some space; nothing is lost: {goes_on}",
        ) from None
    return _say_outcome(ended, folder, given)


def _say_outcome(ended: "Federation", folder: "RunDir", given: RunArguments) -> int:
    from hansa.cli.views.federation import format_joined
    from hansa.core.text import count
    from hansa.local.rundir import explain_phase, suggest_fix
    from hansa.report.run_facts import build_scores, describe_success

    status = ended.status
    if status.phase == "Suspended":
        say("suspended: set spec.suspend to false and run it again to resume")
        return int(Exit.DONE)
    if status.phase != "Succeeded":
        show_error(explain_phase(ended), suggest_fix(folder, given.format_retry(folder)))
        return int(Exit.CRASHED)
    if evaluated := [entry for entry in status.history if entry.success]:
        first, last = (build_scores(entry, ended.spec) for entry in (evaluated[0], evaluated[-1]))
        say(describe_success(first, last, count(status.completed, "round"), ended.spec))
    for line in status.environments:
        if line.serves and line.personal:
            say(f"{line.name} serves {line.serves}: {float(line.personal):.1%}")
        if line.joined:
            say(format_joined(line.to_json()))
    say(f"report:  {folder.page}")
    if status.adapter:
        say(f"adapter: {folder.adapter} (round {status.adapter.round}, a PEFT folder)")
    return int(Exit.DONE)


def _say_ignored_fields(federation: "Federation") -> None:
    spec = federation.spec
    ignored = [
        name
        for name, is_set in (
            ("podTemplate", spec.pod_template or any(e.pod_template for e in spec.environments)),
            ("queueName", any(e.queue_name for e in spec.environments)),
        )
        if is_set
    ]
    if ignored:
        say(f"note: {' and '.join(ignored)} count on Kubernetes only and are ignored here")
