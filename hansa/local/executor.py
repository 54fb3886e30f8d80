"""The local executor: Jobs of a plan as processes, as many at a time as the machine can carry.

It keeps no state of its own on disk: after a kill the plan asks for the same Jobs again, and they
find their committed results.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hansa.api.assignment import (
    ENV_ASSIGNMENT,
    ENV_MODEL_CACHE,
    ENV_ORDER,
    ENV_PROGRESS,
    ENV_REPORT,
    REPORT_LIMIT,
)
from hansa.api.endpoint import ENV_API_KEY
from hansa.api.jobs import AnyReport, FailureReason, JobRequest, JobState, ObservedJob
from hansa.api.reports import decode_report
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.api.silo_assignment import SiloClientAssignment
from hansa.core.canonical import parse_object
from hansa.core.exits import SIGNAL_BASE
from hansa.core.files import replace_file
from hansa.core.logs import EXPERIENCE
from hansa.runtime.capacity import Capacity
from hansa.runtime.lifeline import die_with_parent
from hansa.runtime.warm_parent import read_last_sentence

PROGRAMS = {
    "client": "hansa_client",
    "evaluate": "hansa_client",
    "aggregator": "hansa_server",
    "courier": "hansa.members",
}
WARMED = ("hansa_client", "hansa_server")
"""Programs that every run needs; the courier's is warmed when the first is asked for."""
STOP_PATIENCE_SECONDS = 5.0
TICK_SECONDS = 0.5
"""How often displays are refreshed and stores are looked after; Jobs wake a loop at once."""
NO_SLOT = -1
"""Slot of a Job that only waits, and needs no cores or GPU."""
_SCRATCH = "tmp"
"""Folder of a Job's temporary files, inside its own: the machine's might be small, and shared."""


@dataclass
class _Job:
    """One Job of this runner."""

    request: JobRequest
    folder: Path
    created_at: datetime
    state: JobState = "queued"
    started_at: datetime | None = None
    exit_code: int | None = None
    reason: FailureReason = ""
    message: str = ""
    slot: int = NO_SLOT


