"""`hansa compare`: methods and seeds over one federation, as one table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli import target
from hansa.cli.common import INTERRUPTED, Format, Output, print_data, say, show_error, to_yaml
from hansa.core.errors import InputError, Unreachable
from hansa.core.exits import Exit
from hansa.publish.bucket import check_name, set_endpoint, suggest_forward

if TYPE_CHECKING:
    from hansa.api.status import Federation
    from hansa.compare.comparison import CheckedComparison, Run
    from hansa.compare.drive import CompareOptions, ComparisonOutcome
    from hansa.compare.results import RunResult
    from hansa.store.base import ObjectStore

ROOT = Path("runs")


_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="YAML with federation, seeds and methods.")
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for all results; default: runs/NAME-compare."),
]
_Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Run only this method; may be given several times."),
]
_Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Runs at a time; default: by cores, GPUs and memory."),
]
_Parallel = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Jobs of one run at a time; default: the same, shared out."),
]
_StopAfter = Annotated[
    float | None, typer.Option(min=1, help="Stop after this many seconds; run it again to resume.")
]


def compare(
    file: _File,
    access: target.StoreAccess,
    out: _Out = None,
    only: _Only = None,
    jobs: _Jobs = None,
    parallel: _Parallel = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Play one round, say how long it takes, and stop.")
    ] = False,
    stop_after: _StopAfter = None,
    report_only: Annotated[
        bool,
        typer.Option(
            "--report-only", help="Run nothing; print the table of the results that exist."
        ),
    ] = False,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep the folder of each run after it has ended.")
    ] = False,
    manifests: Annotated[
        bool,
        typer.Option("--manifests", help="Print the runs as Federations for a cluster, and stop."),
    ] = False,
    collect: Annotated[
        bool,
        typer.Option("--collect", help="Run nothing; read the results of runs on the cluster."),
    ] = False,
    output: Output = Format.TABLE,
) -> int:
    """Run every method with every seed, and print one table; run it again to resume.

    On a cluster: `hansa compare FILE --manifests | kubectl apply -f -`, then --collect.
    """
    from hansa.compare import comparison, drive, results

    chosen = {"--estimate": estimate, "--report-only": report_only, "--manifests": manifests}
    _check_one({**chosen, "--collect": collect})
    wanted = comparison.read(file, here=not (manifests or collect or report_only))
    methods = _check_only(wanted, only or [])
    folder = out or ROOT / f"{wanted.name}-compare"
    code = int(Exit.DONE)
    if manifests:
        return _print_manifests(wanted, drive.list_pending(wanted, folder, methods))
    if collect:
        _collect(wanted, methods, folder, access)
    elif not report_only:
        options = drive.CompareOptions(out=folder, jobs=jobs, parallel=parallel)
        options = replace(options, stop_after=stop_after, keep=keep_runs, only_estimate=estimate)
        code = _carry_out(wanted, methods, options)
    if estimate or code >= INTERRUPTED:  # stopped by a person, or by a signal
        return code
    return max(code, _print_report(wanted, results.read_results(folder, wanted), folder, output))


def _check_one(chosen: dict[str, bool]) -> None:
    given = [name for name, is_given in chosen.items() if is_given]
    if len(given) > 1:
        raise InputError(f"got {' and '.join(given)}, expected one of them")


def _print_manifests(wanted: "CheckedComparison", runs: "list[Run]") -> int:
    """All that have no result yet; applying one again changes nothing."""
    from hansa.api.status import Federation
    from hansa.cli.validate import say_consents
    from hansa.compare import cluster

    documents = cluster.make_manifests(wanted, runs)
    for document in documents:
        print("---")
        print(to_yaml(document), end="")
    say_consents([Federation.model_validate(document) for document in documents])
    if any(not run.kind.trains for run in runs):
        say("the base model is no Federation: its result is read from the others' first evaluation")
    return int(Exit.DONE)


def _collect(
    wanted: "CheckedComparison", only: list[str], folder: Path, access: target.StoreAccess
) -> None:
    """Write the results of all runs that are over, and say of the others how far they are."""
    from hansa.compare import cluster, drive, results
    from hansa.local.credentials import pick_reader, read_credentials
    from hansa.local.loop import own_store

    given = access.credentials
    variables = pick_reader(read_credentials(given)) if given else None

    def opened(federation: "Federation") -> "ObjectStore":
        federation = set_endpoint(federation, access.endpoint)
        if federation.spec.storage:
            check_name(federation.spec.storage.s3)
        return own_store(federation.spec, variables)

    objects = {item["metadata"]["name"]: item for item in access.open().all()}
    with drive.lock_folder(folder):
        known = results.read_results(folder, wanted)  # one of another spec is refused
        runs = drive.list_pending(wanted, folder, only)
        try:
            done, missing = cluster.collect(wanted, runs, objects, opened, known.values())
        except Unreachable as error:
            hint = suggest_forward(wanted.storage.s3) if wanted.storage else error.hint
            raise Unreachable(error.message, hint=hint) from None
        for run, result in done:
            results.write(folder, run, result)
    for name, why in missing.items():
        say(f"{name}: {why}")


def _check_only(wanted: "CheckedComparison", only: list[str]) -> list[str]:
    for name in only:
        if name not in wanted.methods:
            known = ", ".join(wanted.methods)
            raise InputError(f"--only: got '{name}', expected one of {known}")
    return only


def _carry_out(wanted: "CheckedComparison", only: list[str], options: "CompareOptions") -> int:
    from hansa.compare import drive, results

    with drive.lock_folder(options.out):
        results.read_results(options.out, wanted)  # one of another spec is refused before any work
        if not options.keep:
            drive.tidy(wanted, options.out)
        code = _drive(drive.list_pending(wanted, options.out, only), options)
        if not options.keep:
            drive.tidy(wanted, options.out)
    return code


def _drive(runs: "list[Run]", options: "CompareOptions") -> int:
    from hansa.compare import drive, progress
    from hansa.runtime.stop_signals import stop_on_signals

    if not runs:
        say("every run is over: nothing is left to do")
        return int(Exit.DONE)
    if options.only_estimate and not drive.list_telling(runs):
        raise InputError("--estimate: got only runs that do not train, expected one that does")
    left = "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"
    say(f"{left} left; everything is kept in {options.out}")
    stop_on_signals()
    try:
        with progress.open_display(runs) as shown:
            work = drive.Drive(runs, options, shown)
            outcome = work.carry_out()
    except KeyboardInterrupt as stop:
        say(
            f"stopped; nothing is lost: run the same command again to resume (folder {options.out})"
        )
        return stop.args[0] if stop.args else INTERRUPTED
    return _say_outcome(outcome, options)


def _say_outcome(outcome: "ComparisonOutcome", options: "CompareOptions") -> int:
    if outcome.stopped:
        again = f"run the same command again to resume (folder {options.out})"
        say(f"stopped, since {outcome.stopped}: {again}")
    if not outcome.problems:
        return int(Exit.DONE)
    first, why = next(iter(outcome.problems.items()))
    hint = f"{options.out / 'runs'} has their logs; run the same command to retry them"
    show_error(f"{len(outcome.problems)} of the runs failed; {first}: {why}", hint)
    return int(Exit.CRASHED)


def _print_report(
    wanted: "CheckedComparison", known: "dict[str, RunResult]", folder: Path, output: Format
) -> int:
    """Write the page and the JSON, and print the table."""
    from hansa.compare import page, table, text
    from hansa.compare.results import RESULTS
    from hansa.core.files import replace_file

    if not known:
        raise InputError(
            f"--out: got {folder}, which has no result of this comparison yet",
            hint="run it without --report-only",
        )
    made = table.build(wanted, known)
    data = table.to_data(made)
    replace_file(folder / "compare.json", (json.dumps(data, ensure_ascii=False) + "\n").encode())
    replace_file(folder / "compare.html", page.render(made).encode())
    if output is Format.TABLE:
        _show(
            [
                [t.upper() for t in text.heads(data)],
                *(text.format_cells(data, e) for e in data["table"]),
            ]
        )
    else:
        print_data(data, output)
    if made.missing:
        begun = {result.method for result in made.results}
        say(f"missing: {text.name_missing(made.missing, begun)}")
    for name in (run for run in made.missing if run in known):
        say(
            f"{name}: a world was not played with its last adapter; to run it again remove "
            f"{folder / RESULTS / name}.json"
        )
    say(f"page: {folder / 'compare.html'}\ndata: {folder / 'compare.json'}")
    return int(Exit.DONE)


def _show(rows: list[list[str]]) -> None:
    """The table, in as many blocks as the terminal is narrow."""
    from hansa.cli import screen
    from hansa.cli.views.federation import RowTable as Rows
    from hansa.compare import text

    for index, (titles, *cells) in enumerate(text.split_columns(rows, screen.wide_console().width)):
        if index:
            print()
        screen.show(screen.table(Rows(titles=tuple(titles), rows=[tuple(row) for row in cells])))
