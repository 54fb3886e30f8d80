"""Which trackers there are, what a package must do to add one, and where a run comes from."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from hansa.api.status import Federation
from hansa.cli.main import main
from hansa.core.errors import InputError
from hansa.local import results
from hansa.local.rundir import RunDir
from hansa.manifests.load import load
from hansa.publish.tracked_run import LocalRun, _build_record
from hansa.report import data, tracking_figures
from hansa.report.run_facts import ReportData
from hansa.tracking.base import Destination, open_tracker
from hansa.tracking.mlflow import MLflow
from hansa.tracking.record import Record
from tests.support.memory_store import MemoryStore
from tests.support.sources import ROOT
from tests.support.tracked import make_tracked

NAMES = ("maze", "wordle")
PAGE = (ROOT / "docs/tracking.md").read_text()
PROGRAM = """
import sys
from pathlib import Path
from hansa.report import tracking_figures as figures
from hansa.tracking import base
from tests.support.tracked import IDENTITY, make_tracked
assert base.TRACKERS.list_names() == ["lines", "mlflow", "tensorboard", "wandb"]
tracker = base.open_tracker("lines", base.Destination(out=Path(sys.argv[1])))
tracker.write(figures.build_record(make_tracked(), IDENTITY, is_over=True))
"""


def test_a_package_adds_a_tracker_as_the_page_shows(tmp_path: Path) -> None:
    site = tmp_path / "site"
    [code] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    [point] = re.findall(r'^lines = "(.*?)"$', PAGE, flags=re.MULTILINE)
    about = site / "my_package-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "my_package.py").write_text(code)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[hansa.trackers]\nlines = {point}\n")
    paths = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "out.txt"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    assert "fed/maze success 2 0.52\n" in (tmp_path / "out.txt").read_text()


def test_an_unknown_tracker_is_answered_with_those_that_there_are() -> None:
    sentence = "--to: got 'excel', expected one of mlflow, tensorboard, wandb"
    with pytest.raises(InputError, match=sentence):
        open_tracker("excel", Destination())


@pytest.mark.parametrize(
    "url, sentence",
    [
        pytest.param("", "--url: got '', expected an address", id="none"),
        pytest.param("file:///x", "--url: got 'file:///x', expected", id="no server"),
        pytest.param("http://me:word@host", "--url: got a password in it", id="a password"),
    ],
)
def test_an_address_that_does_not_fit_is_refused(
    url: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match=sentence) as refused:
        open_tracker("mlflow", Destination(url=url))
    assert "word@" not in refused.value.message


def document() -> dict[str, Any]:
    text = make_tracked().model_dump_json(by_alias=True, exclude_none=True)
    made: dict[str, Any] = json.loads(text)
    made["metadata"]["uid"] = "1b4e28ba"
    made["status"]["fieldOfANewerOperator"] = 1
    return made


def test_a_federation_on_a_cluster_is_exported_from_its_status_alone() -> None:
    record = _build_record(document())
    assert record == tracking_figures.build_record(make_tracked(), "1b4e28ba", is_over=True)
    running = document()
    running["status"]["phase"] = "Running"
    assert _build_record(running).state == "running"


class Api(BaseHTTPRequestHandler):
    """An API server with one federation, which ends while it is watched."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.asked.append(self.path)
        made = document()
        made["metadata"] |= {"name": path.rpartition("/")[2], "resourceVersion": "1"}
        if "watch=" in query:
            made = {"type": "MODIFIED", "object": made}
        elif path.endswith("/two-worlds"):
            made["status"]["phase"] = "Running"
        data = json.dumps(made).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """The file by which such a server is found."""
    Api.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        context = {"cluster": "here", "user": "me", "namespace": "hansa"}
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": context}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "me", "user": {"token": "t"}}],
        }
        file = tmp_path / "config"
        file.write_text(json.dumps(config))
        yield str(file)
        server.shutdown()


@pytest.mark.parametrize("words", [(), ("--follow",)])
def test_a_name_is_a_federation_on_the_cluster_of_the_kubeconfig(
    tmp_path: Path, words: tuple[str, ...], kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["export", "fed", "--to", "tensorboard", "--out", "tracked", "--kubeconfig", kubeconfig]
    with pytest.raises(SystemExit) as ended:
        main([*line, *words])
    assert ended.value.code == 0
    files = {str(file.parent) for file in Path("tracked").rglob("events*")}
    assert files == {"tracked/fed-1b4e28ba", *(f"tracked/fed-1b4e28ba/{n}" for n in NAMES)}


def test_the_example_follows_its_federation_and_asks_for_no_more_than_its_role_allows(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ROOT / "examples/13-tracking/exporter.yaml"
    account, role, binding, job = yaml.safe_load_all(file.read_text())
    [allowed], pod = role["rules"], job["spec"]["template"]["spec"]
    [container] = pod["containers"]
    program, *line = container["command"]
    assert {each["metadata"]["namespace"] for each in (account, role, binding, job)} == {"hansa"}
    assert (program, line[1], pod["serviceAccountName"]) == (
        "hansa",
        load(ROOT / "examples/01-two-worlds/federation.yaml", here=False).metadata.name,
        account["metadata"]["name"],
    )
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == [account["metadata"]["name"]]
    for each in container["env"]:
        monkeypatch.setenv(each["name"], each["value"])
    written: list[Record] = []
    monkeypatch.setattr(MLflow, "write", lambda _, record: written.append(record))
    with pytest.raises(SystemExit) as ended:
        main([*line, "--no-artifacts", "--kubeconfig", kubeconfig])
    assert ended.value.code == 0
    assert [record.state for record in written] == ["running", "finished"]
    [group], [kind], [name] = (allowed[key] for key in ("apiGroups", "resources", "resourceNames"))
    there = f"/apis/{group}/v1alpha1/namespaces/hansa/{kind}"
    read, watched = Api.asked
    assert read == f"{there}/{name}"
    assert watched.startswith(f"{there}?") and f"fieldSelector=metadata.name%3D{name}" in watched
    assert allowed["verbs"] == ["get", "list", "watch"]


def test_a_store_that_did_not_answer_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [("Not shown: the manifest of round 1: the object store did not answer.",), ()]
    asked, said = [], []

    def collect(federation: Federation, store: object, **_: object) -> ReportData:
        asked.append(store)
        return ReportData(federation=federation, rounds=(), notes=answers[min(len(asked), 2) - 1])

    monkeypatch.setattr(results, "open_store", lambda *_: nullcontext(MemoryStore()))
    monkeypatch.setattr(data, "collect", collect)
    RunDir(tmp_path).save(make_tracked())
    run = LocalRun(RunDir(tmp_path), None, said.append)
    for reads in (1, 2, 2):
        run.read()
        assert len(asked) == reads
    assert said == [answers[0][0].replace("Not shown", "not exported")]


def test_a_run_keeps_its_identity_wherever_it_is_moved(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    RunDir(run).save(make_tracked())
    first = LocalRun(RunDir(run), None, print)._identity
    moved = run.rename(tmp_path / "moved")
    assert LocalRun(RunDir(moved), None, print)._identity == first
    assert re.fullmatch("[0-9a-f]{32}", first)
