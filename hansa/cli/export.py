"""`hansa export`: a run's figures into an experiment tracker."""

import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli import target
from hansa.cli.common import say, say_lost
from hansa.core.errors import InputError, TrackerUnreachable

if TYPE_CHECKING:
    from hansa.publish.tracked_run import RunSource
    from hansa.tracking.base import Tracker
    from hansa.tracking.record import Record

PATIENCE_SECONDS = 5.0
"""Pause before a tracker that did not answer is asked again, while a run is followed."""


def export(
    run: target.Run,
    cluster: target.ClusterOptions,
    to: Annotated[
        str, typer.Option("--to", help="mlflow, tensorboard, wandb, or one of another package.")
    ],
    url: Annotated[
        str | None,
        typer.Option(help="Address of the tracker's server; default: $MLFLOW_TRACKING_URI."),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(help="Experiment of MLflow, or project of W&B, to file it under."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the files of tensorboard or wandb.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until the run has ended.")
    ] = False,
    artifacts: Annotated[
        bool,
        typer.Option(help="Send the final adapter and the report page, without episodes, too."),
    ] = True,
    credentials: target.Credentials = None,
) -> None:
    """Send a run's figures and settings to an experiment tracker: MLflow, TensorBoard or W&B.

    No text of an episode is sent. Exporting again adds what is new, and nothing twice.
    """
    from hansa.tracking.base import Destination, open_tracker

    tracker = open_tracker(to, Destination(url=url, experiment=experiment, out=out))
    source = _open(run, credentials, cluster)
    if follow:
        record = _follow(source, tracker)
    else:
        tracker.write(record := source.read())
    sent = _send_files(source, tracker, record) if artifacts and record.state != "running" else 0
    points = sum(len(each.points) for each in record.runs)
    files = f", {sent} files" if sent else ""
    say(f"{to}: {record.federation.name}: {len(record.runs)} runs, {points} figures{files}")


def _open(run: str, credentials: Path | None, cluster: target.ClusterOptions) -> "RunSource":
    """A run on this machine, or a federation on the cluster."""
    from hansa.publish.tracked_run import LocalRun, OnCluster

    if folder := cluster.find_run(run):
        folder.load()  # says what is wrong with it
        return LocalRun(folder, credentials, say)
    return OnCluster(cluster.open(), run, say_lost)


def _follow(source: "RunSource", tracker: "Tracker") -> "Record":
    last: Record | None = None
    for last, _ in groupby(source.follow()):  # a status also changes in what no tracker holds
        _insist(tracker, last)
    if last is None:
        raise InputError("RUN: got nothing to follow")
    return last


def _insist(tracker: "Tracker", record: "Record") -> None:
    """Write, and retry while the tracker does not answer."""
    said = False
    while True:
        try:
            tracker.write(record)
            return
        except TrackerUnreachable as error:
            if not said:
                say(f"{error.message}; trying again")
            said = True
            time.sleep(PATIENCE_SECONDS)


def _send_files(source: "RunSource", tracker: "Tracker", record: "Record") -> int:
    if not tracker.wants_files(record):
        return 0
    with source.files() as files:
        if files:
            tracker.write_files(record, files)
        return len(files)
