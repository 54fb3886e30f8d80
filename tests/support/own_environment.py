"""Other people's programs, each in an environment of its own: their packages are more than ours."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.processes import until
from tests.support.sources import ROOT


def install(name: str, then: Callable[[Path], None] | None = None) -> Path:
    """The folder of its programs; installed by hash the first time, and prepared by `then`."""
    home, requirements = ROOT / ".cache" / name, ROOT / f"requirements/{name}.txt"
    home.mkdir(parents=True, exist_ok=True)
    stamp, wanted = home / "installed.txt", requirements.read_bytes()
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_bytes() == wanted):
            _make(home / "venv", requirements)
            if then:
                then(home)
            stamp.write_bytes(wanted)
    return home / "venv/bin"


def _make(venv: Path, requirements: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    python = venv / "bin/python"
    beside = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    pip = [beside, "pip", "install", "--quiet", "--python", python] if beside else None
    command = pip or [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*command, "--require-hashes", "--no-deps", "-r", requirements], check=True)


@contextmanager
def running(
    command: Sequence[str | Path],
    folder: Path,
    is_up: Callable[[], bool],
    what: str,
    **environ: str,
) -> Iterator[None]:
    """A server while the block runs, with its workers; its log is in the folder."""
    path = f"{Path(command[0]).parent}:/usr/bin:/bin"
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={"PATH": path, **environ},
            start_new_session=True,
        )
        try:
            until(lambda: process.poll() is not None or is_up(), f"{what} to answer")
            assert process.poll() is None, (folder / "server.log").read_text()
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
