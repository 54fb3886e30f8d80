"""Jobs killed with -9 while silos evolve alone: they end with what sharing nothing gives."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.support import processes, small
from tests.support.processes import until

pytestmark = pytest.mark.slow

FEW = {"tasks": 4}


def kill_a_job_in(run: small.Run, phase: str) -> None:
    """Kill a Job that follows the last round, when it is in that phase."""

    def look() -> bool:
        assert run.process.poll() is None, f"ended before a silo came to {phase}: {run.said}"
        for path in run.out.glob(f"jobs/{small.NAME}-e*/progress.json"):
            with contextlib.suppress(OSError, ValueError):
                pid = processes.jobs(run.pid).get(path.parent.name)
                if pid and json.loads(path.read_text()).get("phase") == phase:
                    processes.kill(pid)
                    return True
        return False

    until(look, f"a silo that evolves alone to {phase}")


def test_silos_alone_do_as_silos_that_share_nothing_also_after_kills(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("apart", "joined")}
    for folder in folders.values():
        folder.mkdir()
    manifest = small.write_manifest(
        folders["apart"], rounds=1, evaluation=FEW, aggregation={"strategy": "none"}
    )
    with small.Run(manifest, folders["apart"] / "run") as run:
        run.finish()
    expected = {line["name"]: line["success"] for line in small.status(run.out)["environments"]}
    manifest = small.write_manifest(folders["joined"], rounds=1, evaluation={**FEW, "alone": True})
    with small.Run(manifest, folders["joined"] / "run") as run:
        for phase in ("explore", "train"):
            kill_a_job_in(run, phase)
        run.finish()
    lines = small.status(run.out)["environments"]
    assert {line["name"]: line["alone"] for line in lines} == expected
    assert sum(line["attempt"] - 1 for line in lines) == 2
