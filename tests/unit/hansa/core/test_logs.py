"""The log: one line per event, for people or machines, and never a secret."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.core import logs

NOON = datetime(2031, 2, 3, 12, 3, 4, tzinfo=UTC)


@pytest.fixture
def log(monkeypatch):
    monkeypatch.delenv(logs.ENV_LOG, raising=False)
    return logs.Log("client", lambda: NOON)


def clock_text() -> str:
    return NOON.astimezone().strftime("%H:%M:%S")


def test_a_step_is_one_readable_line(log, capsys):
    log.info("explored", episodes=48, succeeded=17)
    captured = capsys.readouterr()
    assert captured.err == f"{clock_text()} explored episodes=48 succeeded=17\n"
    assert captured.out == ""


def test_a_machine_gets_one_json_object(log, capsys, monkeypatch):
    monkeypatch.setenv(logs.ENV_LOG, "json")
    log.warning("update_refused", environment="maze", got=16)
    assert json.loads(capsys.readouterr().err) == {
        "time": "2031-02-03T12:03:04.000+00:00",
        "level": "warning",
        "program": "client",
        "event": "update_refused",
        "environment": "maze",
        "got": 16,
    }


@pytest.mark.parametrize(
    "fields, shown",
    [
        pytest.param({"loss": 1.23456789}, "loss=1.235", id="floats are short"),
        pytest.param({"name": "a b"}, 'name="a b"', id="text with spaces is quoted"),
        pytest.param({"name": "a\nb"}, 'name="a\\nb"', id="a new line is no new event"),
        pytest.param({"name": ""}, 'name=""', id="empty text is seen"),
        pytest.param({"names": ["a", "b"]}, 'names=["a", "b"]', id="lists are JSON"),
        pytest.param({"tokens": 12}, "tokens=12", id="tokens are a count"),
        pytest.param({"token": "x"}, "token=***", id="a token is a secret"),
        pytest.param({"secretAccessKey": "x"}, "secretAccessKey=***", id="camel case"),
        pytest.param({"AWS_SECRET_ACCESS_KEY": "x"}, "AWS_SECRET_ACCESS_KEY=***", id="variable"),
        pytest.param({"s3": {"password": "x"}}, 's3={"password": "***"}', id="at any depth"),
        pytest.param({"message": "a\n b"}, "- a b", id="a message is a sentence"),
    ],
)
def test_fields_are_shown_so_that_a_line_stays_a_line(log, capsys, fields, shown):
    log.info("event", **fields)
    assert capsys.readouterr().err == f"{clock_text()} event {shown}\n"


def test_an_error_shows_its_level_message_and_hint(log, capsys):
    log.error("stopped", message="the prefix holds another run", hint="choose another")
    expected = (
        f"{clock_text()} error stopped - the prefix holds another run (hint: choose another)\n"
    )
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("form", ["", "json"])
@pytest.mark.parametrize("whose", ["", "HANSA_EXPERIENCE_"])
@pytest.mark.parametrize("kind", ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_the_programs_own_secret_is_hidden_wherever_it_turns_up(
    log, capsys, monkeypatch, form, whose, kind
):
    monkeypatch.setenv(logs.ENV_LOG, form)
    monkeypatch.setenv(f"{whose}{kind}", "wJalrXUtnFEMI/K7MDENG")
    log.error("crashed", traceback="signing with wJalrXUtnFEMI/K7MDENG failed")
    shown = capsys.readouterr().err
    assert "wJalrXUtnFEMI" not in shown
    assert "***" in shown


names = st.text("abcdefg_", min_size=1, max_size=8)
anything = st.text(max_size=30) | st.floats() | st.none() | st.lists(st.text(max_size=5))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.dictionaries(names, anything, max_size=3))
def test_any_text_is_one_line_in_both_forms(message, fields):
    for shape in (logs.format_text, logs.format_json):
        line = shape(NOON, "client", "info", "event", {"message": message, **fields})
        assert len(line.splitlines()) == 1


def test_a_closed_stream_does_not_end_the_program(log, monkeypatch, tmp_path):
    stream = (tmp_path / "log").open("w")
    stream.close()
    monkeypatch.setattr("sys.stderr", stream)
    log.info("still here")


NO_DISK = (NOON, "client", "error", "stopped", {"message": "no disk", "hint": "free it"})
CRASHED = (NOON, "client", "error", "crashed", {"traceback": "Traceback:\nKeyError: 1\n"})


@pytest.mark.parametrize(
    "line, expected",
    [
        pytest.param(logs.format_text(*NO_DISK), "no disk (hint: free it)", id="text"),
        pytest.param(logs.format_json(*NO_DISK), "no disk (hint: free it)", id="JSON"),
        pytest.param(logs.format_json(*CRASHED), "KeyError: 1", id="a traceback in JSON"),
        pytest.param("KeyError: 1", "KeyError: 1", id="the end of a traceback"),
        pytest.param('{"loss": 1}', '{"loss": 1}', id="JSON of somebody else"),
        pytest.param(
            "Traceback 12:00:00 error stopped - x",
            "Traceback 12:00:00 error stopped - x",
            id="an event's words within another line",
        ),
        pytest.param("3", "3", id="a number"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_line_says_the_sentence_of_its_event(line: str, expected: str) -> None:
    assert logs.extract_message(line) == expected