class LocalExecutor:
    """Creates, watches and ends Jobs; every method is called from the runner's main thread."""

    def __init__(
        self,
        folder: Path,
        environ: Callable[[str], dict[str, str]],
        capacity: Capacity,
        *,
        own_credentials: bool,
        of_courier: Mapping[str, str] | None = None,
        of_aggregator: Mapping[str, str] | None = None,
        of_silos: Mapping[str, Mapping[str, str]] | None = None,
        warmed: Sequence[str] = WARMED,
    ) -> None:
        """`own_credentials`: Jobs see the user's AWS_* variables; else they never do.

        Keys of a private store come from `environ` alone: each silo has its own. The user's key of
        an endpoint reaches silos' clients, and no other Job. `of_courier` and `of_aggregator` are
        what only these get, `of_silos` what only the clients of a silo get in a round.
        """
        self._folder = folder
        self._environ = environ
        self._capacity = capacity
        self._own = {"courier": dict(of_courier or {}), "aggregator": dict(of_aggregator or {})}
        self._of_silos = of_silos or {}
        self._warmed = warmed
        # Before the environment, which may say otherwise: a Job's own folder for temporary files
        # goes with it, and every Job would download its model anew.
        hidden = (EXPERIENCE, ENV_API_KEY, ENV_MASKING_KEY, *(() if own_credentials else ("AWS_",)))
        models = str(Path(tempfile.gettempdir()) / f"hansa-{os.getuid()}")
        self._base = {ENV_MODEL_CACHE: models} | {
            name: value for name, value in os.environ.items() if not name.startswith(hidden)
        }
        self._api_key = os.environ.get(ENV_API_KEY, "")
        self._jobs: dict[str, _Job] = {}
        self._programs: dict[str, _WarmProgram] = {}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> "LocalExecutor":
        self._remove_scratch("*")  # of a runner that was killed
        for module in self._warmed:
            self._program(module)  # imports continue while the store starts
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs.values():
            program.close()
        self._remove_scratch("*")

    def folder(self, name: str) -> Path:
        """Where a Job's log, report and progress are."""
        return self._folder / name

    def observe(self) -> list[ObservedJob]:
        """All Jobs of this runner as the plan sees them."""
        return [self._observe(job) for _, job in sorted(self._jobs.items())]

    def create(self, request: JobRequest) -> None:
        """Queue a Job, unless one of that name is there."""
        if request.name in self._jobs:
            return
        folder = self.folder(request.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").unlink(missing_ok=True)
        (folder / "progress.json").unlink(missing_ok=True)
        self._jobs[request.name] = _Job(
            request=request, folder=folder, created_at=datetime.now(UTC)
        )
        self._fill()

    def delete(self, name: str) -> None:
        """End a Job and forget it; its folder stays, for its log."""
        job = self._jobs.pop(name, None)
        if job and job.state == "running":
            # Its work is safe to lose.
            self._program(PROGRAMS[job.request.role]).tell({"stop": name})

    def apply(self, delete: Iterable[str], create: Iterable[JobRequest]) -> None:
        """Do what a plan asks for."""
        for name in delete:
            self.delete(name)
        for request in create:
            self.create(request)

    def progress(self, name: str) -> dict[str, Any]:
        """What a running client last said of its progress; for display only."""
        try:
            return parse_object((self.folder(name) / "progress.json").read_bytes()) or {}
        except OSError:
            return {}

    def wait(self, seconds: float) -> None:
        """Return when a Job has changed its state, or after that many seconds."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            program: _WarmProgram = key.data
            for message in program.read():
                self._record_exit(message)
            if program.is_dead:
                self._handle_program_death(program)
        self._fill()

    def _observe(self, job: _Job) -> ObservedJob:
        request = job.request
        return ObservedJob(
            name=request.name,
            role=request.role,
            round=request.round,
            environment=request.environment,
            attempt=request.attempt,
            state=job.state,
            created_at=job.created_at,
            started_at=job.started_at,
            exit_code=job.exit_code or None,
            reason=job.reason,
            message=self._explain_failure(job),
            report=None if job.exit_code is None else read_report(job.folder / "report.json"),
        )

    def _explain_failure(self, job: _Job) -> str:
        """Why a Job failed: what the executor knows, or the sentence that the Job ended with."""
        if job.state != "failed":
            return ""
        if job.message or job.reason:
            return job.message or "its process was killed"
        number = (job.exit_code or 0) - SIGNAL_BASE
        if number in signal.valid_signals():  # 255, for one, is an exit code of its own
            perhaps = "; possibly out of memory" if number == signal.SIGKILL else ""
            return f"its process was killed (signal {number}{perhaps})"
        return read_last_sentence(job.folder / "log.txt")

    def _fill(self) -> None:
        """Start queued Jobs while there is room, oldest first."""
        for job in list(self._jobs.values()):
            if job.state != "queued":
                continue
            if job.request.role == "courier":  # it only waits for somebody else
                self._start(job, NO_SLOT)
                continue
            busy = {other.slot for other in self._jobs.values() if other.state == "running"}
            free = [slot for slot in range(self._capacity.slots) if slot not in busy]
            if free:
                self._start(job, free[0])

    def _start(self, job: _Job, slot: int) -> None:
        request = job.request
        variable = (
            ENV_ORDER if isinstance(request.assignment, SiloClientAssignment) else ENV_ASSIGNMENT
        )
        environ = {
            **self._variables(request, slot),
            variable: request.assignment.model_dump_json(by_alias=True, exclude_none=True),
            ENV_REPORT: str(job.folder / "report.json"),
            ENV_PROGRESS: str(job.folder / "progress.json"),
            "TMPDIR": str((job.folder / _SCRATCH).absolute()),
        }
        key = environ.pop(ENV_API_KEY, "") or self._api_key
        if key and request.role in ("client", "evaluate"):
            environ[ENV_API_KEY] = key
        (job.folder / _SCRATCH).mkdir(exist_ok=True, mode=0o700)
        replace_file(job.folder / "assignment.json", environ[variable].encode())
        log = str(job.folder / "log.txt")
        order = {"start": request.name, "environ": environ, "log": log}
        self._program(PROGRAMS[request.role]).tell(order)
        job.state, job.started_at, job.slot = "running", datetime.now(UTC), slot

    def _variables(self, request: JobRequest, slot: int) -> dict[str, str]:
        """What a Job's role gets."""
        placed = {} if slot == NO_SLOT else self._capacity.environ(slot)
        own = self._own.get(request.role, {})
        if request.role == "client":
            own = {**self._of_silos.get(request.environment, {})}
        return {**self._environ(request.environment or "aggregator"), **placed, **own}

    def _record_exit(self, message: dict[str, Any]) -> None:
        name = str(message.get("exited", ""))
        job = self._jobs.get(name)
        if name:
            self._remove_scratch(name)
        if job is None or job.state != "running":
            return
        job.exit_code = int(message["code"])
        job.state = "succeeded" if job.exit_code == 0 else "failed"

    def _remove_scratch(self, jobs: str) -> None:
        """Remove temporary files of Jobs that have ended: a process that was killed left them."""
        for left in self._folder.glob(f"{jobs}/{_SCRATCH}"):
            shutil.rmtree(left, ignore_errors=True)

    def _handle_program_death(self, program: "_WarmProgram") -> None:
        """The warm process died, and its Jobs with it.

        If it was killed, its Jobs count as disrupted and are retried. If it ended by itself before
        it was ready, a package is missing, for example, and every retry would fail alike.
        """
        self._selector.unregister(program.output)
        program.close()
        del self._programs[program.module]
        reason: FailureReason = "CannotStart" if program.is_broken else "Disrupted"
        why = f"{program.module} cannot start: {read_last_sentence(program.log)}"
        for job in self._jobs.values():
            if job.state == "running" and PROGRAMS[job.request.role] == program.module:
                job.state, job.reason = "failed", reason
                job.message = why if program.is_broken else ""

    def _program(self, module: str) -> "_WarmProgram":
        if module not in self._programs:
            program = _WarmProgram(module, self._folder.parent / f"{module}.log", self._base)
            self._programs[module] = program
            self._selector.register(program.output, selectors.EVENT_READ, program)
        return self._programs[module]


def read_report(path: Path) -> AnyReport | None:
    """The report of a Job that ended; None when it is missing, garbled or too long."""
    try:
        with path.open("rb") as file:
            return decode_report(file.read(REPORT_LIMIT + 1))
    except OSError:
        return None


class _WarmProgram:
    """A warm process of one program and the pipes to it."""

    def __init__(self, module: str, log: Path, environ: dict[str, str]) -> None:
        self.module = module
        self.log = log
        self.is_dead = False
        self._is_ready = False
        self._pending = b""
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, "--warm"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
                preexec_fn=die_with_parent,  # only prctl runs in it
                start_new_session=True,  # Ctrl-C is the runner's, which ends all of them
            )
        assert self._process.stdout is not None  # noqa: S101  Popen made the pipe
        self.output = self._process.stdout

    def read(self) -> list[dict[str, Any]]:
        """Messages that have arrived."""
        chunk = os.read(self.output.fileno(), 65536)
        if not chunk:
            self.is_dead = True
            return []
        self._is_ready = True
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        return [json.loads(line) for line in lines if line.startswith(b"{")]

    @property
    def is_broken(self) -> bool:
        """Whether it ended by itself before it could do anything; asked after close()."""
        return not self._is_ready and (self._process.returncode or 0) > 0

    def close(self) -> None:
        """End the process and all its children."""
        if self._process.stdin and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                self.is_dead = True
        if not self._is_ready and not self.is_dead:
            self._process.send_signal(signal.SIGKILL)  # still importing, and no longer needed
        try:
            self._process.wait(STOP_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self.output.close()

    def tell(self, message: dict[str, Any]) -> None:
        """Ask it to fork a child for a Job, or to end one at once."""
        assert self._process.stdin is not None  # noqa: S101  Popen made the pipe
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.is_dead = True  # its output ends too, and wait() buries it


def now() -> datetime:
    """The clock of local runs."""
    return datetime.now(UTC)


def compute_wait_seconds(moment: datetime | None) -> float:
    """How long a loop waits for a moment, or a tick at most."""
    left = moment.timestamp() - time.time() if moment else TICK_SECONDS
    return min(TICK_SECONDS, max(0.0, left))
