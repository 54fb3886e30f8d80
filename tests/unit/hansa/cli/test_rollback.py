"""`hansa rollback`: what it asks for, what it refuses, and what it says."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import FileEntry
from hansa.api.constants import ANNOTATION_ROLLBACK
from hansa.api.status import Federation
from hansa.cli.run import RunArguments
from hansa.kubernetes.state import has_failed, has_succeeded
from hansa.local.rundir import RunDir
from tests.support.builders import with_status
from tests.support.commands import hansa
from tests.support.guard_plans import guarded, play
from tests.support.memory_store import MemoryStore
from tests.support.unevaluated_plans import FEW, fail

PREFIX = "fed"
STORAGE = {"s3": {"endpoint": "http://127.0.0.1:1", "bucket": "hansa", "prefix": PREFIX}}
ADAPTER = b"tensors"


def after(*successes: int, rounds: int = 4) -> Federation:
    """A federation after some rounds, the next of which is open; all its adapters are alike."""
    made = play(guarded(rounds, guard=None, storage=STORAGE), *successes).federation
    history = [
        entry.model_copy(update={"adapter": bucket_documents.sha256(ADAPTER)})
        if entry.adapter
        else entry
        for entry in made.status.history
    ]
    status = made.status.model_copy(update={"history": history})
    return with_status(made, status)


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store of every federation here, with the adapters of nine rounds."""
    made = MemoryStore()
    for round_ in range(1, 10):
        folder = bucket_keys.global_folder(PREFIX, round_)
        entry = FileEntry(sha256=bucket_documents.sha256(ADAPTER), size=len(ADAPTER))
        document = {
            "kind": "global",
            "program": "0",
            "round": round_,
            "fingerprint": bucket_documents.fingerprint({}),
            "inputs": {},
            "baseModel": "b" * 64,
            "start": {"round": 0, "sha256": ""},
            "members": [],
            "files": {bucket_keys.ADAPTER: entry.to_json()},
        }
        made.put_if_absent(folder + bucket_keys.ADAPTER, ADAPTER)
        made.put_if_absent(folder + bucket_keys.MANIFEST, bucket_documents.canonical(document))
    for place in ("hansa.local.results.own_store", "hansa.local.loop.own_store"):
        monkeypatch.setattr(place, lambda *_: made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run")
    made.prepare()
    return made


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[Federation]:
    """What would be run on this machine."""
    runs: list[Federation] = []

    def carry_out(
        federation: Federation, folder: RunDir, given: RunArguments, *, goes_on: str
    ) -> int:
        runs.append(federation)
        assert goes_on == f"`{given.format_retry(folder)}` resumes it"
        return 0

    monkeypatch.setattr("hansa.cli.run.carry_out", carry_out)
    return runs


class Federations:
    """A cluster with one federation."""

    def __init__(self, federation: Federation) -> None:
        self.object: dict[str, Any] = json.loads(federation.model_dump_json(by_alias=True))
        self.changes: list[dict[str, Any]] = []

    def get(self, name: str) -> dict[str, Any]:
        return self.object

    def change(self, name: str, patch: dict[str, Any]) -> None:
        self.changes.append(patch)
        self.object["metadata"] |= patch["metadata"]

    def call(self, name: str) -> str:
        return name


def cluster(monkeypatch: pytest.MonkeyPatch, federation: Federation) -> Federations:
    there = Federations(federation)
    monkeypatch.setattr("hansa.cli.target.ClusterOptions.open", lambda *_: there)
    return there


@pytest.mark.parametrize(
    "successes, rounds, to, runs, said",
    [
        pytest.param(
            (3, 6, 1), 4, 1, 1, "goes back to round 1 (undoes 2 of 3 rounds)\n", id="at once"
        ),
        pytest.param((3,), 4, 1, 1, "", id="one that is there already just resumes"),
        pytest.param(
            (3, 6, 7),
            2,
            2,
            0,
            "run {} unchanged (it ends with round 2 already)\n",
            id="a finished one that is there already is left alone",
        ),
    ],
)
def test_a_run_goes_back_and_says_what_no_longer_counts(
    folder: RunDir,
    carried: list[Federation],
    capsys: pytest.CaptureFixture[str],
    successes: tuple[int, ...],
    rounds: int,
    to: int,
    runs: int,
    said: str,
) -> None:
    folder.save(after(*successes, rounds=rounds))
    assert hansa("rollback", folder.path, "--to", to) == 0
    assert len(carried) == runs
    for asked in carried if said else ():
        assert asked.metadata.annotations[ANNOTATION_ROLLBACK].startswith(f"{to}@20")
    assert "".join(capsys.readouterr()) == said.format(folder.path)


def test_a_run_at_work_is_not_pulled_from_under_its_runner(
    folder: RunDir, carried: list[Federation], capsys: pytest.CaptureFixture[str]
) -> None:
    folder.save(after(3, 6))
    with folder.lock():
        assert hansa("rollback", folder.path, "--to", "1") == 2
    error = capsys.readouterr().err
    assert f"{folder.path}: another `hansa run` is at work in this folder" in error
    assert "hint: stop it with Ctrl-C" in error
    assert not carried


@pytest.mark.parametrize("place", ["run", "cluster"])
def test_a_round_without_an_adapter_is_refused_with_those_that_fit(
    place: str,
    folder: RunDir,
    carried: list[Federation],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder.save(after(3, 6))
    there = cluster(monkeypatch, after(3, 6))
    where = folder.path if place == "run" else "fed"
    assert hansa("rollback", where, "--to", "9") == 2
    sentence = "--to: got '9', expected a round whose adapter counts (0, 1, 2; 0 is the base)"
    assert sentence in capsys.readouterr().err
    assert not carried and not there.changes


def test_a_federation_is_asked_and_is_not_taken_for_failed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = cluster(monkeypatch, fail(play(guarded(guard=None, **FEW), 3), "maze").federation)
    assert has_failed(there.object)
    assert hansa("rollback", "fed", "--to", "0") == 0
    out, err = capsys.readouterr()
    assert out == "federation/fed goes back to round 0 (undoes 1 of 1 round)\n"
    assert "see it run: `hansa watch fed`" in err
    assert not has_failed(there.object)
    there.object["status"]["rollback"] = there.object["metadata"]["annotations"][
        ANNOTATION_ROLLBACK
    ]
    assert has_failed(there.object), "who has acted on it may fail again"


def test_a_finished_federation_has_not_succeeded_while_it_is_to_go_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = cluster(monkeypatch, after(3, 6, 7, rounds=2))
    assert has_succeeded(there.object)
    hansa("rollback", "fed", "--to", "1")
    assert not has_succeeded(there.object)


def test_a_federation_that_is_there_already_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = cluster(monkeypatch, after(3))
    assert hansa("rollback", "fed", "--to", "1") == 0
    assert "unchanged (it continues from round 1 already)" in capsys.readouterr().out
    assert not there.changes


def test_a_refused_spec_and_a_foreign_status_are_one_sentence_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = cluster(monkeypatch, after(3, 6))
    there.object["status"]["round"] = "two"
    assert hansa("rollback", "fed", "--to", "1") == 2
    assert "its status is of another version of Hansa" in capsys.readouterr().err
    refused = {"type": "Accepted", "status": "False", "message": "spec.seed: got 8, expected 7"}
    there.object["status"]["conditions"] = [refused]
    assert hansa("rollback", "fed", "--to", "1") == 2
    assert "a rollback cannot fix it: spec.seed: got 8" in capsys.readouterr().err


GONE = {
    "all of it": bucket_keys.MANIFEST,
    "its tensors": bucket_keys.ADAPTER,
}


@pytest.mark.parametrize("what", GONE)
def test_a_run_does_not_go_back_to_an_adapter_that_its_store_has_lost(
    what: str,
    folder: RunDir,
    carried: list[Federation],
    store: MemoryStore,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder.save(after(3, 6, 1))
    before = folder.load()
    key = bucket_keys.global_folder(PREFIX, 1) + GONE[what]
    del store.objects[key]
    assert hansa("rollback", folder.path, "--to", "1") == 2
    assert capsys.readouterr().err.splitlines()[0] == (
        f"error: --to: got 1, whose adapter the store no longer has ({key} is gone), "
        "expected a round that it still has"
    )
    assert not carried
    assert folder.load() == before


def credentials(tmp_path: Path) -> Path:
    pair = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret"}
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps({"default": pair}))
    return path


@pytest.mark.parametrize("what", GONE)
def test_nor_does_a_federation_where_the_store_may_be_asked(
    what: str,
    store: MemoryStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = cluster(monkeypatch, after(3, 6, 1))
    key = bucket_keys.global_folder(PREFIX, 1) + GONE[what]
    del store.objects[key]
    given = ("--credentials", credentials(tmp_path))
    assert hansa("rollback", "fed", "--to", "1", *given) == 2
    assert f"--to: got 1, whose adapter the store no longer has ({key}" in capsys.readouterr().err
    assert not there.changes
    assert hansa("rollback", "fed", "--to", "2", *given) == 0
    assert "not asked" not in capsys.readouterr().err
    assert there.changes


def test_another_adapter_in_its_place_is_as_good_as_none(
    store: MemoryStore,
    folder: RunDir,
    carried: list[Federation],
    capsys: pytest.CaptureFixture[str],
) -> None:
    federation = after(3, 6, 1)
    history = [
        entry.model_copy(update={"adapter": "c" * 64}) for entry in federation.status.history
    ]
    status = federation.status.model_copy(update={"history": history})
    folder.save(with_status(federation, status))
    assert hansa("rollback", folder.path, "--to", "1") == 2
    assert "is not the one that round 1 made" in capsys.readouterr().err
    assert not carried


def test_the_base_is_in_no_store_and_can_always_be_gone_back_to(
    store: MemoryStore, folder: RunDir, carried: list[Federation]
) -> None:
    folder.save(after(3, 6, 1))
    store.objects.clear()
    assert hansa("rollback", folder.path, "--to", "0") == 0
    assert carried


def test_who_gives_no_credentials_is_told_that_the_store_was_not_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(monkeypatch, after(3, 6, 1))
    assert hansa("rollback", "fed", "--to", "1") == 0
    said = capsys.readouterr().err
    assert "note: the store was not asked whether it still has round 1" in said
    assert "--credentials" in said


@pytest.mark.parametrize("option", ["--parallel", "--endpoint"])
def test_options_of_the_other_place_are_refused(
    option: str, folder: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.save(after(3, 6))
    where = "fed" if option == "--parallel" else folder.path
    value = "2" if option == "--parallel" else "http://127.0.0.1:9"
    assert hansa("rollback", where, "--to", "1", option, value) == 2
    assert f"{option}: got it with" in capsys.readouterr().err
