"""A program for tests of the executor: it does what its assignment's federation name says."""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from hansa.assignment import (
    ENV_MODEL_CACHE,
    ENV_PROGRESS,
    Assignment,
    ClientReport,
    EvaluateReport,
    decode_assignment,
)
from hansa.manifest import Counts
from hansa.processes.warm import serve
from hansa.program import progress, run


def work(told: Assignment) -> ClientReport | EvaluateReport:
    """Answer, crash, hang or die."""
    print(f"models {os.environ.get(ENV_MODEL_CACHE)}", flush=True)
    print(f"who {os.environ.get('AWS_ACCESS_KEY_ID', 'nobody')}", flush=True)
    print(f"gpu {os.environ.get('CUDA_VISIBLE_DEVICES', 'none')}", flush=True)
    (Path(tempfile.mkdtemp()) / "update").write_bytes(bytes(1000))
    match told.federation:
        case "crash":
            raise RuntimeError("it broke")
        case "exit":
            raise SystemExit(44)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            progress(phase="hang", done=0, total=1)
            assert Path(os.environ[ENV_PROGRESS]).exists()
            time.sleep(600)
    return ClientReport(
        environment=0, round=told.round, trained=True, manifest="a" * 64, counts=Counts()
    )


def refuse() -> int:
    """A program that cannot even start, as one without its packages."""
    print("ModuleNotFoundError: No module named 'torch'", file=sys.stderr)
    return 1


if __name__ == "__main__":
    tempfile.gettempdir()  # as an import may do before any Job is there
    if os.environ.get("HANSA_TEST_BROKEN"):
        sys.exit(refuse())
    if sys.argv[1:] == ["--warm"]:
        serve(lambda: run("fake", work))
    else:
        decode_assignment("{}")
