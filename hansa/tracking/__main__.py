"""hansa-tracker: hands the figures of its assignment to an experiment tracker, and ends."""

import os
import sys
from pathlib import Path

from pydantic import ValidationError

from hansa import logs, program
from hansa.assignment import ENV_ASSIGNMENT
from hansa.errors import HansaError, InputError, PermanentError, TrackerAway
from hansa.sentences import first_misfit
from hansa.tracking.base import Destination, open_tracker
from hansa.tracking.fields import FILES
from hansa.tracking.task import ENV_TRACKED, TrackerReport, TrackerTask

PROGRAM = "tracker"
USAGE = """usage: hansa-tracker [--warm]

Exports the figures in HANSA_ASSIGNMENT; `hansa run` and the operator start it for spec.tracking.
--warm waits for assignments on standard input and forks a process for each, for local runs.
"""
_FIELDS = {
    "--to": "spec.tracking.to",
    "--url": "spec.tracking.url",
    "--experiment": "spec.tracking.experiment",
    "--out": "spec.tracking.claim",
}
"""What a tracker calls by its option is a field here."""


def work() -> TrackerReport:
    """One export; the tracker holds each figure once, however often it is repeated."""
    text = program.read_assignment()
    try:
        task = TrackerTask.model_validate_json(text)
    except ValidationError as error:
        raise PermanentError(f"{ENV_ASSIGNMENT}: {first_misfit(error)}") from None
    record = task.record()
    try:
        open_tracker(task.to, _destination(task)).write(record)
    except InputError as error:
        raise InputError(_of_the_spec(error.message), hint=error.hint) from error
    except HansaError as error:  # a server that fails may do better later
        raise TrackerAway(_of_the_spec(error.message), hint=error.hint) from error
    points = sum(len(run.points) for run in record.runs)
    logs.get(PROGRAM).info("exported", to=task.to, runs=len(record.runs), figures=points)
    return TrackerReport(runs=len(record.runs), figures=points)


def _destination(task: TrackerTask) -> Destination:
    folder = os.environ.get(ENV_TRACKED, "")
    takes_files = task.to in FILES or not task.url
    out = Path(folder) if folder and takes_files else None
    return Destination(url=task.url, experiment=task.experiment, out=out)


def _of_the_spec(message: str) -> str:
    option, colon, rest = message.partition(": ")
    return f"{_FIELDS[option]}{colon}{rest}" if option in _FIELDS else message


def main() -> int:
    """Entry point of `hansa-tracker`."""
    return program.main(USAGE, lambda: program.run_told(PROGRAM, work))


if __name__ == "__main__":
    sys.exit(main())
