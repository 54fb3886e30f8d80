"""TensorBoard: a folder for the federation, one in it for each silo, rounds as steps."""

from pathlib import Path

from hansa.tracking import eventfile
from hansa.tracking.base import Destination, Tracker
from hansa.tracking.record import Record, TrackedRun

FILE = "events.out.tfevents.0.hansa"
SETTINGS = "settings"
"""Tag of the text with the settings; scalars have other names."""


class TensorBoard(Tracker):
    """Writes event files itself: TensorBoard is needed only to look at them. It keeps no files."""

    def __init__(self, destination: Destination) -> None:
        destination.refuse("url", "experiment")
        self._out = destination.require_out("a folder for TensorBoard's files")

    def write(self, record: Record) -> None:
        """Add what is missing; half a record of a killed writer is cut off."""
        for run in record.runs:
            eventfile.update_file(self._locate_folder(record, run) / FILE, _build_events(run))

    def _locate_folder(self, record: Record, run: TrackedRun) -> Path:
        # The identity keeps apart the runs of federations with the same name.
        parent = f"{record.federation.name}-{record.federation.key[:8]}"
        return self._out / parent / run.key.partition("/")[2]


def _build_events(run: TrackedRun) -> list[bytes]:
    rows = [
        f"| {_format_cell(name)} | {_format_cell(value)} |"
        for name, value in run.parameters.items()
    ]
    table = "\n".join(["| setting | value |", "|---|---|", *rows])
    points = [
        eventfile.encode_scalar(p.metric, p.step, p.value, p.time.timestamp() if p.time else 0.0)
        for p in run.points
    ]
    return [eventfile.encode_text(SETTINGS, 0, table, 0.0), *points]


def _format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
