"""README's first commands on a Debian that has nothing but what README asks for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap"
)
def test_on_a_bare_debian_make_demo_ends_with_its_report_and_an_adapter() -> None:
    done = subprocess.run(
        [str(ROOT / "tools" / "fresh")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "report:  runs/demo/report.html" in done.stdout
    assert "ended with its report and an adapter" in done.stderr
