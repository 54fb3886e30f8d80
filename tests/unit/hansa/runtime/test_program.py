"""What surrounds a program's work: exit codes, the report, progress and signals."""

import errno
import json
import signal
import subprocess
import sys
from threading import Thread

import pytest

from hansa.api.assignment import (
    ENV_ASSIGNMENT,
    ENV_PROGRESS,
    ENV_REPORT,
    AggregatorReport,
    Assignment,
)
from hansa.api.bucket_documents import StartAdapter
from hansa.api.reports import decode_report
from hansa.api.spec import S3, Adapter, ModelSource
from hansa.api.status import RoundSettings
from hansa.core import logs
from hansa.core.errors import (
    AnotherRun,
    Corrupt,
    Denied,
    InputError,
    NotFound,
    PermanentError,
    TooFewUpdates,
    Unreachable,
)
from hansa.runtime import program

ASSIGNMENT = Assignment(
    role="aggregator",
    federation="demo",
    seed=1,
    model=ModelSource(),
    adapter=Adapter(),
    round=1,
    start=StartAdapter(),
    settings=RoundSettings(),
    storage=S3(bucket="hansa"),
    environments=["maze"],
)
REPORT = AggregatorReport(round=1, manifest="b" * 64, adapter="a" * 64, bytes=1, members=[0])


