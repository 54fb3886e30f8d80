"""`hansa join`: take part in somebody else's federation, from this machine."""

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import INTERRUPTED, say
from hansa.cli.target import CredentialsFile, Out, Parallel
from hansa.core.exits import Exit
from hansa.runtime.stop_signals import stop_on_signals


def join(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="FederationMember, or - for stdin.")],
    key: Annotated[Path, typer.Option("--key", help="File of the silo's private key.")],
    out: Out = None,
    credentials: CredentialsFile = None,
    once: Annotated[
        bool, typer.Option("--once", help="Answer the newest order, then end: for cron and Slurm.")
    ] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="Wait for orders also when the federation is over.")
    ] = False,
    parallel: Parallel = None,
    masking_key: Annotated[
        Path | None,
        typer.Option(help="File of the silo's masking key, where updates are masked."),
    ] = None,
) -> int:
    """Follow the coordinator's orders as far as the manifest allows; run it again to resume.

    It ends when the federation is over.
    """
    from hansa.local.credentials import read_credentials
    from hansa.local.join import Joining, choose_variables, read_own_variables
    from hansa.local.join import join as take_part
    from hansa.local.rundir import DEFAULT_ROOT, RunDir
    from hansa.manifests.load import load_member

    member = load_member(file)
    name = member.spec.federation.environment
    folder = RunDir(out or DEFAULT_ROOT / f"{member.metadata.name}-{name}")
    given = (
        choose_variables(read_credentials(credentials), name)
        if credentials
        else read_own_variables()
    )
    say(f"{member.metadata.name}: everything of this silo is kept in {folder.path}")
    stop_on_signals()
    joining = Joining(
        key=key,
        credentials=given,
        once=once,
        stay=stay,
        parallel=parallel,
        masking_key=masking_key,
    )
    try:
        take_part(member, folder, joining, say)
    except KeyboardInterrupt as stop:
        say(
            f"stopped; nothing is lost: run the same command again to resume (folder {folder.path})"
        )
        return stop.args[0] if stop.args else INTERRUPTED
    return int(Exit.DONE)
