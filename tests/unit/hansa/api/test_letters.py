"""Letters: each form, its bounds, and every way in which bytes are no letter of their place."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hansa.api import letters
from hansa.api.assignment import REPORT_LIMIT, EvaluateReport
from hansa.api.bucket_documents import StartAdapter, canonical, sha256
from hansa.api.letters import (
    ANSWERS,
    ORDERS,
    Answer,
    FailedReply,
    InvalidLetter,
    Leave,
    Letter,
    LetterLog,
    RefusedReply,
    Rest,
    WaitsReply,
    Work,
)
from hansa.api.reports import encode_report
from hansa.api.spec import S3
from hansa.crypto import dsse
from tests.support import mail
from tests.support.mail import COORDINATOR, ENVIRONMENT, FIELDS, FIRST, RUN, SILO, THIEF, sealed

ADAPTER = StartAdapter(round=3, sha256="e" * 64)
WRITTEN: dict[str, tuple[LetterLog, Letter]] = {
    "work": (ORDERS, mail.work()),
    "evaluate": (ORDERS, mail.work(role="evaluate", evaluate=True)),
    "rest": (ORDERS, Rest(why="finished", adapter=ADAPTER, **FIELDS)),
    "hello": (ANSWERS, mail.hello("0.1.0.dev3+g1")),
    "taken": (ANSWERS, mail.taken()),
    "waits": (ANSWERS, WaitsReply(order=FIRST, code="window", seconds=3600, **FIELDS)),
    "refused": (ANSWERS, RefusedReply(order=FIRST, code="most", path="adapter.rank", **FIELDS)),
    "failed": (ANSWERS, FailedReply(order=FIRST, exit=137, attempts=3, **FIELDS)),
    "answer": (ANSWERS, mail.answer()),
    "leave": (ANSWERS, Leave(**FIELDS)),
}
EVERY = pytest.mark.parametrize("log, letter", WRITTEN.values(), ids=WRITTEN)


def read(log: LetterLog, data: bytes, serial: int = 1, **fields: Any) -> tuple[Letter, str]:
    writer = mail.WRITERS[log.payload_type].public
    given = {"trusted": [writer], "run": RUN, "environment": ENVIRONMENT, **fields}
    return letters.read_letter(log, data, serial=serial, **given)


def fault(log: LetterLog, data: bytes, **fields: Any) -> str:
    with pytest.raises(InvalidLetter) as caught:
        read(log, data, **fields)
    return caught.value.code


def signed(log: LetterLog, payload: Any) -> bytes:
    """What the writer signs, whatever it is."""
    return dsse.sign_envelope(mail.WRITERS[log.payload_type], log.payload_type, payload)


@EVERY
def test_a_letter_comes_as_it_was_written_with_the_digest_of_its_signed_bytes(
    log: LetterLog, letter: Letter
) -> None:
    placed = letter.place_at(12, "f" * 64)
    assert read(log, sealed(log, placed), serial=12) == (placed, letters.digest_letter(placed))
    assert letters.digest_letter(placed) == sha256(canonical(placed.to_json()))


@EVERY
def test_a_letter_has_equal_bytes_each_time_and_no_time_in_them(
    log: LetterLog, letter: Letter
) -> None:
    assert sealed(log, letter) == sealed(log, type(letter).model_validate(letter.to_json()))


@EVERY
def test_a_letter_does_not_pass_in_the_other_log(log: LetterLog, letter: Letter) -> None:
    other = ANSWERS if log is ORDERS else ORDERS
    key = mail.WRITERS[log.payload_type]
    assert fault(other, sealed(log, letter.place_at(1, "")), trusted=[key.public]) == "payload-type"
    with pytest.raises(ValidationError):
        letters.write_letter(other, letter, key)


@EVERY
@pytest.mark.parametrize(
    "fields, code",
    [
        ({"run": "8" * 64}, "run"),
        ({"environment": "maze2"}, "environment"),
        ({"serial": 2}, "serial"),
        ({"trusted": [THIEF.public]}, "unknown-key"),
        ({"trusted": []}, "unknown-key"),
    ],
)
def test_a_letter_of_elsewhere_is_none(
    log: LetterLog, letter: Letter, fields: dict[str, Any], code: str
) -> None:
    assert fault(log, sealed(log, letter.place_at(1, "")), **fields) == code


def test_a_letter_that_was_never_placed_is_at_no_place() -> None:
    assert fault(ANSWERS, sealed(ANSWERS, mail.hello())) == "serial"


@pytest.mark.parametrize("log", [ORDERS, ANSWERS], ids=["orders", "answers"])
def test_no_bytes_beyond_the_limit_are_looked_at(log: LetterLog) -> None:
    assert fault(log, b"x" * (log.limit + 1)) == "size"
    assert fault(log, b"x" * log.limit) == "malformed"


def test_a_letter_that_nobody_would_read_is_not_written() -> None:
    long = mail.work(options={}, environments=[ENVIRONMENT, *(f"{n:030d}" for n in range(2000))])
    with pytest.raises(ValueError, match=r"letter has .* bytes, expected at most 65536"):
        sealed(ORDERS, long)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="sends bytes that nobody has signed",
    result="never parsed",
)
def test_an_unsigned_payload_is_never_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thief's letter is sound in every other way."""

    class Untouched:
        def validate_json(self, data: bytes) -> None:
            raise AssertionError("parsed before it was verified")

    log = LetterLog(
        payload_type=ANSWERS.payload_type,
        limit=ANSWERS.limit,
        key=ANSWERS.key,
        kinds=Untouched(),  # type: ignore[arg-type]
    )
    data = sealed(ANSWERS, mail.hello().place_at(1, ""), THIEF)
    assert fault(log, data, trusted=[SILO.public]) == "unknown-key"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="no letter"),
        pytest.param(b'{"kind":"hello"}', id="half a letter"),
        pytest.param(b"[" * 5000, id="deep"),
        pytest.param(b'{"a":' * 1000, id="deep mappings"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b'{"kind":"work"}', id="an order"),
    ],
)
def test_what_a_writer_signs_is_not_always_a_letter(payload: bytes) -> None:
    assert fault(ANSWERS, signed(ANSWERS, payload)) == "malformed"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"version": 2}, id="a later version"),
        pytest.param({"text": "call me"}, id="a field that nobody reads"),
        pytest.param({"serial": "1"}, id="a number as text"),
        pytest.param({"serial": 1.5}, id="half a serial"),
        pytest.param({"previous": "f" * 63}, id="no digest"),
        pytest.param({"environment": "../maze"}, id="a path for a name"),
        pytest.param({"program": "\x1b[2J"}, id="a program that steers a terminal"),
        pytest.param({"program": "call 555 0100"}, id="a program that is a sentence"),
    ],
)
def test_a_field_out_of_its_bounds_makes_it_no_letter(fields: dict[str, Any]) -> None:
    document = {**mail.hello().place_at(1, "").to_json(), **fields}
    assert fault(ANSWERS, signed(ANSWERS, canonical(document))) == "malformed"


