"""What a tracker is, and which there are: builtin ones and those of packages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hansa.core.entry_points import Builtin, Registry
from hansa.core.errors import InputError
from hansa.tracking.record import Record

BUILTIN: dict[str, Builtin] = {
    "mlflow": Builtin("hansa.tracking.mlflow:MLflow", "A server of MLflow"),
    "tensorboard": Builtin("hansa.tracking.tensorboard:TensorBoard", "Files for TensorBoard"),
    "wandb": Builtin("hansa.tracking.wandb:WandB", "Offline runs of Weights & Biases"),
}
TRACKERS = Registry(group="hansa.trackers", builtin=BUILTIN)
"""Every tracker of this machine; packages offer a function like `Opener`, such as a class."""


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a tracker writes, as the command line says it; each takes what it needs."""

    url: str | None = None
    """Address of a server."""
    experiment: str | None = None
    """What the server files the runs under."""
    out: Path | None = None
    """Folder for files."""

    def refuse(self, *unused: str) -> None:
        """Refuse options that this tracker does not have, instead of ignoring them."""
        for option in unused:
            got = getattr(self, option)
            if got is not None:
                raise InputError(f"--{option}: got {got}, but this tracker takes no --{option}")

    def require_out(self, what: str) -> Path:
        """The path of `--out`, which this tracker needs."""
        if self.out is None:
            raise InputError(f"--out: got nothing, expected {what}")
        return self.out


class Tracker(Protocol):
    """A place for figures. All methods may be called again with the same, or with more.

    After a kill at any moment, the next call completes the record: no point twice, none lost.
    """

    def write(self, record: Record) -> None:
        """Make the tracker hold every figure of the record, each once."""

    def wants_files(self, record: Record) -> bool:
        """Whether this tracker keeps files and lacks those of this record; by default, never."""
        return False

    def write_files(self, record: Record, files: Mapping[str, Path]) -> None:
        """Keep files by their names in the run of the federation; only where `wants_files`."""
        raise AssertionError("a tracker that wants no files is given none")


Opener = Callable[[Destination], Tracker]
"""Makes a tracker for a destination; raises InputError where an option is missing or unknown."""


def open_tracker(name: str, destination: Destination) -> Tracker:
    """The tracker of that name."""
    point = TRACKERS.find(name)
    if point is None:
        raise InputError(f"--to: got {name!r}, expected one of {', '.join(TRACKERS.list_names())}")
    try:
        opener: Opener = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"--to: got {name}, which cannot be loaded ({error})") from error
    return opener(destination)
