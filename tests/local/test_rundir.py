"""A run's folder: one run, one runner, and a status that is never half written."""

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from hansa.api.constants import ANNOTATION_RETRY
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.local.rundir import RunDir
from hansa.plan.federation import plan
from tests.support.builders import NOW, later, make_federation, make_job, with_spec, with_status
from tests.support.commands import hansa
from tests.support.sources import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run")
    made.prepare()
    return made


def opened(federation: Federation) -> Federation:
    """The federation with its first round open and every client at work."""
    first = plan(federation, [], NOW)
    federation = with_status(federation, first.status)
    second = plan(federation, [], NOW)
    running = [make_job(request, "running") for request in second.create]
    third = plan(with_status(federation, second.status), running, NOW)
    return with_status(federation, third.status)


def test_what_is_saved_is_loaded(folder: RunDir) -> None:
    federation = opened(make_federation())
    folder.save(federation)
    assert folder.load() == federation


def test_a_kill_within_saving_leaves_the_old_object(folder: RunDir) -> None:
    folder.save(make_federation())
    folder.object.with_suffix(".tmp").write_text('{"half')
    assert folder.load() == make_federation()
    folder.save(opened(make_federation()))
    assert folder.load().status.round == 1


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\)"):
        RunDir(tmp_path).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_a_killed_first_start_left_is_taken(folder: RunDir) -> None:
    (folder.path / "lock").touch()
    (folder.path / "federation.tmp").write_text("{")
    (folder.path / "hansa_client.log").touch()
    (folder.path / ".seconds.log.123").touch()  # killed while one was written anew
    folder.prepare()


@pytest.mark.parametrize(
    "command", [["run", ROOT / "examples/01-two-worlds/federation.yaml"], ["demo"]]
)
def test_an_out_that_is_a_file_is_refused_before_anything_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str | Path]
) -> None:
    out = tmp_path / "file"
    out.touch()
    assert hansa(*command, "--out", out) == 2
    sentence = f"error: --out: got {out}, which is a file, expected a folder"
    assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize("below", ["file", "file/run"])
def test_a_path_that_cannot_be_a_folder_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--out: got"):
        RunDir(tmp_path / below).prepare()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "Pod"}', "\x00\x01"])
def test_a_damaged_object_is_one_sentence(folder: RunDir, text: str) -> None:
    folder.object.write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        folder.load()


def test_a_folder_without_a_run_says_how_to_start_one(folder: RunDir) -> None:
    with pytest.raises(InputError, match="holds no run") as caught:
        folder.load()
    assert "hansa run" in caught.value.hint


def test_two_runners_cannot_hold_one_folder(folder: RunDir) -> None:
    assert not folder.is_running()
    with folder.lock():
        assert folder.is_running()
        with pytest.raises(InputError, match="another `hansa run` is at work"), folder.lock():
            pass
    assert not folder.is_running()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        pytest.param({"seed": 8}, "spec.seed: got 8, expected 7", id="seed"),
        pytest.param({"rounds": 1}, "spec.rounds: got 1, expected 2 or more", id="fewer rounds"),
        pytest.param({"adapter": {"rank": 4}}, "spec.adapter.rank: got 4", id="rank"),
        pytest.param({"model": {"source": "path:/x"}}, "spec.model.source", id="model"),
        pytest.param({"environments": [{"name": "maze", "world": "wordle"}]}, "maze", id="a world"),
    ],
)
def test_a_changed_immutable_field_is_refused_by_its_name(
    folder: RunDir, changes: dict[str, object], sentence: str
) -> None:
    folder.save(opened(make_federation()))
    wanted = with_spec(make_federation(), **changes)
    with pytest.raises(InputError, match="spec") as caught:
        folder.adopt(wanted, wanted, NOW)
    assert sentence in caught.value.message
    assert str(folder.path) in caught.value.hint