@pytest.fixture
def report_file(monkeypatch, tmp_path):
    target = tmp_path / "report.json"
    monkeypatch.setenv(ENV_ASSIGNMENT, ASSIGNMENT.model_dump_json(by_alias=True))
    monkeypatch.setenv(ENV_REPORT, str(target))
    monkeypatch.delenv(logs.ENV_LOG, raising=False)
    monkeypatch.delenv(program.ENV_DEBUG, raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield target
    signal.signal(signal.SIGTERM, before)


def raising(error):
    def work(assignment):
        raise error

    return work


def test_work_that_ends_well_leaves_its_report_and_nothing_else(report_file):
    lines = []
    assert program.run_assignment("server", lambda a: lines.append(a) or REPORT) == 0
    assert lines == [ASSIGNMENT]
    assert decode_report(report_file.read_bytes()) == REPORT
    assert [path.name for path in report_file.parent.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    "error, code",
    [
        pytest.param(PermanentError("no"), 42, id="permanent"),
        pytest.param(AnotherRun("no"), 42, id="another run"),
        pytest.param(InputError("no"), 42, id="a program's input cannot change"),
        pytest.param(Denied("no"), 42, id="denied"),
        pytest.param(Corrupt("no"), 42, id="corrupt"),
        pytest.param(TooFewUpdates("no"), 43, id="too few updates"),
        pytest.param(Unreachable("no"), 44, id="unreachable"),
        pytest.param(NotFound("no"), 1, id="not found"),
        pytest.param(MemoryError(), 1, id="out of memory"),
        pytest.param(OSError(errno.ENOSPC, "no space", "/data"), 1, id="disk full"),
        pytest.param(ValueError("no"), 1, id="a bug"),
        pytest.param(KeyboardInterrupt(), 130, id="interrupted"),
    ],
)
def test_every_way_to_stop_has_its_exit_code_and_no_report(report_file, error, code):
    assert program.run_assignment("server", raising(error)) == code
    assert not report_file.exists()


@pytest.mark.parametrize(
    "error, sentence",
    [
        pytest.param(
            PermanentError("seed: got 8, expected 7", hint="set it back"),
            "error stopped - seed: got 8, expected 7 (hint: set it back)",
            id="a known error, with its hint",
        ),
        pytest.param(MemoryError(), "out of memory", id="memory"),
        pytest.param(OSError(errno.ENOSPC, "x", "/data"), "no space left on the disk", id="disk"),
    ],
)
def test_what_a_person_can_act_on_is_told_in_one_sentence(report_file, capsys, error, sentence):
    program.run_assignment("server", raising(error))
    [line] = capsys.readouterr().err.splitlines()
    assert sentence in line


@pytest.mark.parametrize(
    "error, debug",
    [
        pytest.param(PermanentError("oh"), "1", id="of a known error on request"),
        pytest.param(ZeroDivisionError("oh"), "", id="of a bug"),
    ],
)
def test_a_traceback_is_shown(report_file, capsys, monkeypatch, error, debug):
    monkeypatch.setenv(program.ENV_DEBUG, debug)
    program.run_assignment("server", raising(error))
    shown = capsys.readouterr().err
    assert "Traceback" in shown and f"{type(error).__name__}: oh" in shown


@pytest.mark.parametrize(
    "text, sentence",
    [
        pytest.param("", "HANSA_ASSIGNMENT: got nothing", id="absent"),
        pytest.param("{", "HANSA_ASSIGNMENT", id="no JSON"),
        pytest.param('{"role":"cook"}', "HANSA_ASSIGNMENT: role", id="wrong"),
    ],
)
def test_a_wrong_assignment_is_permanent(report_file, monkeypatch, capsys, text, sentence):
    monkeypatch.setenv(ENV_ASSIGNMENT, text)
    assert program.run_assignment("server", lambda a: REPORT) == 42
    assert sentence in capsys.readouterr().err


def test_an_error_with_a_report_leaves_it_beside_the_exit_code(report_file):
    error = TooFewUpdates("no")
    error.report = REPORT
    assert program.run_assignment("server", raising(error)) == 43
    assert decode_report(report_file.read_bytes()) == REPORT


def test_a_report_that_cannot_be_written_is_a_crash(report_file, monkeypatch, tmp_path):
    monkeypatch.setenv(ENV_REPORT, str(tmp_path / "nowhere" / "report.json"))
    assert program.run_assignment("server", lambda a: REPORT) == 1


def test_a_report_replaces_an_older_one_whole(report_file):
    report_file.write_bytes(b"x" * 10_000)
    program.run_assignment("server", lambda a: REPORT)
    assert decode_report(report_file.read_bytes()) == REPORT


def test_a_pods_report_goes_into_the_file_that_the_kubelet_mounts(
    report_file, monkeypatch, tmp_path
):
    mounted = tmp_path / "termination-log"
    mounted.write_bytes(b"")
    before = mounted.stat().st_ino
    monkeypatch.delenv(ENV_REPORT)
    monkeypatch.setattr(program, "TERMINATION_LOG", str(mounted))
    assert program.run_assignment("server", lambda a: REPORT) == 0
    assert decode_report(mounted.read_bytes()) == REPORT
    assert mounted.stat().st_ino == before


class FakeClock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_progress_is_written_at_most_four_times_a_second(monkeypatch, tmp_path):
    target = tmp_path / "progress.json"
    monkeypatch.setenv(ENV_PROGRESS, str(target))
    clock = FakeClock()
    progress = program.Progress(clock)
    seen = []
    for step in range(20):
        clock.now = step * 0.1
        progress(phase="explore", done=step)
        seen.append(json.loads(target.read_text())["done"])
    assert len(set(seen)) <= 8
    assert len(set(seen)) >= 5


def test_a_new_phase_is_shown_at_once(monkeypatch, tmp_path):
    target = tmp_path / "progress.json"
    monkeypatch.setenv(ENV_PROGRESS, str(target))
    progress = program.Progress(FakeClock())
    progress(phase="explore", done=1)
    progress(phase="train", done=0)
    assert json.loads(target.read_text()) == {"phase": "train", "done": 0}


def test_progress_that_nobody_wants_or_that_cannot_be_written_harms_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv(ENV_PROGRESS, raising=False)
    program.Progress()(phase="explore")
    monkeypatch.setenv(ENV_PROGRESS, str(tmp_path / "nowhere" / "progress.json"))
    program.Progress()(phase="explore")
    assert list(tmp_path.iterdir()) == []


SLEEPER = """
import sys, time
from hansa.runtime import program
def work(assignment):
    print("working", flush=True)
    while True:
        time.sleep(60)
sys.exit(program.run_assignment("client", work))
"""


def test_sigterm_ends_the_program_with_143(report_file):
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"working\n"
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 143
    assert shown == b"terminated\n"
    assert not report_file.exists()


def test_a_program_may_run_in_a_thread(report_file):
    codes = []
    thread = Thread(target=lambda: codes.append(program.run_assignment("server", lambda a: REPORT)))
    thread.start()
    thread.join(30)
    assert codes == [0]
