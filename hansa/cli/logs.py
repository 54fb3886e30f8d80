"""`hansa logs`: what the Jobs of a run said."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from hansa.cli.status import Folder
from hansa.errors import InputError

_ORDER = ("client", "aggregator", "evaluate")
"""How the Jobs of a round follow one another."""


def logs(
    out: Folder,
    environment: Annotated[
        str | None, typer.Option("--environment", "-e", help="Only this one, or `aggregator`.")
    ] = None,
    round_: Annotated[int | None, typer.Option("--round", min=0, help="Only this round.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
) -> None:
    """Print the logs of a run's Jobs, oldest first."""
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    folder.load()
    shown: dict[Path, int] = {}
    while True:
        chosen = _choose(folder.jobs, environment, round_)
        if not chosen and not follow:
            raise InputError("no Job of this run fits", hint="`hansa status` shows what there is")
        for path in chosen:
            shown[path] = _print_from(path, shown.get(path, 0))
        if not follow:
            return
        time.sleep(0.5)


def _choose(jobs: Path, environment: str | None, round_: int | None) -> list[Path]:
    """Logs that fit, by round, environment and name: an assignment tells more than a short name."""
    found = []
    for path in jobs.glob("*/assignment.json"):
        told = json.loads(path.read_text())
        number, who = told["round"], told.get("environment") or "aggregator"
        log = path.with_name("log.txt")
        if environment in (None, who) and round_ in (None, number) and log.exists():
            found.append((number, _ORDER.index(told["role"]), who, len(log.parent.name), log))
    return [log for *_, log in sorted(found)]


def _print_from(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        text = file.read()
    for line in text.decode(errors="replace").splitlines():
        print(f"{path.parent.name} | {line}", flush=True)
    return offset + len(text)