def test_another_name_is_another_run(folder: RunDir) -> None:
    folder.save(opened(make_federation()))
    other = make_federation()
    metadata = other.metadata.model_copy(update={"name": "other"})
    other = other.model_copy(update={"metadata": metadata})
    with pytest.raises(InputError, match=r"metadata.name: got other, expected fed"):
        folder.adopt(other, other, NOW)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"rounds": 9}, id="more rounds"),
        pytest.param({"training": {"epochs": 5}}, id="epochs"),
        pytest.param({"participation": {"retries": 9}}, id="retries"),
    ],
)
def test_a_changed_mutable_field_is_a_new_generation(
    folder: RunDir, changes: dict[str, object]
) -> None:
    folder.save(opened(make_federation()))
    wanted = make_federation(**changes)
    adopted = folder.adopt(wanted, wanted, NOW)
    assert adopted.spec == wanted.spec
    assert adopted.metadata.generation == 2
    assert adopted.status.round == 1


def test_an_unchanged_spec_is_the_same_generation(folder: RunDir) -> None:
    old = opened(make_federation())
    folder.save(old)
    assert folder.adopt(make_federation(), make_federation(), NOW).metadata == old.metadata


def finished(federation: Federation) -> Federation:
    """The federation with both of its rounds done."""
    done = {"phase": "Succeeded", "round": 2, "completed": 2, "evaluated": 2}
    accepted = opened(federation).status.accepted
    status = federation.status.model_copy(update={**done, "accepted": accepted})
    return with_status(federation, status)


def test_other_settings_of_a_finished_run_are_refused_by_their_fields(folder: RunDir) -> None:
    folder.save(finished(make_federation()))
    before = folder.object.read_bytes()
    wanted = make_federation(training={"epochs": 9}, evaluation={"tasks": 3})
    with pytest.raises(InputError) as caught:
        folder.adopt(wanted, wanted, NOW)
    assert caught.value.message == (
        "spec.evaluation.tasks: got 3, expected 100; spec.training.epochs: got 9, expected 2 "
        "(the run is finished, and no round would use anything else)"
    )
    assert "raise spec.rounds" in caught.value.hint and "another --out" in caught.value.hint
    assert folder.object.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"rounds": 3, "training": {"epochs": 9}}, id="more rounds use them"),
        pytest.param({"podTemplate": {"spec": {"priority": 1}}}, id="no round uses them anyway"),
        pytest.param({}, id="nothing changed"),
    ],
)
def test_a_finished_run_is_taken_up_again_where_no_setting_is_lost(
    folder: RunDir, changes: dict[str, object]
) -> None:
    folder.save(finished(make_federation()))
    wanted = make_federation(**changes)
    assert folder.adopt(wanted, wanted, NOW).spec == wanted.spec


@pytest.mark.parametrize(
    "changes, rounds, sentences",
    [
        pytest.param(
            {"training": {"epochs": 5}},
            2,
            ["from round 2 on: spec.training.epochs: 2 -> 5"],
            id="a round is open",
        ),
        pytest.param({"rounds": 9}, 2, ["from round 2 on: spec.rounds: 2 -> 9"], id="more rounds"),
        pytest.param(
            {"evaluation": {"tasks": 5}, "rounds": 1},
            1,
            ["for the last evaluation only: spec.evaluation.tasks: 100 -> 5"],
            id="the last round is open",
        ),
        pytest.param({}, 2, [], id="nothing"),
    ],
)
def test_what_a_manifest_changes_is_told_with_the_round_that_it_counts_from(
    folder: RunDir, changes: dict[str, object], rounds: int, sentences: list[str]
) -> None:
    folder.save(opened(make_federation(rounds=rounds)))
    events = folder.changes(make_federation(**changes))
    assert [event.message for event in events] == sentences
    assert {event.reason for event in events} <= {"SettingsChanged"}


def test_a_new_run_changes_nothing(folder: RunDir) -> None:
    assert folder.changes(make_federation()) == []


def test_nobody_is_late_because_nobody_ran_the_round(folder: RunDir) -> None:
    old = opened(make_federation())
    assert old.status.current and old.status.current.started_at
    folder.save(old)
    next_day = NOW + timedelta(days=1)
    adopted = folder.adopt(make_federation(), make_federation(), next_day)
    goes_on = plan(adopted, [], next_day)
    assert not goes_on.status.failed
    assert len(goes_on.create) == 3


