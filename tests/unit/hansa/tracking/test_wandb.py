"""W&B's offline files, read back by W&B's own library, hold each figure once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.report import tracking_figures
from hansa.tracking.base import Destination, open_tracker
from tests.support.sources import ROOT
from tests.support.tracked import IDENTITY, SECRET, WORDS, expected, make_tracked

pytestmark = pytest.mark.slow  # its library is imported in seconds


def export(federation: Federation, out: Path) -> None:
    tracker = open_tracker("wandb", Destination(out=out))
    tracker.write(tracking_figures.build_record(federation, IDENTITY, is_over=True))


def read(out: Path) -> dict[str, list[tuple[str, int, float]]]:
    """All points by silo; W&B's own fields begin with an underscore."""
    points: dict[str, list[tuple[str, int, float]]] = {}
    for file in sorted((out / "wandb").glob("offline-run-*/*.wandb")):
        silo = file.stem.removeprefix(f"run-{IDENTITY}").removeprefix("-")
        assert silo not in points, "one folder for each run"
        points[silo] = sorted(
            (key, record.history.step.num, float(json.loads(item.value_json)))
            for record in records(file)
            for item in record.history.item
            if not (key := item.key or "/".join(item.nested_key)).startswith("_")
        )
    return points


def records(file: Path) -> list[Any]:
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    store, found = DataStore(), []
    store.open_for_scan(str(file))
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        found.append(record)
    return found


def wanted(federation: Federation) -> dict[str, list[tuple[str, int, float]]]:
    return {
        silo: sorted((metric, step, value) for (metric, step), value in points.items())
        for silo, points in expected(federation).items()
    }


def test_what_wandb_holds_is_the_status_and_no_sentence_of_an_episode(tmp_path: Path) -> None:
    federation = make_tracked()
    export(federation, tmp_path)
    assert read(tmp_path) == wanted(federation)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert WORDS.encode() not in file.read_bytes()
            assert SECRET.encode() not in file.read_bytes()
    runs = [
        record.run
        for file in (tmp_path / "wandb").glob("offline-run-*/*.wandb")
        for record in records(file)
        if record.WhichOneof("record_type") == "run"
    ]
    assert {run.run_group for run in runs} == {IDENTITY}
    assert sorted(run.job_type for run in runs) == ["federation", "silo", "silo"]


def test_exported_again_only_runs_with_news_are_written(tmp_path: Path) -> None:
    export(make_tracked(), tmp_path)
    folders = sorted((tmp_path / "wandb").iterdir())
    export(make_tracked(), tmp_path)
    assert sorted((tmp_path / "wandb").iterdir()) == folders


def test_rounds_that_the_status_has_forgotten_stay(tmp_path: Path) -> None:
    federation = make_tracked(rounds=3)
    export(federation, tmp_path)
    history = [entry for entry in federation.status.history if entry.round != 1]
    status = federation.status.model_copy(update={"history": history, "completed": 4})
    export(federation.model_copy(update={"status": status}), tmp_path)
    assert read(tmp_path) == wanted(federation)


KILLED = """
import os, sys
from pathlib import Path
from hansa.tracking import wandb
from tests.unit.hansa.tracking.test_wandb import export, make_tracked
setattr(wandb, sys.argv[2], lambda *_: os._exit(9))
export(make_tracked(), Path(sys.argv[1]))
"""


def test_a_writer_killed_at_any_step_is_completed_by_the_next_one(tmp_path: Path) -> None:
    """While a run is written, and after it was moved but not yet remembered."""
    federation = make_tracked()
    environ = {key: value for key, value in os.environ.items() if key != "WANDB_SERVICE"}  # ours
    for step in ("_group_rows", "replace_file"):
        command = [sys.executable, "-c", KILLED, str(tmp_path), step]
        killed = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert killed.returncode == 9, killed.stderr
    export(federation, tmp_path)
    assert read(tmp_path) == wanted(federation)


def test_without_the_package_one_sentence_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['wandb'] = None\n"
        "from hansa.cli.main import main\n"
        "main(['export', '.', '--to', 'wandb', '--out', 'x'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "error: --to: got wandb, whose package is not installed here\n\n"
        "hint: pip install 'hansa[wandb]'\n"
    )


def test_a_folder_is_needed() -> None:
    with pytest.raises(InputError, match="--out: got nothing"):
        open_tracker("wandb", Destination())
