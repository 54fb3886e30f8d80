"""The local executor with real processes and a program that does as it is told."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from hansa.api.assignment import ENV_MODEL_CACHE, ClientReport, Role
from hansa.api.endpoint import ENV_API_KEY
from hansa.api.jobs import JobRequest
from hansa.local import executor as executors
from hansa.local.executor import LocalExecutor
from hansa.runtime.capacity import Capacity, measure
from tests.support import processes
from tests.support.fake_jobs import FAKE, find, job, pid_of, wait, wait_until_it_hangs
from tests.support.processes import until

Make = Callable[..., LocalExecutor]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes executors whose every program is the fake one."""
    for role in executors.PROGRAMS:
        monkeypatch.setitem(executors.PROGRAMS, role, FAKE)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv(processes.MARK, str(tmp_path))
    with ExitStack() as stack:

        def made(
            slots: int = 2, gpus: tuple[str, ...] = (), *, own_credentials: bool = False
        ) -> LocalExecutor:
            capacity = Capacity(slots=slots, gpus=list(gpus))
            executor = LocalExecutor(
                tmp_path / "jobs",
                lambda name: {} if own_credentials else {"AWS_ACCESS_KEY_ID": f"key-of-{name}"},
                capacity,
                own_credentials=own_credentials,
            )
            return stack.enter_context(executor)

        yield made


@pytest.fixture
def hanging(make: Make) -> LocalExecutor:
    """With one Job at work that does not end."""
    executor = make()
    executor.create(job("hang"))
    wait_until_it_hangs(executor, "hang-maze")
    return executor


def read_log(executor: LocalExecutor, request: JobRequest) -> str:
    """What a Job has said, once it has ended."""
    executor.create(request)
    wait(executor, request.name)
    return (executor.folder(request.name) / "log.txt").read_text()


def test_a_job_that_answers_has_succeeded_with_its_report(make: Make) -> None:
    executor = make()
    executor.create(job("answer"))
    (done,) = wait(executor, "answer-maze")
    assert (done.state, done.exit_code) == ("succeeded", None)
    assert isinstance(done.report, ClientReport)
    assert done.started_at and done.started_at >= done.created_at


@pytest.mark.parametrize(
    "does, code, message",
    [
        pytest.param("crash", 1, "it broke", id="a crash ends with its traceback's last line"),
        pytest.param("exit", 44, "gpu none", id="an exit code comes through"),
        pytest.param("exit-hard", 255, "the driver gave up", id="no signal has that number"),
        pytest.param("kill", 137, "killed (signal 9", id="a kill is told as one"),
    ],
)
def test_a_job_that_fails_tells_how(make: Make, does: str, code: int, message: str) -> None:
    executor = make()
    executor.create(job(does))
    (failed,) = wait(executor, f"{does}-maze")
    assert (failed.state, failed.exit_code, failed.reason) == ("failed", code, "")
    assert message in failed.message
    assert failed.report is None


@pytest.mark.parametrize("role, key", [("client", "of-the-user"), ("aggregator", "none")])
def test_the_key_of_an_endpoint_reaches_clients_alone(
    make: Make, monkeypatch: pytest.MonkeyPatch, role: Role, key: str
) -> None:
    monkeypatch.setenv(ENV_API_KEY, "of-the-user")
    assert f"key {key}\n" in read_log(make(), replace(job("answer"), role=role))


def test_creating_a_job_twice_is_creating_it_once(make: Make, tmp_path: Path) -> None:
    executor = make()
    for _ in range(2):
        executor.create(job("answer"))
    wait(executor, "answer-maze")
    executor.create(job("answer"))
    executor.wait(0)
    assert (tmp_path / "jobs/answer-maze/log.txt").read_text().count("who") == 1


def test_a_report_of_an_earlier_runner_does_not_count(make: Make, tmp_path: Path) -> None:
    old = tmp_path / "jobs/crash-maze/report.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    executor = make()
    executor.create(job("crash"))
    wait(executor, "crash-maze")
    assert not old.exists()


def test_no_more_jobs_run_than_there_are_slots(make: Make) -> None:
    executor = make(slots=1)
    executor.create(job("hang"))
    executor.create(job("answer"))
    wait_until_it_hangs(executor, "hang-maze")
    assert find(executor, "answer-maze").state == "queued"
    executor.delete("hang-maze")
    wait(executor, "answer-maze")
    assert [seen.name for seen in executor.observe()] == ["answer-maze"]


