"""A real OpenEnv server, in an environment of its own."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import urllib3

from tests.support import own_environment
from tests.support.sources import ROOT

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
    for file in ("tests/support/openenv_app.py", "examples/11-openenv-sidecar/guess.py"):
        shutil.copy(ROOT / file, folder)

    def is_up() -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", f"{url}/one/health", retries=False).status == 200
        return False

    environ = {**ENVIRON, "PYTHONPATH": str(HOME)}
    with own_environment.running(command, folder, is_up, "OpenEnv", **environ):
        yield url