@pytest.mark.attack(
    by="the coordinator",
    does="names a world, a file or a store of the silo",
    result="the letter is no order",
)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"world": "maze"}, id="a world"),
        pytest.param({"options": {"env": "subprocess:Popen"}}, id="options"),
        pytest.param({"demonstrationsFrom": "path:/etc/shadow"}, id="a file of the silo"),
        pytest.param({"endpoint": {"url": "https://x", "server": "vllm"}}, id="its endpoint"),
        pytest.param({"experienceStorage": {"bucket": "mine"}}, id="a store for the experience"),
        pytest.param(
            {"storage": {"bucket": "bucket", "prefix": "run", "endpoint": "http://evil"}},
            id="an address",
        ),
        pytest.param(
            {"storage": {"bucket": "bucket", "credentialsSecret": {"name": "s"}}}, id="a Secret"
        ),
        pytest.param({"role": "aggregator"}, id="a role that no silo has"),
        pytest.param({"environment": "wordle"}, id="another silo's work"),
        pytest.param({"environments": ["wordle"]}, id="a round without it"),
        pytest.param(
            {"members": [{"environment": "maze", "manifest": "a" * 64}]}, id="updates of others"
        ),
    ],
)
def test_an_order_cannot_name_what_the_silo_decides_by_itself(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="assignment"):
        mail.work(**fields)
    document = mail.work().place_at(1, "").to_json()
    document["assignment"].update(fields)
    assert fault(ORDERS, signed(ORDERS, canonical(document))) == "malformed"


def test_the_coordinators_own_assignment_becomes_an_order() -> None:
    known = mail.assignment(
        world="maze",
        options={"size": 5},
        demonstrationsFrom="path:/shown.json",
        experienceStorage={"bucket": "private"},
        endpoint={"url": "https://shown.example", "server": "vllm"},
        storage={"bucket": "bucket", "prefix": "run", "endpoint": "http://store:9000"},
        settings={"experience": {"demonstrationsFrom": "s3://data/shown.json"}},
    )
    bare = letters.strip_silo_fields(known)
    made = Work(assignment=bare, start_seconds=600, round_seconds=3600, **FIELDS)
    assert made == mail.work()
    assert "shown" not in canonical(made.to_json()).decode()


def test_a_work_order_keeps_what_its_result_follows_from() -> None:
    """But for what the silo adds, an update by order has the inputs of one in a single cluster."""
    known = mail.assignment(world="maze", options={"size": 5}, seed=11)
    [bare] = [letters.strip_silo_fields(known)]
    completed = bare.model_copy(update={"world": "maze", "options": {"size": 5}})
    assert completed.inputs() == known.inputs()


