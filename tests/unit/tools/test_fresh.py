"""`tools/fresh` says what it needs, and leaves no mount, process or folder behind."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]

DEBOOTSTRAP = """#!/bin/bash
for folder; do case "$folder" in /*) break ;; esac; done
mkdir -p "$folder/proc"
mount -t tmpfs tmpfs "$folder/proc"
{then}
"""
"""Mounts as the real one does while it works; what follows differs by test."""


def can_make_namespaces() -> bool:
    made = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True)
    return os.geteuid() == 0 and made.returncode == 0


needs_namespaces = pytest.mark.skipif(
    not shutil.which("unshare") or not can_make_namespaces(),
    reason="tools/fresh needs root and namespaces",
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with `tools/fresh`, and a folder of programs that come before all others."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("fresh", "debian"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def program(tree: Path, name: str, text: str) -> None:
    (tree / "bin" / name).write_text(text)
    (tree / "bin" / name).chmod(0o755)


def start(tree: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(tree / "tools" / "fresh"), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0]


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(command: str) -> bool:
    wanted = command.replace(" ", "\0").encode() + b"\0"
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if each.read_bytes() == wanted:
                return True
        except OSError:
            continue
    return False


def system(tree: Path) -> Path:
    return tree / ".cache" / "fresh" / "root"


def test_a_wrong_option_is_refused_with_a_sentence(tree: Path) -> None:
    process = start(tree, "--kepe")
    assert "tools/fresh: got '--kepe', expected --keep or nothing" in said(process)
    assert process.returncode == 2


def test_who_is_not_root_is_told_so_in_one_sentence(tree: Path) -> None:
    program(tree, "id", '#!/bin/sh\n[ "$1" = -u ] && echo 1000 || echo ada\n')
    process = start(tree)
    assert said(process) == "error: user: got ada, expected root, whom debootstrap needs\n"
    assert process.returncode == 2


def test_a_missing_debootstrap_is_an_error_of_one_sentence(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tree, "id", "#!/bin/sh\necho 0\n")
    for name in ("bash", "dirname", "env"):
        (tree / "bin" / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tree / "bin"))
    process = start(tree)
    assert said(process).startswith("error: debootstrap: got none\n\nhint: ")
    assert process.returncode == 2


@needs_namespaces
def test_a_debootstrap_that_fails_is_quoted_and_nothing_stays(tree: Path) -> None:
    program(tree, "debootstrap", DEBOOTSTRAP.format(then="echo E: no such mirror; exit 1"))
    process = start(tree)
    words = said(process)
    assert "E: no such mirror" in words
    assert "error: debootstrap: failed" in words
    assert process.returncode == 2
    assert not system(tree).exists()


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_that_is_ended_takes_all_with_it(tree: Path, number: signal.Signals) -> None:
    command = f"sleep {4000 + number}.{os.getpid()}"
    program(tree, "debootstrap", DEBOOTSTRAP.format(then=command))
    process = start(tree)
    wait_until(lambda: is_running(command))
    assert system(tree).is_dir()
    process.send_signal(number)
    said(process)
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert not is_running(command)
    assert not system(tree).exists()
    assert str(tree) not in Path("/proc/mounts").read_text()


@needs_namespaces
def test_one_that_is_killed_leaves_no_process_and_the_next_removes_its_folder(tree: Path) -> None:
    command = f"sleep 5000.{os.getpid()}"
    program(tree, "debootstrap", DEBOOTSTRAP.format(then=command))
    process = start(tree)
    wait_until(lambda: is_running(command))
    (system(tree) / "left").touch()
    process.kill()
    said(process)
    wait_until(lambda: not is_running(command))
    assert str(tree) not in Path("/proc/mounts").read_text()
    program(tree, "debootstrap", DEBOOTSTRAP.format(then="ls ${folder%/proc}; exit 1"))
    assert "left" not in said(start(tree))
    assert not system(tree).exists()


@needs_namespaces
def test_a_kept_one_stays_until_the_next(tree: Path) -> None:
    program(tree, "debootstrap", DEBOOTSTRAP.format(then="exit 1"))
    said(start(tree, "--keep"))
    assert system(tree).is_dir()
    said(start(tree))
    assert not system(tree).exists()
