"""docs/sharing.md typed beside a run: card and files on the hub, in a registry, and back."""

import base64
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import constants

from hansa.adapter import model_card
from hansa.api import bucket_keys
from hansa.api.bucket_documents import sha256
from hansa.api.storage import Storage
from hansa.cli.main import main
from hansa.local.loop import open_embedded
from hansa.local.results import add_storage
from hansa.local.rundir import RunDir
from hansa.publish import parcel
from tests.support import small
from tests.support.distribution import distribution, has_go
from tests.support.hub import Hub, hub
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.registry import Registry, registry
from tests.support.sources import ROOT

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs/sharing.md").read_text()
TO = ("--to", "hf:acme/agent", "--base", "acme/tiny")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    with small.Run(small.write_manifest(folder), folder / "run") as begun:
        begun.finish()
    return folder / "run"


@pytest.fixture
def server() -> Iterator[Hub]:
    with hub() as running:
        base = model_card.find_local_folder("builtin:tiny")
        assert base
        files = {each.name: each.read_bytes() for each in base.iterdir() if each.is_file()}
        running.add("acme/tiny", {**files, model_card.NAME: b"---\nlicense: apache-2.0\n---\n"})
        yield running


@pytest.fixture
def images() -> Iterator[Registry]:
    with registry() as running:
        yield running


@dataclass(frozen=True)
class Ended:
    """What a command in this very process came to."""

    returncode: int
    stdout: str
    stderr: str


Type = Callable[..., Ended]


