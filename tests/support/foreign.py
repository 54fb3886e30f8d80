"""What plugins/hansa-more-worlds plays, in a folder of its own: some must be built, none is ours.

What the environment of the tests has already is not installed again, so that the folder hides
nothing of it.
"""

import fcntl
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.support.sources import ROOT

REQUIREMENTS = ROOT / "requirements/worlds.txt"
HOME = ROOT / ".cache/worlds"
HAS_TEXTWORLD = platform.machine() == "x86_64"
"""Elsewhere Linux has no wheel of it, and its sources fetch programs while they are built."""
NEEDS_TEXTWORLD = pytest.mark.skipif(not HAS_TEXTWORLD, reason="TextWorld is made for x86_64 here")
_OF_TEXTWORLD = {"textworld", "jericho"}
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def install() -> Path:
    """The folder; filled by hash the first time, in about a minute and 350 MB."""
    HOME.mkdir(parents=True, exist_ok=True)
    wanted, stamp, site = _missing(), HOME / "installed.txt", HOME / "site"
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (stamp.exists() and stamp.read_text() == wanted):
            if not shutil.which("cc"):
                pytest.skip("needs a C compiler, which builds parts of TextWorld and reasoning-gym")
            _fill(site, wanted)
            stamp.write_text(wanted)
    return site


def _missing() -> str:
    """The entries of the requirements that this environment lacks, with their hashes."""
    here = {_normal(found.metadata["Name"]) for found in distributions() if not _is_ours(found)}
    entries = _ENTRY.finditer(REQUIREMENTS.read_text())
    left_out = here if HAS_TEXTWORLD else here | _OF_TEXTWORLD
    return "".join(entry[0] for entry in entries if _normal(entry[1]) not in left_out)


def _is_ours(found: object) -> bool:
    return str(getattr(found, "_path", "")).startswith(str(HOME))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _fill(site: Path, wanted: str) -> None:
    shutil.rmtree(site, ignore_errors=True)
    listed = HOME / "wanted.txt"
    listed.write_text(wanted)
    beside = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    pip = [beside, "pip", "install", "--python", sys.executable] if beside else None
    command = pip or [sys.executable, "-m", "pip", "install"]
    how = ["--quiet", "--no-deps", "--require-hashes", "--target", str(site), "-r", str(listed)]
    subprocess.run([*command, *how], check=True)


def use() -> None:
    """Let this process import them."""
    site = str(install())
    if site not in sys.path:
        sys.path.append(site)
        importlib.invalidate_caches()


def says_the_same_in_every_process(script: str) -> bool:
    """Whether what a program prints depends on no order of sets or names."""
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": path(), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert b"" not in said, "nothing was printed"
    return len(said) == 1


def path() -> str:
    """PYTHONPATH with which another process can."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(install())]))
