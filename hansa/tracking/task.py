"""A tracker Job's assignment and its report: figures and settings, and nothing to fetch more with.

The Job is handed what it exports, so it needs no right on the cluster and no key of the bucket.
"""

from typing import Annotated, Literal

from pydantic import Field

from hansa.base import Model
from hansa.manifest import Count
from hansa.times import Time
from hansa.tracking.record import Point, Record, State, TrackedRun

ENV_TRACKED = "HANSA_TRACKED"
"""Folder for the files of trackers that write some."""
MOST_BYTES = 120_000
"""Linux starts no program with a variable longer than 128 KiB."""

Figures = dict[str, dict[str, float]]
"""By metric, then by round."""


class RunDocument(Model):
    """The federation as a whole, or one silo's part in it."""

    key: str
    """Identity."""
    name: str
    """What people read."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Settings by their path."""
    facts: dict[str, str] = Field(default_factory=dict)
    """What holds now."""
    figures: Figures = Field(default_factory=dict)
    """Figures by metric and round."""


class TrackerTask(Model):
    """What a tracker Job exports, and where to."""

    version: Literal[1] = 1
    """Version of this document."""
    role: Literal["tracker"] = "tracker"
    """What it does."""
    federation: str
    """Name of the federation."""
    to: str
    """The tracker."""
    url: str | None = None
    """Address of its server."""
    experiment: str | None = None
    """What the server files the runs under."""
    round: Count
    """Newest round that is exported."""
    state: State
    """How far the federation is."""
    started_at: Time | None = None
    """When its first round opened."""
    ended_at: Time | None = None
    """When its last round ended; absent while it runs."""
    times: dict[str, Time] = Field(default_factory=dict)
    """When each round ended."""
    runs: Annotated[list[RunDocument], Field(min_length=1)]
    """The federation's, then the silos'."""

    def record(self) -> Record:
        """What trackers take."""
        first, *others = [
            TrackedRun(
                key=each.key,
                name=each.name,
                parameters=each.parameters,
                facts=each.facts,
                points=self._points(each.figures),
            )
            for each in self.runs
        ]
        return Record(
            federation=first,
            silos=tuple(others),
            state=self.state,
            started_at=self.started_at,
            ended_at=self.ended_at,
        )

    def _points(self, figures: Figures) -> tuple[Point, ...]:
        points = [
            Point(metric=metric, step=int(step), value=value, time=self.times.get(step))
            for metric, steps in figures.items()
            for step, value in steps.items()
        ]
        return tuple(sorted(points, key=lambda point: (point.step, point.metric)))


class TrackerReport(Model):
    """What a tracker Job did."""

    kind: Literal["tracker"] = "tracker"
    """Which report this is."""
    runs: Count
    """Runs that the tracker holds now: the federation's, and one for each silo."""
    figures: Count
    """Figures that it was given; those that it had are not sent again."""


def make_task(
    record: Record,
    *,
    federation: str,
    to: str,
    url: str | None,
    experiment: str | None,
    round_: int,
) -> TrackerTask:
    """The assignment of a record: all its rounds, or the newest that a Job can be given.

    What was exported before is in the tracker already; with 100 silos some ten rounds fit.
    """
    steps = sorted({point.step for run in record.runs for point in run.points})
    while True:
        task = TrackerTask(
            federation=federation,
            to=to,
            url=url,
            experiment=experiment,
            round=round_,
            state=record.state,
            started_at=record.started_at,
            ended_at=record.ended_at,
            times=_times(record, set(steps)),
            runs=[_document(run, set(steps)) for run in record.runs],
        )
        size = len(task.model_dump_json(by_alias=True, exclude_none=True).encode())
        if size <= MOST_BYTES or len(steps) <= 1:
            return task
        steps = steps[-(len(steps) * 2 // 3) :]


def _document(run: TrackedRun, steps: set[int]) -> RunDocument:
    figures: Figures = {}
    for point in run.points:
        if point.step in steps:
            figures.setdefault(point.metric, {})[str(point.step)] = point.value
    return RunDocument(
        key=run.key,
        name=run.name,
        parameters=dict(run.parameters),
        facts=dict(run.facts),
        figures=figures,
    )


def _times(record: Record, steps: set[int]) -> dict[str, Time]:
    return {
        str(point.step): point.time
        for run in record.runs
        for point in run.points
        if point.time and point.step in steps
    }
