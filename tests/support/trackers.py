"""A real MLflow server, in an environment of its own: its packages are more than all of ours."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import urllib3

from tests.support import own_environment


def install() -> Path:
    """The server's program; the first time in some 20 s and 620 MB."""
    return own_environment.install("mlflow") / "mlflow"


class Server:
    """A running server, asked by plain HTTP."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def is_up(self) -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", f"{self.url}/health", retries=False).data == b"OK"
        return False

    def get(self, path: str, /, **query: Any) -> dict[str, Any]:
        return self._json("GET", path, fields=query)

    def post(self, path: str, **document: Any) -> dict[str, Any]:
        return self._json("POST", path, json=document)

    def runs(self, experiment: str) -> dict[str, dict[str, Any]]:
        """All runs of an experiment by their names, which must differ."""
        known = self.get("experiments/get-by-name", experiment_name=experiment)
        found = self.post("runs/search", experiment_ids=[known["experiment"]["experiment_id"]])
        runs = {run["info"]["run_name"]: run for run in found.get("runs", [])}
        assert len(runs) == len(found.get("runs", [])), "a run is there twice"
        return runs

    def has(self, experiment: str) -> bool:
        """Whether an experiment has been made."""
        found = self.post("experiments/search", max_results=100).get("experiments", [])
        return any(each["name"] == experiment for each in found)

    def points(self, run: dict[str, Any]) -> list[tuple[str, int, float]]:
        """Every stored point of a run."""
        points = []
        for metric in run["data"].get("metrics", []):
            asked = {"run_id": run["info"]["run_id"], "metric_key": metric["key"]}
            for point in self.get("metrics/get-history", **asked)["metrics"]:
                points.append((point["key"], int(point.get("step", 0)), point["value"]))
        return sorted(points)

    def files(self, run: dict[str, Any], path: str = "") -> list[str]:
        """Every artifact of a run."""
        asked = {"run_id": run["info"]["run_id"], **({"path": path} if path else {})}
        names: list[str] = []
        for each in self.get("artifacts/list", **asked).get("files", []):
            names += self.files(run, each["path"]) if each["is_dir"] else [each["path"]]
        return sorted(names)

    def _json(self, method: str, path: str, **what: Any) -> dict[str, Any]:
        address = f"{self.url}/api/2.0/mlflow/{path}"
        answer = urllib3.request(method, address, timeout=60, **what)  # busy beside other tests
        assert answer.status == 200, answer.data
        document: dict[str, Any] = answer.json()
        return document


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server with its database and artifacts below a folder."""
    port = own_environment.free_port()
    command = [install(), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    command += ["--artifacts-destination", folder / "artifacts"]
    server = Server(f"http://127.0.0.1:{port}", folder)
    with own_environment.running(
        command, folder, server.is_up, "MLflow", MLFLOW_DISABLE_TELEMETRY="true"
    ):
        yield server
