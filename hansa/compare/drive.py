"""Runs of a comparison as processes, a few at a time, until none is left.

A finished run is a result file; an unfinished one is resumed in its folder. A kill at any moment
loses only what the running Jobs were doing.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hansa.compare import estimate, results, worker
from hansa.compare.comparison import CheckedComparison, Run
from hansa.compare.estimate import FirstRound
from hansa.compare.progress import ProgressLines
from hansa.compare.worker import RUN_ORDER, RunOrder
from hansa.core.files import explain_os_errors, replace_file
from hansa.local.rundir import lock
from hansa.runtime.capacity import measure
from hansa.runtime.lifeline import die_with_parent
from hansa.runtime.stop_signals import raise_remembered_stop
from hansa.runtime.warm_parent import read_last_sentence

TICK_SECONDS = 0.25
STOP_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """How to carry it out."""

    out: Path
    """Folder that keeps everything."""
    jobs: int | None = None
    """Runs at a time; absent: by cores, GPUs and memory."""
    parallel: int | None = None
    """Jobs of a run at a time; absent: what is left of the machine."""
    keep: bool = False
    """Whether folders of finished runs are kept."""
    stop_after: float | None = None
    """Seconds after which it stops, to be resumed later."""
    only_estimate: bool = False
    """Whether to stop as soon as the time is estimated."""


@dataclass(frozen=True, kw_only=True)
class ComparisonOutcome:
    """How it ended."""

    problems: dict[str, str]
    """Runs that failed, and why."""
    stopped: str = ""
    """Why it stopped before the end, where it did."""


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Lock the comparison's folder: two processes must not work on the same runs."""
    with explain_os_errors(f"--out: got {out}"):
        (out / results.RESULTS).mkdir(parents=True, exist_ok=True)
    with lock(out, "hansa compare"):
        yield


def tidy(wanted: CheckedComparison, out: Path) -> None:
    """Remove what a kill left of finished runs."""
    for run in wanted.runs:
        if results.file(out, run).exists():
            shutil.rmtree(worker.run_folder(out, run), ignore_errors=True)
            _log(out, run).unlink(missing_ok=True)
            _order_path(out, run).unlink(missing_ok=True)


def _log(out: Path, run: Run) -> Path:
    return out / worker.RUNS / f"{run.id}.log"


def _order_path(out: Path, run: Run) -> Path:
    return out / worker.RUNS / f"{run.id}.json"


def list_pending(wanted: CheckedComparison, out: Path, only: Sequence[str] = ()) -> list[Run]:
    """Runs without a result, one that tells most about the time first."""
    left = [
        run
        for run in wanted.runs
        if (not only or run.method in only) and not results.file(out, run).exists()
    ]
    telling = next(iter(list_telling(left)), None)
    return [telling, *(run for run in left if run is not telling)] if telling else left


def list_telling(runs: Sequence[Run]) -> list[Run]:
    """Those whose first round tells about the time: they explore, or at least train."""
    training = [run for run in runs if run.kind.trains]
    exploring = [run for run in training if run.federation.spec.exploration.tasks_per_round]
    return exploring or training


class _Worker:
    """One run's process."""

    def __init__(
        self, run: Run, slot: int, options: CompareOptions, parallel: int, own: dict[str, str]
    ) -> None:
        self.run = run
        self.slot = slot
        self.began = time.monotonic()
        self.folder = worker.run_folder(options.out, run)
        self.log = _log(options.out, run)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        order = _order_path(options.out, run)
        wanted = RunOrder(run=run, out=options.out.resolve(), parallel=parallel, keep=options.keep)
        replace_file(order, RUN_ORDER.dump_json(wanted, by_alias=True, exclude_none=True))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hansa.compare.worker", str(order)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own},
                preexec_fn=partial(die_with_parent, os.getpid()),  # only prctl runs in it
                start_new_session=True,  # Ctrl-C stops this process, which then stops the workers
            )

    def rounds(self) -> int:
        """Rounds that it has done."""
        try:
            status = json.loads((self.folder / "federation.json").read_bytes())["status"]
        except (OSError, ValueError, KeyError):
            return 0
        return int(status.get("completed", 0))

    def problem(self) -> str:
        """Why it has failed; empty when it has not."""
        if self.process.returncode == 0:
            return ""
        return read_last_sentence(self.log) or f"ended with {self.process.returncode}"


class Drive:
    """The runs that are left, those at work, and what came of them."""

    def __init__(self, runs: list[Run], options: CompareOptions, shown: ProgressLines) -> None:
        self._left = list(runs)
        self._options = options
        self._shown = shown
        self._working: list[_Worker] = []
        self._problems: dict[str, str] = {}
        self._first: FirstRound | None = None
        self._telling = {run.id for run in list_telling(runs)}
        threads = max((run.federation.spec.training.cpu_threads for run in runs), default=1)
        capacity = measure(threads=threads)
        self.jobs = min(options.jobs or capacity.slots, max(1, len(runs)))
        self.parallel = options.parallel or max(1, capacity.slots // self.jobs)
        self._environ = capacity.environ

    def carry_out(self, clock: Callable[[], float] = time.monotonic) -> ComparisonOutcome:
        """Work until nothing is left, or until it is time to stop."""
        began = clock()
        end = self._options.stop_after
        stopped = ""
        try:
            while (self._left or self._working) and not stopped:
                raise_remembered_stop()
                self._fill()
                self._look()
                if self._first and self._options.only_estimate:
                    stopped = "the time is estimated"
                elif end is not None and clock() - began >= end:
                    stopped = f"{end:g} s are over"
                else:
                    time.sleep(TICK_SECONDS)
        finally:
            self._stop()
        return ComparisonOutcome(problems=self._problems, stopped=stopped)

    def _fill(self) -> None:
        busy = {one.slot for one in self._working}
        for slot in range(self.jobs):
            if slot in busy or not self._left:
                continue
            run = self._left.pop(0)
            self._shown.began(run)
            placed = self._environ(slot)
            self._working.append(_Worker(run, slot, self._options, self.parallel, placed))

    def _look(self) -> None:
        for one in list(self._working):
            self._shown.at(one.run, one.rounds())
            if self._first is None and one.run.id in self._telling:
                self._estimate(one)
            if one.process.poll() is None:
                continue
            self._working.remove(one)
            problem = one.problem()
            if problem:
                self._problems[one.run.id] = problem
            self._shown.ended(one.run, problem)

    def _estimate(self, one: _Worker) -> None:
        self._first = estimate.find(one.run, one.folder)
        if self._first:
            runs = [*self._left, *(other.run for other in self._working)]
            seconds = estimate.estimate_runs(self._first, runs) / (self.jobs * self.parallel)
            # What a run needs beside its Jobs: imports, a store, the pauses between them.
            beside = time.monotonic() - one.began - self._first.seconds / self.parallel
            seconds += max(0.0, beside) * len(runs) / self.jobs
            self._shown.estimated(self._first, seconds)

    def _stop(self) -> None:
        """Stop the running processes; they are resumed later."""
        for one in self._working:
            one.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_PATIENCE_SECONDS
        for one in self._working:
            try:
                one.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
