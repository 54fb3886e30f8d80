"""What became of a program looks the same to a plan, whichever executor has run it.

The same program meets the same fates as a child of a warm process and in a Pod. For the Pod it runs
as a plain process, and its exit becomes the Job and Pod that a kubelet and a Job controller report.

Expected differences, which no plan depends on:
- Messages differ, but for the sentence that a program itself stops with. A local one may quote the
  log, which is on the same machine; a Pod's may not, since a traceback can quote a trajectory.
- A local Job is never `starting`: nothing has to be scheduled or pulled.
- After a restart a local runner has no Jobs, for they died with it, and an operator finds its own.
  Either way the plan asks for what is missing, and that finds its committed results.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hansa.api.assignment import ENV_ASSIGNMENT, ENV_PROGRESS, ENV_REPORT
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.local import executor as executors
from hansa.local.executor import LocalExecutor
from hansa.runtime.capacity import Capacity
from hansa_operator.observe import observe_all
from tests.local.fake_program import REPORT, Few
from tests.support import processes
from tests.support.fake_jobs import FAKE, pid_of, wait, wait_until_it_hangs
from tests.support.fake_jobs import job as make_request
from tests.unit.hansa_operator.objects import STARTED, live_job, live_pod

pytestmark = pytest.mark.slow  # starts programs

ROOT = Path(__file__).parents[2]
REPORT_BYTES = 4096
"""Most that a kubelet takes of a termination message."""
LOG_BYTES = 2048
"""Most that it takes of the log of a container that failed without one."""


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What a program does, or what is done to it, and what a plan is to see."""

    does: str
    """What the program does: a case of tests/local/fake_program.py."""
    happens: str = "ends"
    """`ends` by itself, or is `deleted`, `vanishes`, `cannot-start`, is `running` or `queued`."""
    state: str = "failed"
    exit_code: int | None = None
    reason: str = ""
    report: Any = None
    sentence: str = ""
    """How the program itself says why it stopped."""
    mentions: str = ""
    """What any message names."""


FATES = {
    "answers": Fate(does="answer", state="succeeded", report=REPORT),
    "exits 0 without a report": Fate(does="silent", state="succeeded"),
    "writes garbage as its report": Fate(does="garbage", state="succeeded"),
    "writes too large a report": Fate(does="long", state="succeeded"),
    "crashes": Fate(does="crash", exit_code=1),
    "crashes after its report": Fate(does="crash-after-report", exit_code=1, report=REPORT),
    "exits with a code that nobody knows": Fate(does="odd", exit_code=7),
    "exits 42": Fate(
        does="permanent",
        exit_code=42,
        sentence="spec.world: got ludo, expected maze (hint: play maze)",
    ),
    "exits 43 with a report": Fate(
        does="few",
        exit_code=43,
        report=Few.report,  # a Pod has one message: the report takes the place of the sentence
    ),
    "exits 44": Fate(does="unreachable", exit_code=44),
    "exits 45": Fate(
        does="broken-world", exit_code=45, sentence="world maze failed in 9 of 10 episodes"
    ),
    "exits 46": Fate(
        does="diverged",
        exit_code=46,
        sentence="spec.training.learningRate: got 0.1, with which training diverged "
        "(loss nan in step 3 of 10), expected a smaller one",
    ),
    "is killed by SIGKILL": Fate(does="kill", exit_code=137, mentions="signal 9"),
    "is killed by SIGTERM": Fate(does="terminate", exit_code=143, mentions="signal 15"),
    "is killed by SIGSEGV": Fate(does="segfault", exit_code=139, mentions="signal 11"),
    "runs": Fate(does="hang", happens="running", state="running"),
    "waits for its turn": Fate(does="answer", happens="queued", state="queued"),
    "is deleted": Fate(does="hang", happens="deleted", state="absent"),
    "vanishes": Fate(does="hang", happens="vanishes", reason="Disrupted"),
    "cannot start": Fate(does="answer", happens="cannot-start", reason="CannotStart"),
}


