"""`hansa compare`: methods and seeds over one federation, as one table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import INTERRUPTED, Format, Output, print_data, say
from hansa.errors import InputError
from hansa.exits import Exit

if TYPE_CHECKING:
    from hansa.compare.comparison import Run, Wanted
    from hansa.compare.drive import Options, Outcome
    from hansa.compare.results import Result

ROOT = Path("runs")


def compare(
    file: Annotated[Path, typer.Argument(help="The comparison: federation, seeds and methods.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder that keeps everything; default: runs/NAME-compare."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A method to run; repeatable.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=256, help="Runs at a time; default: by the machine.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, max=256, help="Jobs of one run at a time.")
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Play one round, say how long it takes, and stop.")
    ] = False,
    stop_after: Annotated[
        float | None, typer.Option(min=1, help="Stop after so many seconds, to go on later.")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing; make the table of what is there.")
    ] = False,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep the folder of each run that is over.")
    ] = False,
    output: Output = Format.TABLE,
) -> int:
    """Run every method with every seed, or go on with them, and print one table."""
    from hansa.compare import comparison, drive, results

    wanted = comparison.read(file)
    _check_only(wanted, only or [])
    folder = out or ROOT / f"{wanted.name}-compare"
    options = drive.Options(
        out=folder,
        jobs=jobs,
        parallel=parallel,
        keep=keep_runs,
        stop_after=stop_after,
        only_estimate=estimate,
    )
    if report_only:
        return _report(wanted, results.read_all(folder, wanted), folder, output)
    with drive.locked(folder):
        results.read_all(folder, wanted)  # a result of another spec is refused before any work
        if not keep_runs:
            drive.tidy(wanted, folder)
        code = _carry_out(drive.pending(wanted, folder, only or []), options)
        if not keep_runs:
            drive.tidy(wanted, folder)
        if estimate or code >= INTERRUPTED:  # stopped by a person, or by a signal
            return code
        return max(code, _report(wanted, results.read_all(folder, wanted), folder, output))


def _check_only(wanted: "Wanted", only: list[str]) -> None:
    for name in only:
        if name not in wanted.methods:
            known = ", ".join(wanted.methods)
            raise InputError(f"--only: got '{name}', expected one of {known}")


def _carry_out(runs: "list[Run]", options: "Options") -> int:
    from hansa.cli.run import stop_on_signals
    from hansa.compare import drive, progress

    if not runs:
        say("every run is over: nothing is left to do")
        return int(Exit.DONE)
    left = "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"
    say(f"{left} left; everything is kept in {options.out}")
    stop_on_signals()
    try:
        with progress.shown(runs) as shown:
            work = drive.Drive(runs, options, shown)
            outcome = work.carry_out()
    except KeyboardInterrupt as stop:
        say(f"stopped; nothing is lost: the same command goes on (folder {options.out})")
        return stop.args[0] if stop.args else INTERRUPTED
    return _say_how_it_ended(outcome, options)


def _say_how_it_ended(outcome: "Outcome", options: "Options") -> int:
    if outcome.stopped:
        say(f"stopped, since {outcome.stopped}: the same command goes on (folder {options.out})")
    if not outcome.problems:
        return int(Exit.DONE)
    first, why = next(iter(outcome.problems.items()))
    say(f"error: {len(outcome.problems)} of the runs failed; {first}: {why}")
    say(f"\nhint: {options.out / 'runs'} has their logs; the same command tries them again")
    return int(Exit.CRASHED)


def _report(wanted: "Wanted", found: "dict[str, Result]", folder: Path, output: Format) -> int:
    """Write the page and the JSON, and print the table."""
    import json

    from hansa.compare import page, table, text
    from hansa.program import replace

    if not found:
        raise InputError(
            f"--out: got {folder}, which has no result of this comparison yet",
            hint="run it without --report-only",
        )
    made = table.build(wanted, found)
    data = table.to_data(made)
    replace(folder / "compare.json", (json.dumps(data, ensure_ascii=False) + "\n").encode())
    replace(folder / "compare.html", page.render(made).encode())
    if output is Format.TABLE:
        _show(
            [[t.upper() for t in text.heads(data)], *(text.cells(data, e) for e in data["table"])]
        )
    else:
        print_data(data, output)
    if made.missing:
        say(f"missing: {', '.join(made.missing)}")
    say(f"page: {folder / 'compare.html'}\ndata: {folder / 'compare.json'}")
    return int(Exit.DONE)


def _show(rows: list[list[str]]) -> None:
    """The table, in as many blocks as the terminal is narrow."""
    from hansa.cli import screen
    from hansa.cluster.view import Table as Rows
    from hansa.compare import text

    for index, (titles, *cells) in enumerate(text.blocks(rows, screen.wide_console().width)):
        if index:
            print()
        screen.show(screen.table(Rows(titles=tuple(titles), rows=[tuple(row) for row in cells])))
