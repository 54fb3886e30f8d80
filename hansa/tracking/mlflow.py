"""MLflow by its REST API: a run for the federation, nested ones for the silos, rounds as steps.

MLflow's own package has 87 dependencies and imports in seconds; eight requests are enough here.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hansa.core.errors import InputError
from hansa.tracking.base import Destination, Tracker
from hansa.tracking.http import TrackingServer
from hansa.tracking.record import Record, TrackedRun

DEFAULT_EXPERIMENT = "hansa"
TAG_RUN = "hansa.run"
"""Identity of what a run was exported from: how the next export finds it."""
TAG_FILES = "hansa.files"
"""Digest of the record whose files are there, set after the last of them."""
MOST_METRICS, MOST_OTHERS = 1000, 100
"""What one request may carry, by MLflow's documentation."""
_PAGE = 25_000
_STATES = {"running": "RUNNING", "finished": "FINISHED", "failed": "FAILED"}
_ROOT = "/api/2.0/mlflow/"
_FILES = "/api/2.0/mlflow-artifacts/artifacts"


class MLflow(Tracker):
    """Caches what it has sent, so that following a run requests nothing twice."""

    def __init__(self, destination: Destination) -> None:
        destination.refuse("out")
        self._server = TrackingServer(destination.url)
        self._experiment = destination.experiment or DEFAULT_EXPERIMENT
        self._runs: dict[str, _Run] = {}

    def write(self, record: Record) -> None:
        """Parameters, points and tags that are not there yet, the state last."""
        try:
            self._write(record)
        except BaseException:
            self._runs.clear()  # what was sent may have arrived: ask again, and send none twice
            raise

    def _write(self, record: Record) -> None:
        experiment = self._find_experiment()
        parent = self._open_run(experiment, record.federation, record, {})
        nested = {"mlflow.parentRunId": parent.id}
        for run in record.runs:
            is_child = run is not record.federation
            stored = self._open_run(experiment, run, record, nested if is_child else {})
            stored.write(run)
        for run in reversed(record.runs):  # the parent ends last
            self._runs[run.key].end(record)

    def wants_files(self, record: Record) -> bool:
        """Whether the server lacks the files of this record."""
        return self._runs[record.federation.key].tags.get(TAG_FILES) != record.compute_digest()

    def write_files(self, record: Record, files: Mapping[str, Path]) -> None:
        """Upload them as artifacts of the federation's run, through the server."""
        run = self._runs[record.federation.key]
        place = urlsplit(run.files)
        if place.scheme != "mlflow-artifacts":
            raise InputError(
                f"--url: got a server that keeps artifacts at {run.files} and takes none itself, "
                "expected one that was started with --serve-artifacts",
                hint="the figures are there; --no-artifacts exports them alone",
            )
        for name, path in sorted(files.items()):
            self._server.put(f"{_FILES}{place.path}/{name}", path.read_bytes())
        run.set_tags({TAG_FILES: record.compute_digest()})

    def _find_experiment(self) -> str:
        name = self._experiment
        known = self._server.get(_ROOT + "experiments/get-by-name", experiment_name=name)
        if known is None:
            self._server.post(_ROOT + "experiments/create", {"name": name}, may_exist=True)
            known = self._server.get(_ROOT + "experiments/get-by-name", experiment_name=name)
        experiment = (known or {}).get("experiment") or {}
        if experiment.get("lifecycle_stage") != "active":
            raise InputError(
                f"--experiment: got {name}, which was deleted on the server",
                hint="restore it there, or choose another name",
            )
        return str(experiment["experiment_id"])

    def _open_run(
        self, experiment: str, run: TrackedRun, record: Record, tags: Mapping[str, str]
    ) -> "_Run":
        """The run of an identity: the known one, the server's, or a new one."""
        if run.key not in self._runs:
            asked = {
                "experiment_ids": [experiment],
                "filter": f"tags.`{TAG_RUN}` = '{run.key}'",
                "order_by": ["attributes.start_time ASC"],
                "max_results": 1,
            }
            stored = self._server.post(_ROOT + "runs/search", asked).get("runs")
            if not stored:
                document = {
                    "experiment_id": experiment,
                    "run_name": run.name,
                    "start_time": _to_milliseconds(record.started_at),
                    # Its identity from the start: after a kill the next export finds it.
                    "tags": _to_pairs({TAG_RUN: run.key, **tags}),
                }
                stored = [self._server.post(_ROOT + "runs/create", document)["run"]]
            self._runs[run.key] = _Run(self._server, stored[0])
        return self._runs[run.key]


class _Run:
    """One run on the server, and what it holds already."""

    def __init__(self, server: TrackingServer, stored: dict[str, Any]) -> None:
        self._server = server
        info, data = stored["info"], stored.get("data") or {}
        self.id, self.files = str(info["run_id"]), str(info["artifact_uri"])
        self._state = str(info.get("status"))
        self.tags = _to_mapping(data.get("tags"))
        self._parameters = _to_mapping(data.get("params"))
        metrics = [str(each["key"]) for each in data.get("metrics") or ()]
        self._points = {(name, step) for name in metrics for step in self._read_steps(name)}

    def write(self, run: TrackedRun) -> None:
        """Send what is not there yet."""
        new = [p for p in run.points if (p.metric, p.step) not in self._points]
        metrics = [
            {
                "key": p.metric,
                "value": p.value,
                "step": p.step,
                "timestamp": _to_milliseconds(p.time),
            }
            for p in new
        ]
        self._log("metrics", metrics, MOST_METRICS)
        self._points |= {(point.metric, point.step) for point in new}
        missing = {k: v for k, v in run.parameters.items() if k not in self._parameters}
        self._log("params", _to_pairs(missing))
        self._parameters |= missing
        # MLflow keeps the first value of a parameter: what became of it is a tag
        changed = {
            f"hansa.changed.{k}": v for k, v in run.parameters.items() if self._parameters[k] != v
        }
        self.set_tags({**{f"hansa.{k}": v for k, v in run.facts.items()}, **changed})

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Send the tags that differ."""
        new = {key: value for key, value in tags.items() if self.tags.get(key) != value}
        self._log("tags", _to_pairs(new))
        self.tags |= new

    def end(self, record: Record) -> None:
        """Set the state, where it differs."""
        state = _STATES[record.state]
        if state == self._state:
            return
        document: dict[str, Any] = {"run_id": self.id, "status": state}
        if record.ended_at:
            document["end_time"] = _to_milliseconds(record.ended_at)
        self._server.post(_ROOT + "runs/update", document)
        self._state = state

    def _log(self, what: str, items: list[dict[str, Any]], most: int = MOST_OTHERS) -> None:
        for start in range(0, len(items), most):
            batch = {"run_id": self.id, what: items[start : start + most]}
            self._server.post(_ROOT + "runs/log-batch", batch)

    def _read_steps(self, metric: str) -> Iterator[int]:
        token = ""
        while True:
            page = self._server.get(
                _ROOT + "metrics/get-history",
                run_id=self.id,
                metric_key=metric,
                max_results=str(_PAGE),
                **({"page_token": token} if token else {}),
            )
            for point in (page or {}).get("metrics") or ():
                yield int(point.get("step") or 0)
            token = (page or {}).get("next_page_token") or ""
            if not token:
                return


def _to_milliseconds(moment: datetime | None) -> int:
    return round((moment.timestamp() if moment else time.time()) * 1000)


def _to_pairs(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _to_mapping(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    return {str(pair["key"]): str(pair.get("value", "")) for pair in pairs or ()}
