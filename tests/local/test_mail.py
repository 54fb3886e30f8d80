"""`hansa mail`: both logs of a silo, each letter verified, from a store and from a run's folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api import bucket_keys
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, Reference, compute_run_id
from hansa.api.spec import S3
from hansa.local.loop import open_embedded, use_embedded
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.local.rundir import RunDir
from hansa.store.base import ObjectStore
from tests.support import commands, mail
from tests.support.builders import make_federation
from tests.support.mail import COORDINATOR, SILO, THIEF

KEYS = ("--orders-key", COORDINATOR.public, "--answers-key", SILO.public)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[Any, Any, str]:
    """Exit code, lines as data, and what was said."""
    code, out, err = commands.call(capsys, "mail", *arguments, "-o", "json")
    return code, json.loads(out or "[]"), err


def correspond(store: ObjectStore, place: S3) -> None:
    """An order, and two answers; all letters of the run that `make_federation` is."""
    run = compute_run_id(place, mail.assignment().identity())
    fields = {"run": run, "prefix": place.prefix}
    order = mail.work(storage={"bucket": place.bucket, "prefix": place.prefix})
    box = mail.box(ORDERS, store, **fields)
    posted = box.post(order.model_copy(update={"run": run}), Cursor(), COORDINATOR)
    about = Reference(serial=1, digest=posted.cursor.digest or "")
    answers, cursor = mail.box(ANSWERS, store, **fields), Cursor()
    for letter in (mail.taken(about), mail.answer(about)):
        cursor = answers.post(letter.model_copy(update={"run": run}), cursor, SILO).cursor


@pytest.fixture
def place(weed: LocalStore, fresh_prefix: str, monkeypatch: pytest.MonkeyPatch) -> S3:
    for name, value in weed.environ(RUNNER).items():
        monkeypatch.setenv(name, value)
    return weed.s3.model_copy(update={"prefix": fresh_prefix})


@pytest.fixture
def store(weed: LocalStore, place: S3) -> ObjectStore:
    """With the letters of a silo."""
    correspond(weed.store(), place)
    return weed.store()


@pytest.fixture
def manifest(place: S3, tmp_path: Path) -> Path:
    federation = make_federation("maze", "wordle", storage={"s3": place.to_json()})
    file = tmp_path / "federation.yaml"
    document = {"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation"}
    metadata = {"metadata": {"name": "fed"}, "spec": federation.spec.to_json()}
    file.write_text(yaml.safe_dump({**document, **metadata}))
    return file


def shown(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    kind = ["fault", "letter"]
    return [
        (each["log"], each["serial"], each.get("fault") or each["letter"]["kind"])
        for each in lines
        if any(name in each for name in kind)
    ]


@pytest.mark.usefixtures("store")
def test_both_logs_of_a_store_are_printed_as_lines(
    capsys: pytest.CaptureFixture[str], manifest: Path
) -> None:
    code, lines, err = call(capsys, "maze", "-f", manifest, *KEYS)
    assert (code, err) == (0, "")
    assert shown(lines) == [
        ("orders", 1, "work"),
        ("answers", 1, "taken"),
        ("answers", 2, "answer"),
    ]
    assert all(line["follows"] for line in lines)
    assert lines[1]["letter"]["order"] == {"serial": 1, "digest": lines[0]["digest"]}


def test_what_is_no_letter_is_named_with_its_meaning(
    capsys: pytest.CaptureFixture[str], manifest: Path, place: S3, store: ObjectStore
) -> None:
    store.put_if_absent(bucket_keys.answer(place.prefix, "maze", 3), b"\x1b[2J")
    code, lines, err = call(capsys, "maze", "-f", manifest, *KEYS)
    assert code == 1
    assert lines[-1] == {
        "log": "answers",
        "serial": 3,
        "fault": "malformed",
        "means": "the object is not a letter that this version can read",
    }
    assert "1 of 4 objects are no letters, or break the chain" in err


def test_a_table_has_serial_kind_round_and_what_was_verified(
    capsys: pytest.CaptureFixture[str], manifest: Path, place: S3, store: ObjectStore
) -> None:
    store.put_if_absent(bucket_keys.answer(place.prefix, "maze", 3), b"\x1b[2J")
    code, out, _ = commands.call(capsys, "mail", "maze", "-f", manifest, *KEYS)
    assert code == 1
    assert [line.split() for line in out.splitlines()[:-1]] == [
        ["LOG", "SERIAL", "KIND", "ROUND", "VERIFIED"],
        ["orders", "1", "work", "1", "yes"],
        ["answers", "1", "taken", "1", "yes"],
        ["answers", "2", "answer", "1", "yes"],
    ]
    assert out.splitlines()[-1].rstrip().split(maxsplit=2) == [
        "answers",
        "3",
        "no: the object is not a letter that this version can read",
    ]


@pytest.mark.usefixtures("store")
def test_letters_by_another_key_are_not_believed(
    capsys: pytest.CaptureFixture[str], manifest: Path
) -> None:
    other = ("--orders-key", COORDINATOR.public, "--answers-key", THIEF.public)
    code, lines, _ = call(capsys, "maze", "-f", manifest, *other)
    assert code == 1
    assert shown(lines)[1:] == [("answers", n, "unknown-key") for n in (1, 2)]


def test_the_letters_of_a_run_are_read_from_its_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, federation = RunDir(tmp_path / "run"), make_federation("maze", "wordle")
    folder.prepare()
    folder.save(federation)
    spec = use_embedded(federation)
    assert spec.storage
    with open_embedded(folder, spec) as store:
        correspond(store.store(), spec.storage.s3)
    code, lines, _ = call(capsys, folder.path, "maze", *KEYS)
    assert code == 0
    assert shown(lines)[0] == ("orders", 1, "work")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(("maze", *KEYS), "missing argument 'ENVIRONMENT'", id="no place"),
        pytest.param(("y", "maze", "-f", "x", *KEYS), "unexpected extra argument", id="two"),
        pytest.param(
            (".", "maze", "--endpoint", "http://z", *KEYS),
            "--endpoint: got it",
            id="a run",
        ),
        pytest.param(
            ("maze", "-f", "x", *KEYS[:3], "ed25519:x"), "public key: got 'ed25519:x'", id="no key"
        ),
    ],
)
def test_a_command_line_that_does_not_fit_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    code, lines, err = call(capsys, *arguments)
    assert (code, lines) == (2, [])
    assert sentence in err


@pytest.mark.parametrize(
    "arguments, expected, sentence",
    [
        pytest.param(("wordle", *KEYS), 0, "nothing is signed here", id="without letters"),
        pytest.param(
            ("mase", *KEYS),
            2,
            "ENVIRONMENT: got 'mase', expected maze or wordle",
            id="a silo that there is not",
        ),
        pytest.param(
            ("maze",),
            2,
            "--orders-key: got none, and the manifest names no publicKeys for maze",
            id="without a key nothing is believed",
        ),
    ],
)
def test_where_there_is_no_letter_to_read_it_says_why(
    capsys: pytest.CaptureFixture[str],
    manifest: Path,
    arguments: tuple[str, ...],
    expected: int,
    sentence: str,
) -> None:
    code, lines, err = call(capsys, *arguments, "-f", manifest)
    assert (code, lines) == (expected, [])
    assert sentence in err
