"""What `hansa serve` and `hansa chat` refuse before anything is loaded, in one sentence."""

import socket
from pathlib import Path

import pytest

from tests.support.commands import hansa


@pytest.mark.parametrize(
    "words, sentence",
    [
        pytest.param(["serve", "no/where"], "RUN: got no/where, which holds no run"),
        pytest.param(["serve", "--adapter", "x"], "--adapter: got 'x', expected NAME=FOLDER"),
        pytest.param(["serve", "--adapter", "a=/none"], "/none: got no adapter_config.json"),
        pytest.param(["serve", "--api-key-file", "/none"], "--api-key-file: got /none: No such"),
        pytest.param(["serve", "--model", "path:/none"], "--model: got path:/none, which is no"),
        pytest.param(["serve", "--host", "192.0.2.1"], "--host, --port: got 192.0.2.1:8000 ("),
        pytest.param(["chat", "--url", "ftp://x"], "--url: got ftp://x, expected an address like"),
        pytest.param(["chat", "--url", "http://127.0.0.1:9"], "http://127.0.0.1:9: got no answer"),
        pytest.param(["chat", "--url", "http://[:9"], "--url: got http://[:9, expected an address"),
        pytest.param(["chat", "x", "--url", "y"], "got RUN (x) and --url (y), expected one of"),
        pytest.param(["chat", "none"], "RUN: got none, expected the folder of a run or of a PEFT"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa(*words) in (1, 2)
    said = capsys.readouterr().err
    assert f"error: {sentence}" in said and "Traceback" not in said


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert hansa("serve", "--port", port) == 2
    assert f"got 127.0.0.1:{port} (Address already in use)" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", " \n", "two words", "schl\u00fcssel", "bell\x07"])
def test_a_key_that_no_header_carries_is_refused(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key"
    file.write_text(key)
    assert hansa("serve", "--api-key-file", file) == 2
    assert "expected a key of printable ASCII in it" in capsys.readouterr().err
