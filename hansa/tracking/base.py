"""What a tracker is, and which there are: the builtin table, then what packages offer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from hansa.core.errors import InputError
from hansa.tracking.record import Record

GROUP = "hansa.trackers"
"""Entry-point group: `mine = "my_package.tracking:open_mine"`, a function like `Opener`."""

BUILTIN = {
    "mlflow": "hansa.tracking.mlflow:MLflow",
    "tensorboard": "hansa.tracking.tensorboard:TensorBoard",
    "wandb": "hansa.tracking.wandb:WandB",
}


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
        """Refuse options that this tracker does not know, instead of ignoring them."""
        for option in unused:
            got = getattr(self, option)
            if got is not None:
                raise InputError(f"--{option}: got {got}, but this tracker takes no --{option}")


class Tracker(Protocol):
    """A place for figures. All methods may be called again with the same, or with more.

    A kill at any moment must leave what the next call completes: no point twice, none lost.
    """

    def write(self, record: Record) -> None:
        """Make the tracker hold every figure of the record, each once."""

    def wants_files(self, record: Record) -> bool:
        """Whether this tracker keeps files, and has not those of this record yet."""

    def write_files(self, record: Record, files: Mapping[str, Path]) -> None:
        """Keep files by their names in the run of the federation."""


Opener = Callable[[Destination], Tracker]
"""Makes a tracker for a destination; raises InputError where an option is missing or unknown."""


def names() -> list[str]:
    """Every tracker that `open_tracker` can open."""
    return sorted({*BUILTIN, *(point.name for point in entry_points(group=GROUP))})


def open_tracker(name: str, destination: Destination) -> Tracker:
    """The tracker of a name; builtin names win, so that no package can replace one unseen."""
    return _opener(name)(destination)


def _opener(name: str) -> Opener:
    opener: Opener
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        opener = getattr(import_module(module), attribute)
        return opener
    point = next((each for each in entry_points(group=GROUP) if each.name == name), None)
    if point is None:
        raise InputError(f"--to: got {name!r}, expected one of {', '.join(names())}")
    try:
        opener = point.load()
    except (ImportError, AttributeError) as error:
        raise InputError(f"--to: got {name}, which cannot be loaded ({error})") from error
    return opener