@pytest.mark.parametrize(
    "path", ["", "spec.world", "adapter.rank ", "settings.exploration.x", "\x1b"]
)
def test_a_veto_is_about_a_field_that_orders_have(path: str) -> None:
    with pytest.raises(ValidationError, match="a path that no order has"):
        RefusedReply(order=FIRST, code="differs", path=path, **FIELDS)


def test_every_leaf_of_an_order_can_be_vetoed() -> None:
    def leaves(value: Any, path: str) -> list[str]:
        if not isinstance(value, dict):
            return [path]
        return [leaf for name in value for leaf in leaves(value[name], f"{path}.{name}")]

    document = mail.assignment().to_json()
    for part in ("model", "adapter", "settings"):
        assert set(leaves(document[part], part)) <= letters.PATHS


def test_the_tables_say_what_each_code_means() -> None:
    kinds = {code for part in get_args(letters.Fault) for code in get_args(part) or [part]}
    assert kinds == letters.FAULTS.keys()
    assert set(get_args(letters.Veto)) == letters.VETOES.keys()


def test_letters_of_another_place_or_identity_are_of_another_run() -> None:
    identity = mail.assignment().identity()
    here = letters.compute_run_id(mail.storage(), identity)
    assert len(here) == 64
    elsewhere = mail.storage().model_copy(update={"endpoint": "http://by.another.address"})
    assert letters.compute_run_id(elsewhere, identity) == here
    assert letters.compute_run_id(S3(bucket="bucket", prefix="run2"), identity) != here
    assert letters.compute_run_id(mail.storage(), mail.assignment(seed=8).identity()) != here


def test_the_longest_order_of_100_silos_fits() -> None:
    names = sorted(f"{'silo-of-a-very-long-name'}-{n:04d}" for n in range(99))
    made = mail.work(
        environments=[*names, ENVIRONMENT],
        federation="f" * 40,
        model={"source": "hf:" + "o" * 240 + "/" + "n" * 240, "sha256": "a" * 64},
        adapter={"targetModules": [f"{n:0100d}" for n in range(50)]},
        settings={"exploration": {"stop": ["x" * 100] * 8}},
        storage={"bucket": "b" * 63, "prefix": "p" * 200},
    )
    assert len(sealed(ORDERS, made.place_at(2**53, "f" * 64))) < ORDERS.limit


def test_the_longest_answer_fits() -> None:
    """A report has at most what Kubernetes keeps of a Pod's last words."""
    figures = {"episodes": 2**53, "successes": 2**53}
    seconds = {"evaluate": 1.5, "alone": 2.5, "personal": 3.5, "load": 123456.789}
    report = EvaluateReport.model_validate(
        {
            "environment": 99,
            "evaluation": {"round": 2**53, **figures, "validation": figures, "effective": 1e17},
            "personal": figures,
            "alone": figures,
            "serves": "finetuned-00001",
            "seconds": seconds,
        }
    )
    assert len(encode_report(report)) < REPORT_LIMIT
    made = Answer(
        order=FIRST,
        report=report,
        evaluations={f"{n:09d}-own": "d" * 64 for n in range(4)},
        **{**FIELDS, "environment": "m" * 30},
    )
    longest = len(sealed(ANSWERS, made.place_at(2**53, "f" * 64)))
    assert longest + (REPORT_LIMIT - len(encode_report(report))) * 4 / 3 < ANSWERS.limit


@settings(max_examples=100)
@given(
    serial=st.integers(1, 2**53),
    previous=st.sampled_from(["", "0" * 64, "f" * 64]),
    code=st.sampled_from(sorted(letters.VETOES)),
    path=st.sampled_from(sorted(letters.PATHS)),
)
def test_any_veto_comes_as_it_was_written(serial: int, previous: str, code: Any, path: str) -> None:
    made = RefusedReply(order=FIRST, code=code, path=path, **FIELDS).place_at(serial, previous)
    assert read(ANSWERS, sealed(ANSWERS, made), serial=serial)[0] == made


def test_what_two_letters_say_does_not_depend_on_their_place() -> None:
    one = mail.taken()
    assert one.place_at(3, "a" * 64).has_same_content(one.place_at(9, ""))
    assert not one.has_same_content(mail.hello())
    assert not mail.work().has_same_content(mail.work(round=2))


def test_a_letter_is_what_the_table_says() -> None:
    """The names on the wire: others write them, too."""
    data = json.loads(canonical(mail.taken().place_at(2, "f" * 64).to_json()))
    assert data == {
        "version": 1,
        "kind": "taken",
        "run": RUN,
        "environment": "maze",
        "serial": 2,
        "previous": "f" * 64,
        "order": {"serial": 1, "digest": "a" * 64},
    }
    order = mail.work().place_at(1, "").to_json()
    assert {"kind", "assignment", "startSeconds", "roundSeconds"} <= order.keys()
    assert order["assignment"]["storage"] == {
        "bucket": "bucket",
        "prefix": "run",
        "region": "us-east-1",
        "addressingStyle": "path",
    }
    assert COORDINATOR.public != SILO.public
