"""`hansa serve` and `hansa chat` as programs: a run's adapters by name, and an orderly end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from hansa.api import bucket_keys
from hansa.cli.common import INTERRUPTED
from hansa.local.loop import open_embedded, use_embedded
from hansa.local.results import add_storage
from hansa.local.rundir import RunDir
from hansa.publish.bucket import set_endpoint
from hansa_client.serving import sources
from hansa_worlds import DEMO_OPTIONS
from tests.support import small
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.small import hansa

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "hansa.cli.main")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two rounds whose silos have chosen what they serve themselves."""
    folder = tmp_path_factory.mktemp("served")
    manifest = small.write_manifest(folder, personalization="interpolate")
    with small.Run(manifest, folder / "run") as begun:
        begun.finish()
    return folder / "run"


@contextmanager
def serve(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program and the address that it prints when it is ready."""
    given = ["serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        [*COMMAND, *given], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        yield process, url
    finally:
        process.terminate()  # so that it removes what it copied
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[str]:
    with serve(run) as (_, url):
        yield url


def client(url: str, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=120)


def talk(*arguments: str, said: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "chat", *arguments],
        input=said,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_run_is_served_by_rounds_and_silos(server: str) -> None:
    names = [model.id for model in client(server).models.list()]
    assert names[0] == "final" and names[-1] == "base"
    assert {"best", "round-1", "round-2", "silo-maze", "silo-webshop"} <= set(names)


def test_greedy_answers_are_those_of_play(server: str, run: Path) -> None:
    options = json.dumps(DEMO_OPTIONS["maze"])
    for task in ("0", "1", "2"):
        played = hansa(
            *("play", "maze", "--options", options, "--task", task, "--seed", "7"),
            *("--adapter", run / "adapter", "--temperature", "0", "-o", "json"),
        )
        turns = json.loads(played.stdout)["turns"]
        messages: list[Any] = []
        for turn in turns:
            if turn["role"] == "agent":
                answer = client(server).chat.completions.create(
                    model="final", messages=messages, temperature=0
                )
                assert answer.choices[0].message.content == turn["text"]
            role = "assistant" if turn["role"] == "agent" else "user"
            messages.append({"role": role, "content": turn["text"]})
        assert len(messages) > 2


def test_a_peft_folder_is_served_beside_others_with_a_key(run: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("not-for-everybody\n")
    adapter = run / "adapter"
    with serve(adapter, "--adapter", f"copy={adapter}", "--api-key-file", key) as (_, url):
        allowed = client(url, "not-for-everybody")
        assert [model.id for model in allowed.models.list()] == ["adapter", "copy", "base"]
        with pytest.raises(openai.AuthenticationError):
            client(url, "another").models.list()
        said = talk("--url", url, "--api-key-file", str(key), said="Reach the goal.\n")
        assert (said.returncode, said.stderr) == (0, "talking to adapter; Ctrl-D ends\n")
        assert talk("--url", url, said="x\n").returncode == 1


def test_sigterm_lets_an_answer_end_and_then_the_program(run: Path) -> None:
    with serve(run / "adapter") as (process, url):
        chunks = client(url).chat.completions.create(
            model="base",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            n=16,
            max_tokens=200,
            temperature=2,
        )
        next(iter(chunks))
        process.send_signal(signal.SIGTERM)
        reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
        assert sum(reason is not None for reason in reasons) == 16
        assert process.wait(PATIENCE_SECONDS) == 0


def test_what_does_not_end_in_time_is_broken_off(run: Path) -> None:
    with serve(run / "adapter", "--drain-seconds", "0") as (process, url):
        chunks = client(url).chat.completions.create(
            model="base",
            messages=[{"role": "user", "content": "x"}],
            stream=True,
            n=128,
            max_tokens=1900,
            temperature=2,
        )
        next(iter(chunks))
        process.send_signal(signal.SIGTERM)
        with pytest.raises(openai.APIError, match="cut off"):
            list(chunks)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_chat_talks_to_a_server_and_remembers_what_was_said(server: str) -> None:
    options = ("--url", server, "--model", "final", "--temperature", "0")
    lines = "Reach the goal.\nThe goal is at position 8, 6.\n"
    done = talk(*options, "--system", "Play.", said=lines)
    assert done.returncode == 0, done.stderr
    ask = client(server).chat.completions.create
    messages: list[Any] = [{"role": "system", "content": "Play."}]
    answers = []
    for line in lines.splitlines():
        messages.append({"role": "user", "content": line})
        answer = ask(model="final", messages=messages, temperature=0).choices[0].message.content
        messages.append({"role": "assistant", "content": answer})
        answers.append(f"{answer}\n")
    assert done.stdout == "".join(answers)


def test_chat_serves_a_run_by_itself(run: Path) -> None:
    done = talk(str(run), "--temperature", "0", "--model", "round-1", said="Reach the goal.\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_federation_of_a_cluster_is_served_from_its_store(run: Path, tmp_path: Path) -> None:
    folder = RunDir(run)
    federation = folder.load()
    with open_embedded(folder, use_embedded(federation)) as store:
        placed = set_endpoint(add_storage(federation, folder), store.s3.endpoint)
        credentials = small.write_credentials(tmp_path, store)
        source = sources.read(placed, credentials, tmp_path / "copied")
    names = [entry.name for entry in source.entries]
    assert names[0] == "final" and {"best", "round-1", "round-2", "silo-maze"} <= set(names)
    assert source.model == "builtin:tiny"
    last = (source.entries[0].folder / bucket_keys.ADAPTER).read_bytes()
    assert last == (run / "adapter" / bucket_keys.ADAPTER).read_bytes()


def test_nothing_of_a_served_run_is_left_behind(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serve(run) as (process, _):
        (copied,) = tmp_path.glob("hansa-serve-*")
        assert any(copied.rglob(bucket_keys.ADAPTER))
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not copied.exists()


def test_a_signal_while_it_still_copies_leaves_nothing_behind_either(
    run: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "serve", run, "--port", "0"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    until(lambda: list(tmp_path.glob("hansa-serve-*")), "its folder")
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, said) == (INTERRUPTED, b"")
    assert list(tmp_path.iterdir()) == []
