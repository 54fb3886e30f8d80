"""A real OpenEnv server, and OpenEnv's own client, in an environment of their own."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import urllib3

from tests import own_environment
from tests.sources import ROOT

HOME = ROOT / ".cache/openenv"
ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "HOME": "/nonexistent",
}


def install() -> Path:
    """OpenEnv's programs; the first time in some 20 s and 320 MB."""
    return own_environment.install("openenv", _make_echo)


def _make_echo(home: Path) -> None:
    """Their template is an environment that echoes."""
    shutil.rmtree(home / "echo_env", ignore_errors=True)
    subprocess.run(
        [home / "venv/bin/openenv", "init", "echo_env", "-o", home],
        check=True,
        capture_output=True,
    )


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server; below it /one and /echo (one session and 64), /guess, /example."""
    port = own_environment.free_port()
    url = f"http://127.0.0.1:{port}"
    command = [install() / "uvicorn", "openenv_app:app", "--app-dir", folder]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    for file in ("tests/openenv_app.py", "examples/11-openenv-sidecar/guess.py"):
        shutil.copy(ROOT / file, folder)

    def is_up() -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", f"{url}/one/health", retries=False).status == 200
        return False

    environ = {**ENVIRON, "PYTHONPATH": str(HOME)}
    with own_environment.running(command, folder, is_up, "OpenEnv", **environ):
        yield url


CLIENT = """
import json, sys
from openenv.core import GenericEnvClient

def show(result):
    print(json.dumps([result.observation, result.reward, result.done]), flush=True)

with GenericEnvClient(base_url=sys.argv[1]).sync() as env:
    for line in sys.stdin:
        kind, data = json.loads(line)
        try:
            if kind == "reset":
                show(env.reset(**data))
            elif kind == "step":
                show(env.step(data))
            else:
                print(json.dumps(env.state()), flush=True)
        except RuntimeError as error:
            print(json.dumps(str(error)), flush=True)
"""


class Client:
    """OpenEnv's own client, asked line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, kind: str, **data: Any) -> Any:
        """What its reset, step or state gives."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([kind, data]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        return json.loads(line)


@contextmanager
def client(url: str) -> Iterator[Client]:
    """One session of theirs at a server."""
    process = subprocess.Popen(
        [install() / "python", "-c", CLIENT, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRON,
    )
    try:
        yield Client(process)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.communicate()
