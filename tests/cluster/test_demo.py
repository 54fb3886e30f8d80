"""`make cluster-demo`, as the README shows it, on a cluster of its own that leaves no trace."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.kube import ROOT

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]


def make(target: str, state: Path) -> subprocess.CompletedProcess[str]:
    given = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"}
    environment = {**given, "HANSA_CLUSTER": str(state), "HANSA_PYTHON": sys.executable}
    return subprocess.run(
        ["make", target], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3000
    )


def test_the_example_is_shown_to_its_good_end(tmp_path: Path) -> None:
    state = tmp_path / "cluster"
    try:
        shown = make("cluster-demo", state)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        head, last = shown.stdout.strip().splitlines()[-2:]
        assert head.split() == ["NAME", "PHASE", "ROUND", "UPDATES", "SUCCESS", "AGE"]
        assert last.split()[:4] == ["two-worlds", "Succeeded", "2", "2/2"]
    finally:
        removed = make("cluster-down", state)
    assert removed.returncode == 0, removed.stderr
    assert not state.exists()
