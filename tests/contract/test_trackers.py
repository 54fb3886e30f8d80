"""Every builtin tracker keeps the contract of trackers."""

from pathlib import Path
from typing import Any

import pytest

from hansa.core.errors import InputError
from hansa.report import tracking_figures
from hansa.tracking.base import TRACKERS, Destination, Tracker, open_tracker
from tests.support.tracked import IDENTITY, make_tracked

DESTINATIONS: dict[str, set[str]] = {
    "mlflow": {"url", "experiment"},
    "tensorboard": {"out"},
    "wandb": {"out", "experiment"},
}
"""The options of each; one that needs no `url` writes files below `out`."""


def open_at(name: str, out: Path) -> Tracker:
    """The tracker with every option that it takes."""
    given: dict[str, Any] = {"url": "http://127.0.0.1:9", "experiment": "contract", "out": out}
    return open_tracker(name, Destination(**{key: given[key] for key in DESTINATIONS[name]}))


def test_every_builtin_tracker_has_a_row() -> None:
    assert set(DESTINATIONS) == set(TRACKERS.builtin)


@pytest.mark.parametrize("name", DESTINATIONS)
def test_an_option_that_a_tracker_does_not_take_is_refused(name: str, tmp_path: Path) -> None:
    assert callable(open_at(name, tmp_path).write)
    for option in {"url", "experiment", "out"} - DESTINATIONS[name]:
        with pytest.raises(InputError, match=f"--{option}: got it, but this tracker takes no"):
            open_tracker(name, Destination(**{option: "it"}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(n for n, row in DESTINATIONS.items() if "url" not in row))
def test_what_was_written_is_left_as_it_is_by_the_same_record(name: str, tmp_path: Path) -> None:
    record = tracking_figures.build_record(make_tracked(), IDENTITY, is_over=True)
    contents = []
    for _ in range(2):
        tracker = open_at(name, tmp_path)
        tracker.write(record)
        assert not tracker.wants_files(record)
        files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        contents.append({path: path.read_bytes() for path in files})
    assert contents[0] and contents[0] == contents[1]
