"""Weights & Biases, offline: a folder for each run, which the user's own `wandb sync` uploads.

The files are written by W&B's own library. An offline run cannot be continued, so a run with new
figures is written in full beside the old one, and then replaces it.
"""

import json
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from hansa.core.errors import InputError
from hansa.core.files import explain_os_errors, replace_file
from hansa.tracking.base import Destination, Tracker
from hansa.tracking.record import Point, Record, TrackedRun

DEFAULT_PROJECT = "hansa"
_STATE = ".hansa-{}.json"
_DRAFT = ".hansa-draft-"


class WandB(Tracker):
    """Remembers every point beside the runs: a status forgets old rounds, an export must not.

    It takes no files: W&B would copy them into each offline run.
    """

    def __init__(self, destination: Destination) -> None:
        destination.refuse("url")
        self._out = destination.require_out("a folder for W&B's offline runs")
        self._project = destination.experiment or DEFAULT_PROJECT
        self._library = _import_library()

    def write(self, record: Record) -> None:
        """Write the runs that differ from what is there."""
        with explain_os_errors(f"--out: got {self._out}"):
            self._out.mkdir(parents=True, exist_ok=True)
            self._write(record)

    def _write(self, record: Record) -> None:
        path = self._out / _STATE.format(record.federation.key)
        state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        for run in record.runs:
            known = state.setdefault(run.key, {"points": [], "digest": ""})
            points = _merge_points(known["points"], run.points)
            content = repr((sorted(run.parameters.items()), sorted(run.facts.items()), points))
            digest = sha256(f"{record.state} {content}".encode()).hexdigest()
            if known["digest"] == digest and self._find_folders(run):
                continue
            self._write_run(record, run, points)
            state[run.key] = {"points": points, "digest": digest}
            replace_file(path, json.dumps(state).encode())

    def _write_run(self, record: Record, run: TrackedRun, points: list[list[Any]]) -> None:
        for left in self._out.glob(f"{_DRAFT}*"):  # of a writer that was killed
            shutil.rmtree(left, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self._out))
        tracked = self._library.init(
            project=self._project,
            id=_make_id(run),
            name=run.name,
            group=record.federation.key,
            job_type="federation" if run is record.federation else "silo",
            config=dict(run.parameters),
            dir=str(draft),
            mode="offline",
            reinit="create_new",
            settings=_build_settings(self._library),
        )
        for step, row in _group_rows(points).items():
            tracked.log(row, step=step)
        tracked.summary.update({f"hansa/{name}": value for name, value in run.facts.items()})
        tracked.finish(exit_code=int(record.state == "failed"))
        [made] = (draft / "wandb").glob(f"offline-run-*-{_make_id(run)}")
        for old in self._find_folders(run):
            shutil.rmtree(old)
        (self._out / "wandb").mkdir(exist_ok=True)
        made.rename(self._out / "wandb" / made.name)
        shutil.rmtree(draft, ignore_errors=True)

    def _find_folders(self, run: TrackedRun) -> list[Path]:
        every = (self._out / "wandb").glob("offline-run-*")
        return sorted(each for each in every if each.name.split("-", 3)[-1] == _make_id(run))


def _make_id(run: TrackedRun) -> str:
    return run.key.replace("/", "-")


def _merge_points(known: list[list[Any]], points: tuple[Point, ...]) -> list[list[Any]]:
    """Points of earlier exports and of this one, as [step, metric, value, seconds]."""
    merged = {(step, metric): [step, metric, value, when] for step, metric, value, when in known}
    for point in points:
        row = [point.step, point.metric, point.value, point.time and point.time.timestamp()]
        merged[point.step, point.metric] = row
    return [merged[key] for key in sorted(merged)]


def _group_rows(points: list[list[Any]]) -> dict[int, dict[str, float]]:
    rows: dict[int, dict[str, float]] = {}
    for step, metric, value, when in points:
        row = rows.setdefault(step, {"_timestamp": when} if when is not None else {})
        row[metric] = value
    return rows


def _import_library() -> Any:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it would report crashes to its vendor
    try:
        import wandb
    except ImportError:
        raise InputError(
            "--to: got wandb, whose package is not installed here",
            hint="pip install 'hansa[wandb]'",
        ) from None
    return wandb


def _build_settings(library: Any) -> Any:
    """Record nothing of this machine: no console, git, packages or host."""
    return library.Settings(
        silent=True,
        console="off",
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        save_code=False,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
        x_disable_machine_info=True,
        host="",
        program="hansa",
    )
