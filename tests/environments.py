"""Environments of their own for programs of others whose packages would not go with ours."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from tests.sources import ROOT


def install(name: str) -> Path:
    """The folder of an environment's programs; made by hash, from requirements/, the first time."""
    home, requirements = ROOT / ".cache" / name, ROOT / f"requirements/{name}.txt"
    home.mkdir(parents=True, exist_ok=True)
    stamp, wanted = home / "installed.txt", requirements.read_bytes()
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_bytes() == wanted):
            _make(home / "venv", requirements)
            stamp.write_bytes(wanted)
    return home / "venv/bin"


def _make(venv: Path, requirements: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
    python = venv / "bin/python"
    beside = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    pip = [beside, "pip", "install", "--quiet", "--python", python] if beside else None
    command = pip or [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*command, "--require-hashes", "-r", requirements], check=True)