@pytest.fixture
def hansa(
    server: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Type:
    """Types a command; a process for each would import all of it again."""
    for name, value in server.variables(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    # What the library has read from the environment when it was imported.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def type_(*words: str | Path) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return type_


def sentences(hansa: Type, run: Path, file: Path) -> set[str]:
    """Long enough lines of what was played, but for those of the card's own sample."""
    assert hansa("trajectories", run, "--export", file).returncode == 0
    texts = re.findall(r'"value": "(.*?[^\\])"', file.read_text())
    lines = {line for text in texts for line in text.split("\\n") if len(line) > 30}
    assert len(lines) > 10
    return lines - {*model_card.FIRST.split("\n"), *model_card.NEXT.split("\n")}


def test_the_page_can_be_typed_and_what_comes_back_is_what_was_pushed(
    run: Path, server: Hub, images: Registry, hansa: Type, tmp_path: Path
) -> None:
    places = {"runs/mine": str(run), "localhost:5000": images.host, "adapters": str(tmp_path)}
    blocks = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 6
    for line in lines:
        for word, place in places.items():
            line = line.replace(word, place)
        done = hansa(*shlex.split(line)[2:])
        assert done.returncode == 0, f"{line}: {done.stderr}"
    for name in ("from-hub", "from-registry"):
        pulled = (tmp_path / name / bucket_keys.ADAPTER).read_bytes()
        assert pulled == (run / "adapter" / bucket_keys.ADAPTER).read_bytes()
    assert set(server.repositories) == {
        ("models", "acme/tiny"),
        ("models", "acme/agent"),
        ("datasets", "acme/agent-maze"),
    }


def test_the_dry_run_shows_exactly_what_leaves_and_sends_nothing(
    run: Path, server: Hub, hansa: Type, tmp_path: Path
) -> None:
    shown = hansa("push", run, *TO, "--dry-run", "-o", "json")
    assert {method for method, _ in server.log} <= {"GET", "HEAD"}
    [document] = json.loads(shown.stdout)
    assert hansa("push", run, *TO).returncode == 0
    files = server.files("acme/agent")
    assert document["card"] == files[model_card.NAME].decode()
    assert {each["name"]: (each["size"], each["sha256"]) for each in document["files"]} == {
        name: (len(content), sha256(content)) for name, content in files.items()
    }


@pytest.mark.attack(
    by="a reader of what is published",
    does="reads what `hansa push` sent, for text of episodes",
    result="finds none",
)
def test_the_card_tells_the_truth_and_nothing_of_an_episode(
    run: Path, server: Hub, hansa: Type, tmp_path: Path
) -> None:
    assert hansa("push", run, *TO).returncode == 0
    files = server.files("acme/agent")
    text = files[model_card.NAME].decode()
    matter = yaml.safe_load(text.split("---\n")[1])
    commit = server.repositories["models", "acme/tiny"].commits[-1][0]
    assert (matter["base_model"], matter["license"]) == ("acme/tiny", "apache-2.0")
    config = json.loads(files[bucket_keys.CONFIG])
    assert (config["base_model_name_or_path"], config["revision"]) == ("acme/tiny", commit)
    status = RunDir(run).load().status
    for name, ratio in status.history[-1].success.items():
        assert re.search(rf"\| {name} \| {name} \| .* \| {ratio:.1%}".replace("%", " %"), text)
    assert "| `training.learningRate` | 0.005 |" in text
    everything = b"\n".join(server.bodies).decode(errors="replace")
    everything += "\n".join(content.decode(errors="replace") for content in files.values())
    said = sentences(hansa, run, tmp_path / "episodes.json")
    assert [line for line in said if line in everything] == []
    assert str(run.parent) not in everything


def test_peft_loads_what_was_pushed_by_its_name_and_it_is_the_runs_adapter(
    run: Path, server: Hub, hansa: Type, tmp_path: Path
) -> None:
    assert hansa("push", run, *TO).returncode == 0
    [code] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    code += f"""
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained({str(model_card.find_local_folder("builtin:tiny"))!r})
tokens = torch.arange(10, 30)[None]
with torch.inference_mode():
    plain = base(tokens).logits
    own = PeftModel.from_pretrained(base, {str(run / "adapter")!r})(tokens).logits
    pushed = agent(tokens).logits
print(torch.equal(own, pushed), torch.equal(own, plain), type(agent).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **server.variables(tmp_path / "empty"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stdout.split() == ["True", "False", "PeftModelForCausalLM"], done.stderr


def test_a_killed_push_is_repeated_and_ends_with_one_commit(
    run: Path, server: Hub, hansa: Type, tmp_path: Path
) -> None:
    reached: list[str] = []

    def stop(method: str, path: str) -> int | None:
        if "/commit/" in path and not reached:
            reached.append(path)
            return 503
        return None

    server.fail = stop
    words = [sys.executable, "-m", "hansa.cli.main", "push", str(run), *TO]
    environ = {**os.environ, **server.variables(tmp_path)}
    process = subprocess.Popen(words, env=environ, stderr=subprocess.DEVNULL)
    until(lambda: reached or process.poll() is not None, "the push to come to its commit")
    process.kill()
    process.wait()
    assert server.files("acme/agent") == {}
    first = hansa("push", run, *TO)
    assert (first.returncode, "pushed" in first.stderr) == (0, True), first.stderr
    again = hansa("push", run, *TO)
    assert "holds these files already" in again.stderr
    assert len(server.repositories["models", "acme/agent"].commits) == 2  # one is the hub's own
    assert sum(path.startswith("/upload/") for _, path in server.log) == 1


@pytest.mark.attack(
    by="a reader of what is published",
    does="waits for episodes by `hansa push --trajectories`",
    result="they leave only when somebody has seen ten and says yes",
)
def test_episodes_leave_only_when_somebody_has_seen_ten_and_says_yes(
    run: Path, server: Hub, hansa: Type, tmp_path: Path
) -> None:
    silent = hansa("push", run, *TO, "--trajectories", "maze")
    assert silent.returncode == 2
    assert "nobody is there to confirm" in silent.stderr
    assert silent.stderr.count(" turns, reward") == 10
    wrong = hansa("push", run, *TO, "--trajectories", "chess", "--yes")
    assert "--trajectories: got 'chess', expected one of maze, webshop" in wrong.stderr
    assert typed(run, server, tmp_path, "n\n") == 1
    assert {method for method, _ in server.log} <= {"GET", "HEAD"}, "something was sent"
    assert typed(run, server, tmp_path, "y\n") == 0
    assert server.repositories["datasets", "acme/agent-maze"].private
    lines = server.files("acme/agent-maze", "datasets")["trajectories.jsonl"].splitlines()
    stored = hansa("trajectories", run, "-e", "maze", "-o", "json")
    episodes = json.loads(stored.stdout)
    assert [json.loads(line)["task"] for line in lines] == [each["task"] for each in episodes]
    assert {m["role"] for line in lines for m in json.loads(line)["messages"]} == {
        "user",
        "assistant",
    }


def typed(run: Path, server: Hub, home: Path, answer: str) -> int:
    """Exit code of a push with episodes on a terminal, where somebody types an answer."""
    words = [sys.executable, "-m", "hansa.cli.main", "push", str(run), *TO, "--trajectories"]
    mine, theirs = pty.openpty()
    os.write(mine, answer.encode())
    done = subprocess.run(
        [*words, "maze"],
        stdin=theirs,
        capture_output=True,
        env={**os.environ, **server.variables(home)},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    os.close(mine)
    os.close(theirs)
    assert b"as the private dataset hf:acme/agent-maze?" in done.stderr
    return done.returncode


def test_a_federation_is_read_from_its_store_with_the_callers_credentials(
    run: Path, tmp_path: Path
) -> None:
    folder = RunDir(run)
    federation = add_storage(folder.load(), folder)
    with open_embedded(folder, federation.spec) as store:
        place = Storage(s3=store.s3)
        spec = federation.spec.model_copy(update={"storage": place})
        credentials = small.write_credentials(tmp_path, store)
        on_cluster = federation.model_copy(update={"spec": spec})
        result = parcel.read(on_cluster, "best", credentials)
    assert result.files == {name: (run / "adapter" / name).read_bytes() for name in small.FILES}
    assert [entry.number for entry in result.data.evaluated] == [0, 1, 2]


@pytest.mark.parametrize(
    "words, expected",
    [
        (["--to", "hf:acme/agent"], "--base: got nothing, and the run's base is Hansa's own"),
        (["--to", "s3://bucket"], "--to: got 's3://bucket', expected hf:org/name or oci://"),
        (["--to", "hf:acme/agent@v1"], "expected hf:org/name without a revision"),
        (["--to", "hf:acme/agent", "--base", "acme/none"], "which the hub does not have"),
        ([*TO, "--license", "my own\n"], "expected an identifier like apache-2.0"),
        ([*TO, "--round", "9"], "--round: got 9, which has no adapter in the store"),
        (["--to", "oci://localhost:1/a:v1", "--trajectories", "maze"], "expected --to hf:org/name"),
        (["--to", "oci://localhost:1/a:v1"], "the registry does not answer"),
    ],
)
def test_a_wrong_line_is_a_sentence(
    run: Path, server: Hub, hansa: Type, words: list[str], expected: str
) -> None:
    done = hansa("push", run, *words)
    assert done.returncode != 0
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert {method for method, _ in server.log} <= {"GET", "HEAD"}


@pytest.mark.full
@pytest.mark.skipif(not has_go(), reason="Go builds the registry")
def test_a_real_registry_takes_it_and_gives_it_back(run: Path, tmp_path: Path) -> None:
    pulled: dict[str, Any] = {}
    with distribution() as host:
        place = f"oci://{host}/acme/agent:v1"
        for expected in (": pushed", "holds these files already"):
            done = small.hansa("push", run, "--to", place)
            assert (done.returncode, expected in done.stderr) == (0, True), done.stderr
        done = small.hansa("pull", place, "--to", tmp_path / "out", "-o", "json")
        pulled = json.loads(done.stdout)
    assert set(pulled["files"]) == {
        bucket_keys.ADAPTER,
        bucket_keys.CONFIG,
        model_card.NAME,
        "success.svg",
    }
    own = (run / "adapter" / bucket_keys.ADAPTER).read_bytes()
    assert (tmp_path / "out" / bucket_keys.ADAPTER).read_bytes() == own


@pytest.mark.full
@pytest.mark.skipif(not has_go(), reason="Go builds the registry")
def test_a_real_registry_with_a_login(run: Path, tmp_path: Path) -> None:
    logins, auth = tmp_path / "htpasswd", tmp_path / "auth.json"
    # me:secret, by bcrypt, which distribution alone takes
    logins.write_text("me:$2y$05$D/lgTifzoaBuZ.cP11clGe05Z4A1dVsbRQn8Xby1nW7l2tCXOlAqK\n")
    with distribution(logins) as host:
        place = f"oci://{host}/acme/agent:v1"
        refused = small.hansa("push", run, "--to", place, REGISTRY_AUTH_FILE=str(auth))
        assert refused.returncode == 2
        assert f"docker login {host}" in refused.stderr
        secret = base64.b64encode(b"me:secret").decode()
        auth.write_text(json.dumps({"auths": {host: {"auth": secret}}}))
        done = small.hansa("push", run, "--to", place, REGISTRY_AUTH_FILE=str(auth))
        assert done.returncode == 0, done.stderr
