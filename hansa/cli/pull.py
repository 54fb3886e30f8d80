"""`hansa pull`: an adapter out of a run, ready for PEFT."""

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.status import Credentials, Folder


def pull(
    out: Folder,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write; default: in the run's folder.")
    ] = None,
    round_: Annotated[
        str, typer.Option("--round", help="A round's number, `last` or `best`.")
    ] = "last",
    credentials: Credentials = None,
    output: Output = Format.TABLE,
) -> None:
    """Copy a global adapter out of a run's store; PeftModel.from_pretrained loads the folder."""
    from hansa.local.results import choose_round, open_store, pull_adapter
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    number = choose_round(federation, round_)
    with open_store(federation, folder, credentials) as store:
        manifest = pull_adapter(federation, folder, store, number, to or folder.adapter)
    where = to or folder.adapter
    if output is not Format.TABLE:
        print_data({"round": number, "path": str(where), "files": manifest}, output)
        return
    print(where)
    say(f"adapter of round {number}: PeftModel.from_pretrained(base, '{where}')")
