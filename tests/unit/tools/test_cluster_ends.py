"""Tests on a cluster remove what they started, also when they are told to end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import until

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]

SCRIPT = """#!/bin/sh
cd "$(dirname "$0")"
echo "$1" >>calls
case "$1" in
    status) [ -e runs ] ;;
    up) touch runs; [ ! -e slow ] || sleep 60 ;;
    down) rm runs ;;
    *) cat >/dev/null ;;
esac
"""

CONFTEST = """
from pathlib import Path
import pytest
from tests.cluster import kube
from tests.cluster.conftest import devkube

kube.SCRIPT = Path(__file__).with_name("cluster")

@pytest.fixture(scope="session")
def probe():
    return b""
"""

TEST = """
import time
from pathlib import Path

def test_it(devkube):
    Path(__file__).with_name("begun").touch()
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A test that takes long, with the fixture of tests/cluster and a script in place of one."""
    for name, text in (("cluster", SCRIPT), ("conftest.py", CONFTEST), ("test_it.py", TEST)):
        (tmp_path / name).write_text(text)
    (tmp_path / "cluster").chmod(0o755)
    return tmp_path


def start(folder: Path) -> subprocess.Popen[bytes]:
    environment = {k: v for k, v in os.environ.items() if k != "HANSA_TEST_KUBECONFIG"}
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    quiet = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder))
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *quiet, str(folder)],
        env={**environment, "PYTHONPATH": os.pathsep.join(path)},
        start_new_session=True,
    )


def told_to_end(folder: Path, when: str) -> list[str]:
    """What the script was called with by tests that get TERM once that file is there."""
    process = start(folder)
    until((folder / when).exists, when)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) != 0
    return (folder / "calls").read_text().split()


def test_a_cluster_of_tests_that_are_told_to_end_is_removed(folder: Path) -> None:
    assert told_to_end(folder, "begun") == ["status", "up", "load-image", "down"]


def test_a_cluster_that_was_about_to_start_is_removed(folder: Path) -> None:
    (folder / "slow").touch()
    assert told_to_end(folder, "runs") == ["status", "up", "down"]


def test_a_cluster_that_ran_before_is_left_running(folder: Path) -> None:
    (folder / "runs").touch()
    assert "down" not in told_to_end(folder, "begun")
