"""TensorBoard: a folder for the federation, one in it for each silo, rounds as steps."""

from collections.abc import Mapping
from pathlib import Path

from hansa.core.errors import InputError
from hansa.tracking import eventfile
from hansa.tracking.base import Destination
from hansa.tracking.record import Record, TrackedRun

FILE = "events.out.tfevents.0.hansa"
SETTINGS = "settings"
"""Tag of the text with the settings; scalars have other names."""


class TensorBoard:
    """Writes event files itself: TensorBoard is needed to look at them, not to make them."""

    def __init__(self, destination: Destination) -> None:
        destination.refuse("url", "experiment")
        if destination.out is None:
            raise InputError("--out: got nothing, expected a folder for TensorBoard's files")
        self._out = destination.out

    def write(self, record: Record) -> None:
        """Add what is not there; half of a killed writer's last record is cut off."""
        for run in record.runs:
            eventfile.update(self._folder(record, run) / FILE, _events(run))

    def wants_files(self, record: Record) -> bool:
        """TensorBoard has no place for files."""
        return False

    def write_files(self, record: Record, files: Mapping[str, Path]) -> None:
        """Nothing: nobody asks for it."""

    def _folder(self, record: Record, run: TrackedRun) -> Path:
        """Named after the identity too, so that runs of one name do not mix."""
        parent = f"{record.federation.name}-{record.federation.key[:8]}"
        _, _, silo = run.key.partition("/")
        return self._out / parent / silo


def _events(run: TrackedRun) -> list[bytes]:
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in run.parameters.items()]
    table = "\n".join(["| setting | value |", "|---|---|", *rows])
    points = [
        eventfile.scalar(p.metric, p.step, p.value, p.time.timestamp() if p.time else 0.0)
        for p in run.points
    ]
    return [eventfile.text(SETTINGS, 0, table, 0.0), *points]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
