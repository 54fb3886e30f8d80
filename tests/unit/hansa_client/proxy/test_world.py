"""World `proxy`: a harness asks, the test answers as a model would, the harness says its end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hansa_client.proxy.world import Proxy
from hansa_worlds import Observation, OptionError, Prompt, WorldDown, make
from tests.support import harness
from tests.support.loopback import QuietHandler
from tests.support.processes import is_gone, until
from tests.support.sources import ROOT

HARNESS = [sys.executable, str(ROOT / "tests/support/harness.py")]
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HANSA_WORLD_COMMANDS", " ".join(HARNESS))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-silos-own")


def world(manner: str, *more: str, **options: Any) -> closing[Proxy]:
    made = make("proxy", {"command": [*HARNESS, manner, *more], **options})
    assert isinstance(made, Proxy)
    return closing(made)


def begun(proxy: Proxy, number: int = 0) -> Observation:
    return proxy.start(proxy.tasks("test")[number])


def prompt_of(observation: Observation) -> Prompt:
    assert observation.prompt
    return observation.prompt


@pytest.mark.parametrize("number, success", [(0, True), (1, False)])
def test_a_harness_plays_and_says_whether_it_succeeded(number: int, success: bool) -> None:
    with world("talk") as proxy:
        seen = [begun(proxy, number)]
        while not seen[-1].done:
            seen.append(proxy.step("move left"))
        assert [one.text for one in seen] == [harness.OPENING, harness.NEXT, harness.NEXT, ""]
        assert [prompt_of(one).known for one in seen[:3]] == [0, 2, 4]
        assert (proxy.success, seen[-1].reward) == (success, 0.5)
        assert proxy.step("move left") == Observation("The episode is over.", 0.0, True)


def test_a_chat_that_the_harness_changed_is_read_anew() -> None:
    with world("rewrite") as proxy:
        known = [prompt_of(begun(proxy)).known]
        known += [prompt_of(proxy.step("move up")).known for _ in range(2)]
        assert known == [0, 0, 2]
        assert proxy.step("move up").done and proxy.success


def test_tools_and_their_calls_go_back_and_forth() -> None:
    with world("tools") as proxy:
        first = prompt_of(begun(proxy))
        assert first.tools == (harness.ADD,)
        assert [message["role"] for message in first.messages] == ["system", "user"]
        second = proxy.step(f"I add.\n{CALL}")
        assert second.text == "<tool_response>\n5\n</tool_response>"
        (call,) = second.called
        assert call["function"] == {"name": "add", "arguments": '{"a": 2, "b": 3}'}
        prompt = prompt_of(second)
        assert prompt.known == 3, "the harness has sent back what the model said"
        assert prompt.messages[2] == {
            "role": "assistant",
            "content": "I add.",
            "tool_calls": [dict(call)],
        }
        assert proxy.step("It is 5.").done and proxy.success


@pytest.mark.parametrize(
    "text",
    [
        "I cannot.",
        "<tool_call>add 2 and 3</tool_call>",
        '<tool_call>{"name": "add", "arguments": "2, 3"}</tool_call>',
        '<tool_call>{"name": ["add"], "arguments": {}}</tool_call>',
        '{"name": "add", "arguments": {"a": NaN}}',
    ],
)
def test_what_is_no_call_is_text(text: str) -> None:
    with world("tools") as proxy:
        begun(proxy)
        last = proxy.step(text)
        assert last.done and not last.called and not proxy.success


def test_a_stream_and_a_stop_text_are_answered() -> None:
    with world("stream") as proxy:
        begun(proxy)
        assert proxy.step("move left").done and proxy.success
    with world("stopped") as proxy:
        assert prompt_of(begun(proxy)).stop == ("left",)


def test_wrong_requests_are_refused_one_by_one_and_are_no_turns() -> None:
    with world("garbage") as proxy:
        assert begun(proxy).text == harness.OPENING
        assert proxy.step("move left").done and proxy.success


@pytest.mark.parametrize(
    "manner, why",
    [
        ("crash", "the harness ended with exit status 3, expected 0"),
        ("silent", "the harness wrote nothing to HANSA_RESULT, expected"),
        ("nonsense", "HANSA_RESULT: expected"),
        ("hang", r"neither asked the model nor ended within 1 s \(options.timeout_seconds\)"),
    ],
)
def test_a_harness_that_fails_breaks_its_episode_with_a_sentence(manner: str, why: str) -> None:
    with world(manner) as proxy:
        begun(proxy)
        proxy._seconds = 1.0 if manner == "hang" else 60.0
        with pytest.raises(WorldDown, match=why):
            proxy.step("move left")
        assert not proxy.success


def test_success_without_a_turn_is_none() -> None:
    with (
        world("claim") as proxy,
        pytest.raises(WorldDown, match="ended before it asked the model anything"),
    ):
        begun(proxy)


def test_more_turns_than_there_may_be_end_the_episode_without_success() -> None:
    with world("talk", max_turns=2) as proxy:
        begun(proxy)
        assert not proxy.step("move left").done
        last = proxy.step("move left")
        assert last.done and not proxy.success


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("hansa-harness-*"))


def test_nothing_of_a_harness_is_left_when_it_ends(tmp_path: Path) -> None:
    before, file = folders(), tmp_path / "pid"
    with world("leave", str(file)) as proxy:
        begun(proxy)
        assert proxy.step("move left").done and proxy.success
        assert is_gone(int(file.read_text())), "it ended before the result was believed"
    assert folders() <= before


def test_nothing_of_a_harness_is_left_when_its_episode_is_broken_off(tmp_path: Path) -> None:
    before, file = folders(), tmp_path / "pid"
    with world("stay", str(file)) as proxy:
        begun(proxy)
        own, child, _ = file.read_text().split()
    assert is_gone(int(own)) and is_gone(int(child))
    assert folders() <= before


def test_nothing_of_a_harness_is_left_when_its_client_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = (
        "import sys, time; from hansa_worlds import make; command = sys.argv[1:];"
        "world = make('proxy', {'command': command}); world.start(world.tasks('test')[0]);"
        "print('on', flush=True); time.sleep(600)"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", code, *HARNESS, "stay", str(file)], stdout=subprocess.PIPE
    )
    assert client.stdout and client.stdout.readline() == b"on\n"
    own, child, folder = file.read_text().split()
    client.send_signal(signal.SIGKILL)
    client.communicate()
    until(lambda: is_gone(int(own)) and is_gone(int(child)), "the harness to end")
    until(lambda: not Path(folder).exists(), "its folder to go")


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="looks for credentials in the environment of a harness of world `proxy`",
    result="there are none",
)
def test_a_harness_has_no_credentials_and_knows_its_seed_and_task() -> None:
    with world("environ") as proxy:
        proxy.seed = 41
        said = begun(proxy).text
        assert "OPENAI_API_KEY" in said and "HANSA_RESULT" in said
        assert "AWS_" not in said and "HANSA_WORLD_COMMANDS" not in said
        assert ' seed 41 {"id": "task-0", "split": "test", "number": 0}' in said


def test_nobody_answers_when_the_episode_is_over() -> None:
    with world("talk") as proxy:
        begun(proxy)
        address = proxy._endpoint.base_url if proxy._endpoint else ""
        proxy.close()
        again = subprocess.run(
            [*HARNESS, "crash"],
            env={"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "x"},
            capture_output=True,
        )
        assert b"Connection refused" in again.stderr


@pytest.mark.parametrize(
    "options, why",
    [
        ({}, "options.command, options.url: got neither, expected one of them"),
        ({"command": ["a"], "url": "http://a"}, "got both, expected one of them"),
        ({"command": "python agent.py"}, "expected a list of texts"),
        ({"command": [1]}, "expected a list of texts"),
        ({"command": [""]}, "expected a program as its first text"),
        ({"url": "ftp://a"}, "options.url: got 'ftp://a', expected an address such as http"),
        ({"url": "http://a:b"}, "expected an address such as http"),
        ({"url": "http://a", "train": [0, 5]}, "expected numbers apart from options.test"),
        ({"url": "http://a", "prompt": "full"}, "options.prompt: unknown, expected command"),
        ({"url": "http://a", "timeout_seconds": 0}, "timeout_seconds: got 0, expected 0.1 to"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why.replace("[", r"\[")):
        make("proxy", options)


@pytest.mark.attack(
    by="the author of a Federation",
    does="names a command that the owner has not allowed as an option of `proxy`, also in `mixed`",
    result="refused before anything is started",
)
def test_a_manifest_runs_only_what_the_owner_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (["sh", "-c", "true"], [sys.executable, "-c", "1"], HARNESS[:1], ["-"]):
        with pytest.raises(OptionError, match=r"expected one that begins with a command in HANSA_"):
            make("proxy", {"command": command})
        part = {"name": "a", "world": "proxy", "options": {"command": command}}
        with pytest.raises(OptionError, match=r"expected one that begins with a command in HANSA_"):
            make("mixed", {"worlds": [part]})
    monkeypatch.setenv("HANSA_WORLD_COMMANDS", "other, '")
    with pytest.raises(OptionError, match="now other, '"):
        make("proxy", {"command": HARNESS})
    monkeypatch.delenv("HANSA_WORLD_COMMANDS")
    with pytest.raises(OptionError, match=r"HANSA_WORLD_COMMANDS \(now nothing\)"):
        make("proxy", {"command": HARNESS})
    monkeypatch.setenv("HANSA_WORLD_COMMANDS", "no-such-program")
    absent = make("proxy", {"command": ["no-such-program"]})
    with pytest.raises(OptionError, match="expected a program that can be run here"):
        absent.start(absent.tasks("test")[0])


class Running(QuietHandler):
    """A harness that runs already; paths are its manners."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        errand = json.loads(body)
        if self.path == "/play":
            os.environ["OPENAI_BASE_URL"] = errand["base_url"]
            os.environ["OPENAI_API_KEY"] = errand["api_key"]
            said = harness.ask([harness.user(errand["task"]["id"])])["content"]
            answer = json.dumps({"success": said == "move left"}).encode()
        else:
            answer = b'{"success": "yes"}'
        self.send_response(500 if self.path == "/fails" else 200)
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    server = HTTPServer(("127.0.0.1", 0), Running)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_harness_that_runs_already_is_called(running: str) -> None:
    with closing(make("proxy", {"url": f"{running}/play"})) as proxy:
        assert proxy.start(proxy.tasks("train")[0]).text == "task-2000"
        last = proxy.step("move left")
        assert last.done and proxy.success and last.reward == 1.0


@pytest.mark.parametrize(
    "path, why",
    [
        ("/fails", "options.url: got HTTP 500, expected 200 and the result"),
        ("/claims", "the harness's answer: expected"),
    ],
)
def test_an_answer_that_is_no_result_breaks_the_episode(running: str, path: str, why: str) -> None:
    with (
        closing(make("proxy", {"url": running + path})) as proxy,
        pytest.raises(WorldDown, match=why),
    ):
        proxy.start(proxy.tasks("train")[0])


def test_a_harness_that_does_not_run_is_named() -> None:
    with (
        closing(make("proxy", {"url": "http://127.0.0.1:9"})) as proxy,
        pytest.raises(WorldDown, match=r"options.url: no answer \(ConnectionRefusedError\)"),
    ):
        proxy.start(proxy.tasks("train")[0])


def test_an_episode_ends_at_once_when_its_harness_does() -> None:
    with world("crash", timeout_seconds=600) as proxy:
        begun(proxy)
        before = time.monotonic()
        with pytest.raises(WorldDown):
            proxy.step("move left")
        assert time.monotonic() - before < 30
