"""`hansa report`: one HTML page about a run."""

from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.common import say
from hansa.cli.target import Credentials


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    page: Annotated[
        Path | None,
        typer.Option("--page", help="File to write; default: report.html in the run's folder."),
    ] = None,
    episodes: Annotated[
        bool, typer.Option(help="Include episodes, which are private data of the silos.")
    ] = True,
    credentials: Credentials = None,
) -> None:
    """Write one self-contained HTML page about a run."""
    from hansa.local.results import open_store, write_page
    from hansa.local.rundir import RunDir

    folder = RunDir(run)
    federation = folder.load()
    with open_store(federation, folder, credentials) as store:
        written = write_page(
            federation, folder, store, page, episodes=episodes, credentials=credentials
        )
    say(f"report: {written}")
