"""A program for tests of the executor: it does what its assignment's federation name says."""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from hansa.api.assignment import (
    ENV_MODEL_CACHE,
    ENV_PROGRESS,
    ENV_REPORT,
    AggregatorReport,
    Assignment,
    ClientReport,
    EvaluateReport,
)
from hansa.api.bucket_documents import Counts
from hansa.api.endpoint import ENV_API_KEY
from hansa.core.errors import Diverged, PermanentError, TooFewUpdates, Unreachable, WorldBroken
from hansa.runtime.program import progress, run_assignment, write_report
from hansa.runtime.warm_parent import serve

REPORT = ClientReport(environment=0, round=1, trained=True, manifest="a" * 64, counts=Counts())


class Few(TooFewUpdates):
    """An error that leaves a report, as the aggregator's does."""

    report = AggregatorReport(
        round=1, manifest="", adapter="", bytes=0, members=[], refused=[(0, "shape")]
    )


def work(assignment: Assignment) -> ClientReport | EvaluateReport:
    """Answer, crash, hang or die."""
    print(f"models {os.environ.get(ENV_MODEL_CACHE)}", flush=True)
    print(f"who {os.environ.get('AWS_ACCESS_KEY_ID', 'nobody')}", flush=True)
    print(f"key {os.environ.get(ENV_API_KEY, 'none')}", flush=True)
    print(f"gpu {os.environ.get('CUDA_VISIBLE_DEVICES', 'none')}", flush=True)
    (Path(tempfile.mkdtemp()) / "update").write_bytes(bytes(1000))
    match assignment.federation:
        case "permanent":
            raise PermanentError("spec.world: got ludo, expected maze", hint="play maze")
        case "few":
            raise Few("1 of 3 updates passed the gate, expected 2")
        case "unreachable":
            raise Unreachable("the store did not answer for 60 s")
        case "broken-world":
            raise WorldBroken("world maze failed in 9 of 10 episodes")
        case "diverged":
            raise Diverged.at_step(3, 10, "loss nan", 0.1)
        case "odd":
            raise SystemExit(7)
        case "silent":
            raise SystemExit(0)
        case "garbage":
            Path(os.environ[ENV_REPORT]).write_bytes(b"\xff{ no report")
            raise SystemExit(0)
        case "long":
            text = REPORT.model_dump_json(by_alias=True).replace("{", "{" + " " * 5000, 1)
            Path(os.environ[ENV_REPORT]).write_text(text)
            raise SystemExit(0)
        case "crash-after-report":
            write_report(REPORT)
            raise RuntimeError("too late")
        case "terminate":
            os.kill(os.getpid(), signal.SIGTERM)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "crash":
            raise RuntimeError("it broke")
        case "exit":
            raise SystemExit(44)
        case "exit-hard":
            os.write(2, b"the driver gave up\n")
            os._exit(255)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            progress(phase="hang", done=0, total=1)
            assert Path(os.environ[ENV_PROGRESS]).exists()
            time.sleep(600)
    return REPORT


def refuse() -> int:
    """A program that cannot even start, as one without its packages."""
    print("ModuleNotFoundError: No module named 'torch'", file=sys.stderr)
    return 1


if __name__ == "__main__":
    tempfile.gettempdir()  # as an import may do before any Job is there
    if os.environ.get("HANSA_TEST_BROKEN"):
        sys.exit(refuse())
    if sys.argv[1:] == ["--warm"]:
        serve(lambda: run_assignment("fake", work))
    else:
        sys.exit(run_assignment("fake", work))
