"""`hansa audit` on a whole run: every round is merged again, from its real store."""

from pathlib import Path

import pytest

from tests.support.small import hansa

pytestmark = pytest.mark.slow


def test_a_run_audits_equal(undisturbed: Path) -> None:
    done = hansa("audit", undisturbed)
    assert done.stdout.splitlines() == [
        "round 1: equal: 2 updates merged",
        "round 2: equal: 2 updates merged",
    ]
    assert (done.returncode, done.stderr) == (0, "2 equal\n")
