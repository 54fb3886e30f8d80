"""Jobs of a program that does as it is asked, for executors."""

from pathlib import Path

from hansa.api.bucket_documents import StartAdapter
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.spec import Metadata
from hansa.api.status import CurrentRound, RoundEnvironment, RoundSettings
from hansa.local.executor import LocalExecutor
from hansa.plan.job_requests import build_client_assignment
from tests.support import processes
from tests.support.builders import NOW, make_federation
from tests.support.processes import until

FAKE = "tests.local.fake_program"


def job(does: str, name: str = "", environment: str = "maze") -> JobRequest:
    """A Job whose program does so."""
    federation = make_federation("maze", "wordle")
    federation = federation.model_copy(update={"metadata": Metadata(name=does)})
    current = CurrentRound(
        round=1,
        opened_at=NOW,
        start=StartAdapter(),
        settings=RoundSettings(),
        participation=federation.spec.participation,
        environments=[RoundEnvironment(name=e, world=e) for e in ("maze", "wordle")],
    )
    return JobRequest(
        name=name or f"{does}-{environment}",
        role="client",
        round=1,
        environment=environment,
        attempt=1,
        assignment=build_client_assignment(federation, current, environment),
    )


def find(executor: LocalExecutor, name: str) -> ObservedJob:
    return next(job for job in executor.observe() if job.name == name)


def wait(executor: LocalExecutor, *names: str) -> list[ObservedJob]:
    """The Jobs, once all of them have ended."""

    def look() -> bool:
        executor.wait(0.1)
        return not any(find(executor, name).is_active for name in names)

    until(look, f"{names} to end")
    return [find(executor, name) for name in names]


def wait_until_it_hangs(executor: LocalExecutor, name: str) -> None:
    def look() -> bool:
        executor.wait(0.05)
        return bool(executor.progress(name))

    until(look, f"{name} to hang")


def pid_of(tmp_path: Path, name: str) -> int:
    """The process whose output is the Job's log."""
    for pid in processes.of_run(tmp_path):
        if processes.output_of(pid) == tmp_path / "jobs" / name / "log.txt":
            return pid
    return 0
