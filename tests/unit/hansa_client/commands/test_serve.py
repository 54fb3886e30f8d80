"""What `hansa serve` and `hansa chat` refuse before anything is loaded, in one sentence."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hansa.core.errors import InputError
from hansa_client.commands import serve
from hansa_client.serving import life
from hansa_client.serving.sources import AdapterSource
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
        pytest.param(["chat", "none", "--kubeconfig", "/none"], "--kubeconfig: got /none, which"),
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
        # The model is refused as well, but only by who loads it.
        assert hansa("serve", "--port", port, "--model", "path:/none") == 2
    assert f"got 127.0.0.1:{port} (Address already in use)" in capsys.readouterr().err


def test_a_chat_with_the_demos_model_says_what_it_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def run_server(*_: object) -> Iterator[None]:
        raise InputError("enough")
        yield

    monkeypatch.setattr(life, "run_server", run_server)
    monkeypatch.setattr(serve, "find", lambda *_: AdapterSource(model="builtin:tiny", entries=[]))
    assert hansa("chat", "runs/demo") == 2
    assert "builtin:tiny knows the worlds of the demo, and nothing else" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", " \n", "two words", "schl\u00fcssel", "bell\x07"])
def test_a_key_that_no_header_carries_is_refused(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key"
    file.write_text(key)
    assert hansa("serve", "--api-key-file", file) == 2
    assert "expected a key of printable ASCII in it" in capsys.readouterr().err
