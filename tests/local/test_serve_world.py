"""`hansa worlds serve` as OpenEnv's own programs use it: their client, their check of servers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hansa_worlds import DEMO_OPTIONS, make
from tests import openenvs
from tests.openenvs import ENVIRON
from tests.served import served
from tests.small import hansa

pytestmark = pytest.mark.slow

OPTIONS = {**DEMO_OPTIONS["maze"], "prompt": "none"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    words = f"'{sys.executable}' -m hansa.cli.main worlds serve maze --sessions 1"
    command = f"{words} --options '{json.dumps(OPTIONS)}'"
    with served(command, tmp_path_factory.mktemp("world"), os.environ) as address:
        yield address


def test_their_own_client_plays_an_experts_episodes(url: str) -> None:
    world = make("maze", OPTIONS)
    with openenvs.client(url) as client:
        for number in range(3):
            task = world.tasks("test")[number]
            seen = world.start(task)
            observed, _, done = client.ask("reset", seed=number, split="test")
            assert (observed["text"], done) == (seen.text, False)
            while not seen.done:
                action = world.expert().text
                seen = world.step(action)
                observed, reward, done = client.ask("step", message=action)
                assert (observed["text"], reward, done) == (seen.text, seen.reward, seen.done)
            state = client.ask("state")
            assert (state["task"], state["success"]) == (task.id, True)
            assert state["step_count"] == world._turns
        assert client.ask("step", mesage="up").startswith("Server error: mesage: unknown")
        with openenvs.client(url) as other:
            refused = other.ask("reset")
        assert refused == "Server error: all 1 sessions are taken (code: CAPACITY_REACHED)"


def test_their_check_of_servers_finds_nothing_wrong(url: str) -> None:
    command = [openenvs.install() / "openenv", "validate", "--url", url]
    checked = subprocess.run(command, capture_output=True, text=True, env=ENVIRON)
    assert checked.returncode == 0, checked.stdout
    assert "Verdict: PASS" in checked.stdout
    assert "FAIL" not in checked.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mars"], "world: got 'mars', expected one of agentgym, babyai"),
        (["maze", "--option", "size=99"], "options.size: got 99, expected 4 to 12"),
        (["maze", "--port", "70000"], "--port"),
        (["maze", "--host", "203.0.113.7"], "--host, --port: got 203.0.113.7:8000"),
        (["maze", "--api-key-file", "no-such-file"], "--api-key-file: got no-such-file"),
        ([], "WORLD"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(words: list[str], sentence: str) -> None:
    ended = hansa("worlds", "serve", *words)
    assert ended.returncode == 2
    assert sentence in ended.stderr.partition("\n\n")[0]
    assert ended.stdout == ""
