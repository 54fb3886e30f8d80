"""One run of a comparison, in a process of its own: run it, score it, write its result."""

import platform
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from hansa.api.bucket_documents import TaskTallies
from hansa.api.status import Federation
from hansa.compare import results, scoring
from hansa.compare.collect import Finished, make_empty_result, read_result
from hansa.compare.comparison import Run
from hansa.compare.results import Row, RunResult
from hansa.core.errors import HansaError
from hansa.core.exits import Exit
from hansa.core.files import replace_file
from hansa.local.display import PlainDisplay
from hansa.local.loop import RunOptions, open_embedded, use_embedded
from hansa.local.loop import run as run_loop
from hansa.local.rundir import RunDir
from hansa.runtime.capacity import count_usable_cores, list_visible_gpus
from hansa.store.base import ObjectStore

RUNS = "runs"
"""Folder of the runs that are not over, inside that of the comparison."""
Adapters = dict[str, tuple[int, bytes]]
"""Adapters by environment: the round that made each, and its bytes."""
_SECONDS = "seconds.log"
"""File with the seconds of earlier attempts, in the run's folder."""


def run_folder(out: Path, run: Run) -> Path:
    """Where a run is at work; it goes when its result is written."""
    return out / RUNS / run.id


def carry_out(run: Run, out: Path, *, parallel: int | None, keep: bool) -> RunResult:
    """Run or resume it to its end, and write its result."""
    folder = RunDir(run_folder(out, run))
    _remove_other_run(run, folder)
    folder.prepare()
    began = time.monotonic()
    try:
        result = _measure(run, folder, parallel)
    finally:
        seconds = _read_earlier_seconds(folder) + time.monotonic() - began
        replace_file(folder.path / _SECONDS, str(round(seconds, 1)).encode())
    result = result.model_copy(update={"wall_seconds": round(seconds, 1)})
    results.write(out, run, result)
    if not keep:
        shutil.rmtree(folder.path, ignore_errors=True)
    return result


def _remove_other_run(run: Run, folder: RunDir) -> None:
    """Remove a run that was begun with another spec: resuming it would mix two methods."""
    if folder.object.exists() and folder.load().spec != run.federation.spec:
        shutil.rmtree(folder.path)


def _read_earlier_seconds(folder: RunDir) -> float:
    try:
        return float((folder.path / _SECONDS).read_text())
    except (OSError, ValueError):
        return 0.0


def _measure(run: Run, folder: RunDir, parallel: int | None) -> RunResult:
    result, adapters = (
        _train(run, folder, parallel)
        if run.kind.trains
        else (make_empty_result(run, describe_machine()), {})
    )
    if not adapters and run.kind.trains:
        return result
    with folder.lock(), open_embedded(folder, use_embedded(run.federation)) as store:
        scored = scoring.score(run, folder, store, adapters, parallel)
    return result.model_copy(update={"rows": [*result.rows, *_build_foreign_rows(run, scored)]})


def _train(run: Run, folder: RunDir, parallel: int | None) -> tuple[RunResult, Adapters]:
    """Run the federation to its end; what it measured, and adapters to score elsewhere."""
    outcomes: list[tuple[RunResult, Adapters]] = []

    def collect(ended: Federation, folder: RunDir, store: ObjectStore) -> None:
        if ended.status.phase == "Succeeded":
            finished = Finished(run, store, ended.metadata.name, ended.status.round)
            made = read_result(run, finished, ended.status, describe_machine())
            adapters = finished.own_adapters()
            if run.unseen:
                adapters = {scoring.SHARED: (made.final, finished.shared_adapter(made.final))}
            outcomes.append((made, adapters))

    options = RunOptions(embedded=True, parallel=parallel)
    status = run_loop(run.federation, folder, options, PlainDisplay(), collect).status
    if not outcomes:
        progressing = next((c for c in status.conditions if c.type == "Progressing"), None)
        raise HansaError(progressing.message if progressing else status.phase)
    return outcomes[0]


def _build_foreign_rows(run: Run, scored: dict[str, TaskTallies]) -> list[Row]:
    """Rows of the base, and of adapters in worlds that are not their own."""
    return [
        results.row(run, environment, tasks, tallies.adapter.round, whose, greedy)
        for name, tallies in scored.items()
        for whose in ["" if name in (scoring.BASE, scoring.SHARED) else name]
        for environment, (tasks, greedy) in results.split_by_environment(run, tallies).items()
        if tasks
    ]


def describe_machine() -> str:
    """What this runs on, in a few words."""
    gpus = len(list_visible_gpus())
    shown = f", {gpus} GPU" if gpus else ""
    return f"{platform.machine()}, {count_usable_cores()} cores{shown}"


@dataclass(frozen=True, kw_only=True)
class RunOrder:
    """What a worker carries out; it never reads the comparison, which may have changed since."""

    run: Run
    out: Path
    """Folder of the comparison."""
    parallel: int
    keep: bool


RUN_ORDER = TypeAdapter(RunOrder)


def main() -> int:
    """`python -m hansa.compare.worker FILE`, with an order in the file."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    order = RUN_ORDER.validate_json(Path(sys.argv[1]).read_bytes())
    try:
        carry_out(order.run, order.out, parallel=order.parallel, keep=order.keep)
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM
    except HansaError as error:
        print(error.message, file=sys.stderr)
        return int(error.exit) or int(Exit.CRASHED)
    return int(Exit.DONE)


if __name__ == "__main__":
    sys.exit(main())
