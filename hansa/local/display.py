"""What a person sees of a local run: a live table in a terminal, plain lines in a pipe."""

import os
import sys
import time
from typing import Any

from rich.console import Console, Group
from rich.control import Control
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hansa.api.jobs import Event, ObservedJob
from hansa.api.status import EnvironmentStatus, Federation
from hansa.core.sanitize import sanitize
from hansa.local import timeleft
from hansa.local.executor import LocalExecutor

STYLES = {"Updated": "green", "Running": "cyan", "Failed": "red", "Retrying": "yellow"}


def compute_mean(success: dict[str, float]) -> float:
    """Mean over environments."""
    return sum(success.values()) / len(success) if success else 0.0


class PlainDisplay:
    """One line per thing that happened; for logs and pipes."""

    def __init__(self) -> None:
        self._shown: dict[int, int] = {}
        self._began = time.monotonic()

    def __enter__(self) -> "PlainDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(
        self, federation: Federation, jobs: list[ObservedJob], executor: LocalExecutor
    ) -> None:
        """A line for every adapter that was newly evaluated by all."""
        del jobs, executor
        for entry in federation.status.history:
            count = len(entry.success)
            complete = count == len(federation.spec.environments)
            if complete and self._shown.get(entry.round) != count:
                self._shown[entry.round] = count
                worlds = "  ".join(f"{n} {r:4.0%}" for n, r in sorted(entry.success.items()))
                self._print(
                    f"adapter {entry.round}: success {compute_mean(entry.success):5.1%}  {worlds}"
                )

    def tell(self, event: Event) -> None:
        """The event as a line."""
        self._print(f"{'warning: ' if event.warning else ''}{event.message}")

    def _print(self, text: str) -> None:
        seconds = int(time.monotonic() - self._began)
        line = f"{seconds // 60:02d}:{seconds % 60:02d} {sanitize(text)}"
        try:
            print(line, file=sys.stderr, flush=True)
        except OSError:  # the reader is gone (SIGPIPE), which must not end hours of work
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class LiveDisplay:
    """A table that is redrawn in place: round, time left, and one line per environment."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        # Drawn by the loop alone, which calls several times a second: no other thread draws
        # between a look at the terminal's size and what is drawn for it.
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._size = self._console.size
        self._warnings: list[Text] = []
        self._began = time.monotonic()
        self._done_before: float | None = None

    def __enter__(self) -> "LiveDisplay":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._handle_resize()
        self._live.stop()

    def show(
        self, federation: Federation, jobs: list[ObservedJob], executor: LocalExecutor
    ) -> None:
        """Redraw."""
        self._handle_resize()
        progress = {job.environment: executor.progress(job.name) for job in jobs if job.is_active}
        headline = self._headline(federation, self._left(federation, progress))
        self._live.update(Group(headline, _table(federation, progress)), refresh=True)

    def tell(self, event: Event) -> None:
        """Warnings stay on the screen; the rest shows in the table."""
        if event.warning:
            self._handle_resize()
            self._warnings.append(Text(sanitize(f"warning: {event.message}"), style="yellow"))
            self._console.print(self._warnings[-1])

    def _handle_resize(self) -> None:
        """Begin anew on a terminal that was resized.

        It may have wrapped the old table into more rows, or taken some back from above the screen,
        and does not say so: whatever is visible goes, and the warnings are written again.
        """
        size = self._console.size
        if size == self._size:
            return
        self._size = size
        self._console.control(Control.clear(), Control.home())
        for warning in self._warnings:
            self._console.print(warning)

    def _left(self, federation: Federation, progress: dict[str, dict[str, Any]]) -> str:
        if federation.status.phase != "Running":
            return ""
        if unknown := _describe_last_step(federation):
            return f", {unknown}"
        done, whole = timeleft.measure_work(federation, progress)
        if self._done_before is None:  # what an earlier command did says nothing about the pace
            self._done_before = done
        seconds = time.monotonic() - self._began
        left = timeleft.estimate_seconds_left(seconds, done - self._done_before, whole - done)
        return ", time left not known yet" if left is None else f", about {_span(left)} left"

    def _headline(self, federation: Federation, left: str) -> Text:
        status, rounds = federation.status, federation.spec.rounds
        seconds = time.monotonic() - self._began
        best = f"  best {float(status.best.success):.1%}" if status.best else ""
        success = (
            f"success {float(status.success):.1%}" if status.success else "evaluating the base"
        )
        filled = round(30 * status.completed / rounds)
        bar = "█" * filled + "░" * (30 - filled)
        return Text.from_markup(
            f"[bold]{federation.metadata.name}[/]  {bar} round {status.completed}/{rounds}  "
            f"[bold]{success}[/]{best}  [dim]{_span(seconds)}{left}[/]"
        )


def _describe_last_step(federation: Federation) -> str:
    """What silos do after the last round, which takes as many rounds as it takes."""
    current = federation.status.current
    if current is None or current.kind == "round":
        return ""
    if federation.spec.personalization != "none":
        return "silos choose what they serve"
    return "silos evolve alone, to compare" if federation.spec.evaluation.alone else ""


def _table(federation: Federation, progress: dict[str, dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("environment", "state", "doing", "start", "now", "explored", "experience"):
        table.add_column(title, justify="left" if title in ("environment", "state") else "right")
    history = federation.status.history
    start = history[0].success if history else {}
    for environment in federation.status.environments:
        table.add_row(*_row(environment, start, progress.get(environment.name, {})))
    return table


def _row(
    environment: EnvironmentStatus, start: dict[str, float], progress: dict[str, Any]
) -> list[Text | str]:
    doing = "starting" if environment.state == "Running" else ""
    if progress.get("total"):
        doing = f"{progress.get('phase', '')} {progress.get('done', 0)}/{progress['total']}"
        if "successes" in progress:
            doing += f" ({progress['successes']} ok)"
    first = start.get(environment.name)
    explored = f"{environment.succeeded}/{environment.explored}" if environment.explored else ""
    if environment.epsilon is not None:  # how many were successful is the silo's own
        explored = str(environment.explored)
    explored += f" ({environment.broken} broken)" if environment.broken else ""
    return [
        environment.name,
        Text(environment.state, style=STYLES.get(environment.state, "dim")),
        Text(sanitize(doing)),
        f"{first:.0%}" if first is not None else "",
        f"{float(environment.success):.0%}" if environment.success else "",
        explored,
        str(environment.experience or ""),
    ]


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


Display = PlainDisplay | LiveDisplay


def choose() -> Display:
    """A table for people at a terminal, lines for everything else."""
    return LiveDisplay() if Console(stderr=True).is_terminal else PlainDisplay()