def test_a_deleted_job_has_no_process_left(hanging: LocalExecutor, tmp_path: Path) -> None:
    pid = pid_of(tmp_path, "hang-maze")
    assert pid and not processes.is_gone(pid)
    hanging.delete("hang-maze")
    until(lambda: processes.is_gone(pid), "the Job to end")
    assert hanging.observe() == []


def test_jobs_of_a_killed_warm_process_are_disrupted_and_the_next_ones_run(
    hanging: LocalExecutor, tmp_path: Path
) -> None:
    pid = pid_of(tmp_path, "hang-maze")
    processes.kill(processes.parent(pid))
    (failed,) = wait(hanging, "hang-maze")
    assert (failed.state, failed.reason, failed.exit_code) == ("failed", "Disrupted", None)
    until(lambda: processes.is_gone(pid), "the Job to end with its parent")
    hanging.create(job("answer"))
    (done,) = wait(hanging, "answer-maze")
    assert done.state == "succeeded"


def test_a_program_that_cannot_start_is_told_and_not_tried_for_ever(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSA_TEST_BROKEN", "1")
    executor = make()
    executor.create(job("answer"))
    (failed,) = wait(executor, "answer-maze")
    assert failed.reason == "CannotStart"
    assert "No module named 'torch'" in failed.message


@pytest.mark.parametrize("ending", ["answer", "crash", "kill"])
def test_a_job_that_ended_leaves_no_temporary_file(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    executor = make()
    executor.create(job(ending))
    executor.create(job("hang"))
    wait(executor, f"{ending}-maze")
    wait_until_it_hangs(executor, "hang-maze")
    assert scratch(tmp_path) == ["hang-maze"]
    executor.__exit__(None, None, None)
    executor._programs.clear()
    assert scratch(tmp_path) == list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("given", ["", "/models"])
def test_models_are_downloaded_for_all_jobs_and_not_into_a_folder_that_goes_with_one(
    make: Make, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.delenv(ENV_MODEL_CACHE, raising=False)
    if given:
        monkeypatch.setenv(ENV_MODEL_CACHE, given)
    said = read_log(make(), job("answer")).splitlines()
    (line,) = [each for each in said if each.startswith("models ")]
    usual = f"{tempfile.gettempdir()}/hansa-{os.getuid()}"
    assert line == f"models {given or usual}"


def test_temporary_files_of_a_runner_that_was_killed_go_with_the_next(
    make: Make, tmp_path: Path
) -> None:
    left = tmp_path / "jobs" / "of-the-killed" / "tmp"
    left.mkdir(parents=True)
    (left / "update").write_bytes(bytes(1000))
    make()
    assert scratch(tmp_path) == []


def scratch(tmp_path: Path) -> list[str]:
    """Jobs that have temporary files."""
    return [found.parent.parent.name for found in tmp_path.glob("jobs/*/tmp/*")]


def test_leaving_ends_everything(hanging: LocalExecutor, tmp_path: Path) -> None:
    assert len(processes.of_run(tmp_path)) > 1
    hanging.__exit__(None, None, None)
    until(lambda: not processes.of_run(tmp_path), "all processes to end")
    hanging._programs.clear()


def test_every_job_has_its_own_credentials_and_none_of_the_users(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-user")
    executor = make(gpus=("0", "1"))
    executor.create(job("answer", environment="maze"))
    executor.create(job("answer", environment="wordle"))
    wait(executor, "answer-maze", "answer-wordle")
    logs = {n: (tmp_path / f"jobs/answer-{n}/log.txt").read_text() for n in ("maze", "wordle")}
    assert "who key-of-maze" in logs["maze"] and "who key-of-wordle" in logs["wordle"]
    assert {"gpu 0", "gpu 1"} <= {line for text in logs.values() for line in text.splitlines()}


def test_with_a_store_of_their_own_users_credentials_come_through(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-user")
    assert "who of-the-user" in read_log(make(own_credentials=True), job("answer"))


def test_garbled_progress_is_no_progress(make: Make, tmp_path: Path) -> None:
    executor = make()
    (tmp_path / "jobs/some").mkdir(parents=True)
    for text in ("", "{", "[1]"):
        (tmp_path / "jobs/some/progress.json").write_text(text)
        assert executor.progress("some") == {}


def test_the_machine_carries_at_least_one_job_and_as_many_as_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert measure(threads=1, model_bytes=2**50).slots == 1
    assert measure(threads=10_000).slots == 1
    assert measure(threads=1, asked=7).slots == 7
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    on_gpus = measure(threads=1)
    assert on_gpus.gpus == ["2", "5"]
    assert on_gpus.environ(1) == {"CUDA_VISIBLE_DEVICES": "5"}
