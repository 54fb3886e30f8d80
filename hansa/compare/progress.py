"""What a person sees while a comparison runs: a bar in a terminal, lines in a pipe."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from hansa.compare.comparison import Run
from hansa.compare.estimate import FirstRound
from hansa.compare.text import format_span
from hansa.core.sanitize import sanitize


def describe(first: FirstRound, seconds: float) -> str:
    """The estimate in words."""
    return (
        f"the first round of {first.method} (seed {first.seed}) took {format_span(first.seconds)} "
        f"of Job time: about {format_span(seconds)} for all that is left"
    )


class ProgressLines:
    """A line for each event; the base of every display of a comparison."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def began(self, run: Run) -> None:
        """A run has begun, or was resumed."""
        self._print(f"{run.method}, seed {run.seed}: begins")

    def at(self, run: Run, rounds: int) -> None:
        """A run has done this number of rounds; those are too many for lines."""

    def ended(self, run: Run, problem: str) -> None:
        """A run is over; a problem says why it has no result."""
        self._print(f"{run.method}, seed {run.seed}: {problem or 'done'}")

    def estimated(self, first: FirstRound, seconds: float) -> None:
        """How long all that is left will take."""
        self._print(describe(first, seconds))

    def _print(self, line: str) -> None:
        seconds = int(time.monotonic() - self._began)
        shown = f"{seconds // 60:02d}:{seconds % 60:02d} {sanitize(line)}"
        print(shown, file=sys.stderr, flush=True)


class Bar(ProgressLines):
    """One bar for all rounds of all runs, and one below it for each run at work."""

    def __init__(self, progress: Progress, runs: Sequence[Run]) -> None:
        super().__init__()
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._done = 0
        self._runs = len(runs)
        self._rounds = {run.id: 0 for run in runs}
        self._all = progress.add_task("", total=sum(_count_steps(run) for run in runs))
        self._update()

    def began(self, run: Run) -> None:
        """A run has started or resumed."""
        name = f"{run.method}, seed {run.seed}"
        self._tasks[run.id] = self._progress.add_task(name, total=_count_steps(run))

    def at(self, run: Run, rounds: int) -> None:
        """A run has done this number of rounds."""
        self._rounds[run.id] = rounds
        self._progress.update(self._tasks[run.id], completed=rounds)
        self._update()

    def ended(self, run: Run, problem: str) -> None:
        """A run is over."""
        self._progress.remove_task(self._tasks.pop(run.id))
        self._rounds[run.id] = _count_steps(run)
        self._done += not problem
        if problem:
            line = sanitize(f"{run.method}, seed {run.seed}: {problem}")
            self._progress.console.print(line, markup=False)
        self._update()

    def estimated(self, first: FirstRound, seconds: float) -> None:
        """How long it will take."""
        self._progress.console.print(describe(first, seconds), markup=False)

    def _update(self) -> None:
        done = sum(self._rounds.values())
        description = f"{self._done} of {self._runs} runs"
        self._progress.update(self._all, completed=done, description=description)


def _count_steps(run: Run) -> int:
    """Rounds of a run, and one step for what follows them."""
    return (run.federation.spec.rounds if run.kind.trains else 0) + 1


@contextmanager
def open_display(runs: Sequence[Run]) -> Iterator[ProgressLines]:
    """A bar for people at a terminal, lines for everything else."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield Bar(progress, runs)
