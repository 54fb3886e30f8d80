"""docs/tracking.md typed beside a run, with a real MLflow server: each figure once, no text."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.cli import export as export_command
from hansa.local.rundir import RunDir
from hansa.publish.tracked_run import LocalRun
from hansa.report import tracking_figures
from hansa.tracking.base import Destination, open_tracker
from hansa.tracking.http import TrackingServer as Client
from tests.support import small, trackers
from tests.support.sources import ROOT
from tests.support.tracked import IDENTITY, expected, make_tracked
from tests.support.trackers import Server

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs/tracking.md").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with trackers.serving(tmp_path_factory.mktemp("mlflow")) as running:
        yield running


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Path:
    """Folder of a run that was followed to its end, by one that was killed and one after it."""
    folder = tmp_path_factory.mktemp("followed")
    out = folder / "run"
    with small.Run(small.write_manifest(folder), out) as run:
        small.until(lambda: (out / "federation.json").exists(), "the run to begin")
        words = ["export", str(out), "--to", "mlflow", "--url", server.url, "--follow"]
        command = [sys.executable, "-m", "hansa.cli.main", *words]
        killed = subprocess.Popen(command)
        small.until(lambda: server.has("hansa"), "the first figures to be sent")
        killed.kill()
        killed.wait()
        follower = subprocess.Popen(command)
        run.finish()
    assert follower.wait(small.PATIENCE_SECONDS) == 0
    return out


def by_silo(server: Server, experiment: str, name: str) -> dict[str, list[tuple[str, int, float]]]:
    runs = server.runs(experiment)
    return {each.removeprefix(name).strip("/"): server.points(run) for each, run in runs.items()}


def test_a_followed_run_ends_with_every_figure_of_its_status_once(
    server: Server, followed: Path
) -> None:
    stored = by_silo(server, "hansa", small.NAME)
    for silo, points in expected(RunDir(followed).load()).items():
        for (metric, step), value in points.items():
            assert stored[silo].count((metric, step, value)) == 1
    record = LocalRun(RunDir(followed), None, print).read()
    assert sorted(stored.values()) == sorted(
        sorted((p.metric, p.step, p.value) for p in run.points) for run in record.runs
    )
    assert {metric for metric, _, _ in stored["maze"]} >= {"loss", "tokens", "seconds.train"}


def test_silos_are_children_with_their_settings_and_the_run_has_ended(
    server: Server, followed: Path
) -> None:
    runs = server.runs("hansa")
    parent = runs[small.NAME]
    tags = {name: {t["key"]: t["value"] for t in run["data"]["tags"]} for name, run in runs.items()}
    params = {p["key"]: p["value"] for p in parent["data"]["params"]}
    assert params["training.learningRate"] == "0.005"
    assert {run["info"]["status"] for run in runs.values()} == {"FINISHED"}
    assert tags[small.NAME]["hansa.phase"] == "Succeeded"
    for name in small.ENVIRONMENTS:
        child = tags[f"{small.NAME}/{name}"]
        assert child["mlflow.parentRunId"] == parent["info"]["run_id"]
    assert server.files(parent) == [
        "adapter/README.md",
        "adapter/adapter_config.json",
        "adapter/adapter_model.safetensors",
        "adapter/manifest.json",
        "report.html",
    ]


@pytest.mark.attack(
    by="a reader of what is published",
    does="reads what `hansa export` sent, for text of episodes",
    result="finds none",
)
def test_the_page_can_be_typed_and_nothing_is_there_twice_or_says_what_an_episode_says(
    server: Server, followed: Path, tmp_path: Path
) -> None:
    before = by_silo(server, "hansa", small.NAME)
    places = {"runs/mine": followed, "http://127.0.0.1:5000": server.url, "tracked": tmp_path}
    [block] = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines():
        words = [str(places.get(word, word)) for word in shlex.split(line.removeprefix("$ "))]
        done = small.hansa(*words[1:])
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert re.search(r"small: 3 runs, \d+ figures", done.stderr)
    assert by_silo(server, "agents", small.NAME) == before
    sentences = episodes(followed, tmp_path / "episodes.json")
    (tmp_path / "episodes.json").unlink()
    private = (followed / "report.html").read_text()
    assert any(words in private for words in sentences), "the run's own page shows episodes"
    files = [file for place in (tmp_path, server.folder) for file in place.rglob("*")]
    assert len(files) > 10
    for file in filter(Path.is_file, files):
        content = file.read_bytes()
        assert [words for words in sentences if words.encode() in content] == [], file


def episodes(run: Path, file: Path) -> set[str]:
    """Long enough sentences of what was played."""
    assert small.hansa("trajectories", run, "--export", file).returncode == 0
    texts = re.findall(r'"value": "(.*?[^\\])"', file.read_text())
    lines = {line for text in texts for line in text.split("\\n") if len(line) > 30}
    assert len(lines) > 10
    return lines


class Killed(BaseException):
    """A kill between two requests."""


@pytest.mark.parametrize("requests", [1, 2, 4, 6, 9, 13])
def test_an_export_killed_after_any_request_is_completed_by_the_next_one(
    server: Server, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    """The request has arrived, and nobody has read its answer."""
    federation, experiment = make_tracked(), f"killed-{requests}"
    record = tracking_figures.build_record(federation, IDENTITY, is_over=True)
    destination = Destination(url=server.url, experiment=experiment)
    ask, sent = Client._ask, []

    def ask_and_die(client, *what, **more):
        answer = ask(client, *what, **more)
        sent.append(what)
        if len(sent) == requests:
            raise Killed
        return answer

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Client, "_ask", ask_and_die)
        open_tracker("mlflow", destination).write(record)
    open_tracker("mlflow", destination).write(record)
    assert by_silo(server, experiment, "fed") == {
        silo: sorted((metric, step, value) for (metric, step), value in points.items())
        for silo, points in expected(federation).items()
    }


def test_a_setting_that_changed_is_a_tag_since_mlflow_keeps_the_first_value(
    server: Server,
) -> None:
    for rounds in (2, 3):
        record = tracking_figures.build_record(make_tracked(rounds=rounds), IDENTITY, is_over=True)
        open_tracker("mlflow", Destination(url=server.url, experiment="changed")).write(record)
    data = server.runs("changed")["fed"]["data"]
    assert {"key": "rounds", "value": "2"} in data["params"]
    assert {"key": "hansa.changed.rounds", "value": "3"} in data["tags"]


def test_following_waits_for_a_server_that_is_away(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tracking_figures.build_record(make_tracked(), IDENTITY, is_over=True)
    away = open_tracker("mlflow", Destination(url="http://127.0.0.1:1", experiment="away"))
    monkeypatch.setattr(export_command, "PATIENCE_SECONDS", 0.0)
    ask = Client._ask
    asked = []

    def comes_back(client, *what, **more):
        asked.append(what)
        client._url = server.url if len(asked) > 1 else client._url
        return ask(client, *what, **more)

    monkeypatch.setattr(Client, "_ask", comes_back)
    export_command._insist(away, record)
    assert "http://127.0.0.1:1, which does not answer" in capsys.readouterr().err
    assert set(server.runs("away")) == {"fed", "fed/maze", "fed/wordle"}