def test_the_aggregators_clock_begins_again_too(folder: RunDir) -> None:
    old = opened(make_federation())
    assert old.status.current
    frozen = old.status.current.model_copy(update={"members": [], "frozen_at": NOW})
    folder.save(with_status(old, old.status.model_copy(update={"current": frozen})))
    adopted = folder.adopt(make_federation(), make_federation(), later(90_000))
    assert adopted.status.current and adopted.status.current.frozen_at == later(90_000)


def test_running_a_failed_federation_again_asks_for_a_retry(folder: RunDir) -> None:
    federation = opened(make_federation())
    requests = plan(federation, [], NOW).create
    failed = [make_job(request, "failed", exit_code=42) for request in requests]
    federation = with_status(federation, plan(federation, failed, NOW).status)
    assert federation.status.failed
    folder.save(federation)
    adopted = folder.adopt(make_federation(), make_federation(), NOW)
    assert adopted.metadata.annotations[ANNOTATION_RETRY] == "after-round-1"
    again = plan(adopted, [], NOW)
    assert again.status.failed is None
    assert again.status.round == 2, "the failed round's number is never used again"


@pytest.mark.parametrize(
    "why",
    [
        pytest.param(
            " ".join(f"word{n}" for n in range(60)), id="a long one is one line in a pipe"
        ),
        pytest.param("maze: http://[fd00::1]:9000 and [/models] did not answer", id="brackets"),
    ],
)
def test_a_message_is_shown_as_it_is(
    folder: RunDir, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    federation = opened(make_federation())
    condition = federation.status.conditions[0].model_copy(
        update={"type": "Degraded", "status": "True", "message": why}
    )
    status = federation.status.model_copy(update={"conditions": [condition]})
    folder.save(with_status(federation, status))
    assert not hansa("status", folder.path)
    assert any(why in line for line in capsys.readouterr().out.splitlines())


def test_watching_a_finished_run_says_where_its_adapter_is(
    folder: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.save(finished(make_federation()))
    assert hansa("watch", folder.path) == 0
    out, err = capsys.readouterr()
    assert "Succeeded" in out
    assert f"succeeded; report: {folder.page}" in err


def test_watching_a_run_that_nobody_runs_ends_with_what_to_do(
    folder: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.save(opened(make_federation()))
    assert hansa("watch", folder.path) == 1
    out, err = capsys.readouterr()
    assert "Running: round 1 waits for" in out
    assert f"error: run {folder.path}: stopped: round 1 waits for" in err
    assert f"`hansa retry {folder.path}` with the keys of `hansa run` resumes it" in err


@pytest.mark.parametrize("command", ["watch", "retry", "status"])
def test_a_folder_that_is_not_there_is_one_sentence_and_is_not_made(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa(command, tmp_path / "nowhere") == 2
    assert "which holds no run" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_retry_goes_on_with_a_run_that_is_only_stopped_and_leaves_one_alone_that_runs(
    folder: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A retry that Ctrl-C stopped says that the same command resumes it."""
    carried: list[Path] = []

    def carry_out(federation: Federation, folder: RunDir, options: object) -> int:
        carried.append(folder.path)
        return 0

    monkeypatch.setattr("hansa.cli.run.carry_out", carry_out)
    folder.save(opened(make_federation()))
    with folder.lock():
        assert hansa("retry", folder.path) == 0
    out, _ = capsys.readouterr()
    assert out == f"run {folder.path} unchanged (nothing has failed: it is Running)\n"
    assert not carried
    assert hansa("retry", folder.path) == 0
    assert carried == [folder.path]


def test_a_runner_starts_while_others_look_whether_one_is_at_work(folder: RunDir) -> None:
    """Many readers ask at any moment; none of them may be taken for a runner."""
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            folder.is_running()

    (folder.path / "lock").touch()
    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(50):
            with folder.lock():
                assert folder.is_running()
    finally:
        ended.set()
        for reader in readers:
            reader.join()


def test_the_saved_object_is_what_kubectl_would_print(folder: RunDir) -> None:
    folder.save(opened(make_federation()))
    printed = json.loads(folder.object.read_text())
    assert (printed["apiVersion"], printed["kind"]) == ("hansa.dev/v1alpha1", "Federation")
    assert printed["status"]["current"]["environments"][0]["state"] == "Running"