class LocalProcesses:
    """Children of a warm process, by the local executor itself."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._shared: LocalExecutor | None = None

    def meet(self, fate: Fate, request: JobRequest) -> ObservedJob | None:
        if fate.happens == "ends":  # they leave their warm process alone, so one does for all
            self._shared = self._shared or self._stack.enter_context(self._executor())
            return self._observe(self._shared, fate, request)
        with self._executor(is_broken=fate.happens == "cannot-start") as executor:
            return self._observe(executor, fate, request)

    @contextmanager
    def _executor(self, *, is_broken: bool = False) -> Iterator[LocalExecutor]:
        with pytest.MonkeyPatch.context() as patch:
            for role in executors.PROGRAMS:
                patch.setitem(executors.PROGRAMS, role, FAKE)
            patch.setenv("PYTHONPATH", str(ROOT))
            patch.setenv(processes.MARK, str(self._folder))
            if is_broken:
                patch.setenv("HANSA_TEST_BROKEN", "1")
            capacity = Capacity(slots=1, gpus=[])
            jobs = self._folder / "jobs"
            with LocalExecutor(jobs, lambda name: {}, capacity, own_credentials=False) as executor:
                yield executor

    def _observe(
        self, executor: LocalExecutor, fate: Fate, request: JobRequest
    ) -> ObservedJob | None:
        if fate.happens == "queued":
            executor.create(make_request("hang"))
        executor.create(request)
        if fate.happens in ("running", "deleted", "vanishes"):
            wait_until_it_hangs(executor, request.name)
        if fate.happens == "deleted":
            executor.delete(request.name)
        if fate.happens == "vanishes":
            processes.kill(processes.parent(pid_of(self._folder, request.name)))
        if fate.happens not in ("running", "queued", "deleted"):
            wait(executor, request.name)
        return next((job for job in executor.observe() if job.name == request.name), None)


class KubernetesJobs:
    """Jobs and Pods as an API server shows them, by what the operator makes of them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder

    def meet(self, fate: Fate, request: JobRequest) -> ObservedJob | None:
        jobs, pods = self._objects(fate, request)
        for job in jobs:
            job["metadata"]["name"] = request.name
        observed = observe_all(jobs, pods)
        return observed[0] if observed else None

    def _objects(self, fate: Fate, request: JobRequest) -> tuple[list[Any], list[Any]]:
        if fate.happens == "ends":
            return self._ended(request)
        if fate.happens == "running":
            return [live_job()], [live_pod({"running": {"startedAt": STARTED}}, phase="Running")]
        if fate.happens == "queued":
            job = live_job("client", ("Suspended", "JobSuspended"))
            return [{**job, "spec": {**job["spec"], "suspend": True}}], []
        if fate.happens == "deleted":
            return [], []  # with its Pod, by the operator's own request
        if fate.happens == "vanishes":  # its node is gone, and the Pod was collected as garbage
            return [live_job("client", ("Failed", "BackoffLimitExceeded"))], []
        state = {"exitCode": 128, "reason": "StartError", "message": "exec: no such file"}
        failed = live_pod({"terminated": state}, phase="Failed")
        return [live_job("client", ("Failed", "BackoffLimitExceeded"))], [failed]

    def _ended(self, request: JobRequest) -> tuple[list[Any], list[Any]]:
        """Run the program as a container does, and report its end as a kubelet does."""
        report, log = self._folder / f"{request.name}-report", self._folder / f"{request.name}-log"
        environ = {
            **os.environ,
            ENV_ASSIGNMENT: request.assignment.model_dump_json(by_alias=True, exclude_none=True),
            ENV_REPORT: str(report),
            ENV_PROGRESS: str(self._folder / "progress.json"),
        }
        with log.open("wb") as output:
            ended = subprocess.run(
                [sys.executable, "-m", FAKE],
                env=environ,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                check=False,
            )
        code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
        message = report.read_bytes()[:REPORT_BYTES] if report.exists() else b""
        if code and not message:
            message = log.read_bytes()[-LOG_BYTES:]  # terminationMessagePolicy
        terminated = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "message": message.decode(errors="replace"),
            "startedAt": STARTED,
        }
        verdict = ("Complete", "CompletionsReached")
        if code:
            policy = "PodFailurePolicy" if code == 42 else "BackoffLimitExceeded"
            verdict = ("Failed", policy)
        phase = "Failed" if code else "Succeeded"
        return [live_job("client", verdict)], [live_pod({"terminated": terminated}, phase=phase)]


EXECUTORS: dict[str, type[LocalProcesses] | type[KubernetesJobs]] = {
    "local processes": LocalProcesses,
    "Kubernetes Jobs": KubernetesJobs,
}


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalProcesses | KubernetesJobs]:
    """Each executor, for all fates."""
    with ExitStack() as stack:
        yield EXECUTORS[request.param](tmp_path_factory.mktemp("fates"), stack)


@pytest.mark.parametrize("case", FATES)
def test_a_program_that(executor: LocalProcesses | KubernetesJobs, case: str) -> None:
    fate = FATES[case]
    name = f"{fate.happens}-{fate.does}"
    job = executor.meet(fate, make_request(fate.does, name=name))
    if fate.state == "absent":
        assert job is None
        return
    assert job is not None
    shown = (job.state, job.exit_code, job.reason, job.report)
    assert shown == (fate.state, fate.exit_code, fate.reason, fate.report)
    assert (job.name, job.role, job.round, job.environment) == (name, "client", 1, "maze")
    assert job.message == fate.sentence if fate.sentence else fate.mentions in job.message
    if fate.state in ("failed", "succeeded"):
        assert bool(job.message) is (fate.state == "failed")
    if fate.state != "queued":
        assert job.started_at is not None
        assert job.started_at >= job.created_at
