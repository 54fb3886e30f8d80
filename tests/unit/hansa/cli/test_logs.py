"""`hansa logs FOLDER` reads the folder of a run and that of a silo."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.cli.logs import logs
from hansa.cli.target import ClusterOptions
from hansa.core.errors import InputError
from hansa.local.join import OBJECT
from tests.support.clinic import EVALUATED, REPORT, working


@pytest.fixture
def silo(tmp_path: Path) -> Path:
    """The folder of a silo that has answered two orders, each Job with a line in its log."""
    clinic = working().post()
    for order, report in (({"role": "evaluate", "round": 3}, REPORT), ({"round": 4}, EVALUATED)):
        clinic.set(clinic.job, "succeeded", report=report).turn().post()
        clinic.order(**order).post()
    for name, request in clinic.requests.items():
        folder = tmp_path / "jobs" / name
        folder.mkdir(parents=True)
        (folder / "assignment.json").write_text(json.dumps(request.assignment.to_json()))
        (folder / "log.txt").write_text("said something\n")
    (tmp_path / OBJECT).write_text(clinic.silo.model_dump_json(by_alias=True, exclude_none=True))
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], out: Path, **chosen: Any) -> list[str]:
    logs(ClusterOptions(), run=str(out), **chosen)
    return [line.partition(" | ")[0] for line in capsys.readouterr().out.splitlines()]


def test_a_silos_jobs_come_by_round_and_its_couriers_last(
    silo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = shown(capsys, silo)
    assert every[:3] == ["five-silo-r1-s1-a1", "five-silo-e3-s2-a1", "five-silo-r4-s3-a1"]
    assert every[3] == "five-silo-mail-a1"
    assert shown(capsys, silo, environment="clinic") == every[:3]
    assert shown(capsys, silo, environment="courier") == every[3:]
    assert shown(capsys, silo, round_=3) == ["five-silo-e3-s2-a1"]


def test_what_no_job_has_is_refused_in_a_sentence(silo: Path) -> None:
    with pytest.raises(InputError, match="no Job of this run fits"):
        logs(ClusterOptions(), run=str(silo), round_=9)


def test_an_environment_that_there_is_not_is_refused_with_the_names(silo: Path) -> None:
    names = "got 'mazee', expected one of clinic, aggregator, courier$"
    with pytest.raises(InputError, match=f"^--environment: {names}"):
        logs(ClusterOptions(), run=str(silo), environment="mazee")
