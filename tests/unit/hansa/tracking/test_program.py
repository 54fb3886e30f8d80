"""`hansa-tracker`, the program of a tracker's Job: one assignment in, a report and an exit out."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hansa.assignment import ENV_ASSIGNMENT, ENV_REPORT
from hansa.exits import Exit
from hansa.program import run_told
from hansa.tracking import figures
from hansa.tracking.__main__ import work
from hansa.tracking.task import ENV_TRACKED, TrackerTask, make_task
from tests.tracked import IDENTITY, expected, make_tracked


def make(to: str, url: str | None = None) -> TrackerTask:
    record = figures.record(make_tracked(), IDENTITY, is_over=True)
    return make_task(record, federation="fed", to=to, url=url, experiment=None, round_=2)


@pytest.fixture
def start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Any:
    def started(text: str, folder: Path | None = None) -> tuple[int, dict[str, Any], str]:
        monkeypatch.setenv(ENV_ASSIGNMENT, text)
        monkeypatch.setenv(ENV_REPORT, str(tmp_path / "report.json"))
        monkeypatch.setenv(ENV_TRACKED, str(folder or ""))
        (tmp_path / "report.json").unlink(missing_ok=True)
        code = run_told("tracker", work)
        written = (tmp_path / "report.json").exists()
        report = json.loads((tmp_path / "report.json").read_text()) if written else {}
        return code, report, capsys.readouterr().err

    return started


def text_of(task: TrackerTask) -> str:
    return task.model_dump_json(by_alias=True, exclude_none=True)


def test_the_board_reads_back_what_the_status_says(start: Any, tmp_path: Path) -> None:
    board = tmp_path / "board"
    code, report, _ = start(text_of(make("tensorboard")), board)
    assert (code, report["kind"], report["runs"]) == (Exit.DONE, "tracker", 3)
    [folder] = board.iterdir()
    reader = EventAccumulator(str(folder / "maze"))
    reader.Reload()
    wanted = {k: v for k, v in expected(make_tracked())["maze"].items() if k[0] == "success"}
    shown = {("success", p.step): p.value for p in reader.Scalars("success")}
    assert shown == pytest.approx(wanted)


def test_a_second_job_adds_nothing(start: Any, tmp_path: Path) -> None:
    board = tmp_path / "board"
    start(text_of(make("tensorboard")), board)
    first = {path: path.read_bytes() for path in board.rglob("events*")}
    assert start(text_of(make("tensorboard")), board)[0] == Exit.DONE
    assert {path: path.read_bytes() for path in board.rglob("events*")} == first


def test_a_server_that_is_away_is_worth_another_try(start: Any) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"  # bound, and nobody listens
        code, report, said = start(text_of(make("mlflow", url)))
    assert (code, report) == (Exit.TRACKER_FAILED, {})
    assert f"spec.tracking.url: got {url}, which does not answer" in said


@pytest.mark.parametrize(
    "to, sentence",
    [
        pytest.param("tensorboard", "spec.tracking.claim: got nothing", id="no folder"),
        pytest.param("elsewhere", "spec.tracking.to: got 'elsewhere'", id="no such package"),
    ],
)
def test_what_only_a_person_can_change_is_permanent(start: Any, to: str, sentence: str) -> None:
    code, _, said = start(text_of(make(to)))
    assert code == Exit.PERMANENT
    assert sentence in said


@pytest.mark.parametrize("text", ["", "{", "[]", '{"role": "tracker"}', '{"runs": []}'])
def test_garbage_is_a_sentence(start: Any, text: str) -> None:
    code, _, said = start(text)
    assert code == Exit.PERMANENT
    assert "HANSA_ASSIGNMENT" in said and "Traceback" not in said
