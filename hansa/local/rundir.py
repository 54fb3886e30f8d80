"""The folder of a local run: its object, its lock, and where everything else of it lies."""

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from hansa.api.constants import ANNOTATION_RETRY
from hansa.api.immutable_fields import immutable_changes
from hansa.api.jobs import Event
from hansa.api.spec import Metadata
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.core.files import explain_os_errors, refuse_links
from hansa.local.changes import settings_changed
from hansa.plan.attempts import restart_clocks
from hansa.plan.policy.quorum import REMEDY

DEFAULT_ROOT = Path("runs")
LOCK = "lock"
LEAST_FREE_BYTES = 8 * 2**20
LOCK_SECONDS = 1.0
"""How long a runner tries to lock a folder: `is_running` holds the lock for an instant."""
LOOK_SECONDS = 0.5
"""How often `follow` reads a run."""


class RunDir:
    """Paths inside a run's folder, and its Federation object on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.object = path / "federation.json"
        self.jobs = path / "jobs"
        self.store = path / "store"
        self.page = path / "report.html"
        self.adapter = path / "adapter"
        self.events = path / "events.log"

    def exists(self) -> bool:
        """Whether a run is kept here, or what a silo of another one keeps."""
        return self.object.exists() or (self.path / "member.json").exists()

    def prepare(self) -> None:
        """Make the folder; a user's other files are never mixed with a run's."""
        if self.path.is_file():
            raise InputError(f"--out: got {self.path}, which is a file, expected a folder")
        with explain_os_errors(f"--out: got {self.path}"):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # episodes are in its report
            others = [e.name for e in self.path.iterdir() if not _is_ours(e.name)]
            if others and not self.exists():
                raise InputError(
                    f"--out: got {self.path}, which holds other files ({others[0]}), "
                    "expected a new folder or one that holds a run"
                )
            if self.is_disk_full():
                raise InputError(
                    f"--out: got {self.path}, whose disk is full, "
                    f"expected at least {LEAST_FREE_BYTES // 2**20} MiB of free space",
                    hint="free some space and run the same command again; nothing is lost",
                )
            self.jobs.mkdir(exist_ok=True)

    def is_disk_full(self) -> bool:
        """Whether so little is free that a store would start, and then refuse every write."""
        return shutil.disk_usage(self.path).free < LEAST_FREE_BYTES

    @contextmanager
    def lock(self, command: str = "hansa run") -> Iterator[None]:
        """Lock the run: two runners cannot share a store."""
        refuse_links(self.path)
        with lock(self.path, command):
            yield

    def is_running(self) -> bool:
        """Whether a runner holds the folder now."""
        try:
            with (self.path / LOCK).open() as file:
                return not _can_lock(file, fcntl.LOCK_SH)
        except OSError:
            return False

    def load(self) -> Federation:
        """The run's object as last saved."""
        try:
            return Federation.model_validate_json(self.object.read_bytes())
        except FileNotFoundError:
            what, hint = "holds no run", "start one with `hansa run`"
            if self.exists():
                what = "is the folder of a silo that joined another party's federation, not a run"
                hint = f"`hansa status {self.path}` and `hansa logs {self.path}` show it"
            raise InputError(f"RUN: got {self.path}, which {what}", hint=hint) from None
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            why = str(error).splitlines()[0][:120]
            raise InputError(f"{self.object}: cannot be read ({why})") from None

    def save(self, federation: Federation) -> None:
        """Write the object so that a kill at any moment leaves the old or the new one, whole."""
        data = federation.model_dump_json(by_alias=True, exclude_none=True, indent=1)
        temporary = self.object.with_suffix(".tmp")
        with temporary.open("w") as file:
            file.write(data + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.object)

    def adopt(self, wanted: Federation, effective: Federation, now: datetime) -> Federation:
        """The object to resume with: the new spec over the old status, if the spec may change so.

        Running again after a failed round is asking for a retry. An open round's clocks begin
        again: time in which nothing ran does not count.
        """
        if not self.object.exists():
            new = wanted.metadata.model_copy(update={"uid": str(uuid.uuid4())})
            return wanted.model_copy(update={"metadata": new})
        old = self.load()
        if old.metadata.name != wanted.metadata.name:
            raise InputError(
                f"metadata.name: got {wanted.metadata.name}, expected {old.metadata.name} "
                f"({self.path} holds that run)"
            )
        changes = immutable_changes(old.status.accepted, effective.spec)
        if changes:
            raise InputError(
                changes[0],
                hint=f"{self.path} holds a run with other values: set the field back to continue "
                "with it, or choose another --out",
            )
        self._refuse_unused(old, wanted)
        return wanted.model_copy(
            update={
                "metadata": _update_metadata(old, wanted),
                "status": restart_clocks(old.status, now),
            }
        )

    def changes(self, wanted: Federation) -> list[Event]:
        """What a manifest changes in the run, each with the first round that will use it."""
        if not self.object.exists():
            return []
        old = self.load()
        is_open = old.status.current is not None and old.status.current.kind == "round"
        more = old.status.completed + is_open < wanted.spec.rounds
        since = f"from round {old.status.round + 1} on" if more else "for the last evaluation only"
        return [
            Event(reason="SettingsChanged", message=f"{since}: {change}", warning=True)
            for change in settings_changed(old.spec, wanted.spec)
        ]

    def log_events(self, events: Sequence[Event], now: datetime) -> None:
        """Append events to the run's log."""
        if not events:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with os.fdopen(os.open(self.events, flags, 0o666), "a") as log:
            for event in events:
                mark = "warning " if event.warning else ""
                when = now.isoformat(timespec="seconds")
                log.write(f"{when} {mark}{event.reason} {event.message}\n")

    def _refuse_unused(self, old: Federation, wanted: Federation) -> None:
        """Refuse new settings where no round is left to use them: a report would show them."""
        changes = settings_changed(old.spec, wanted.spec)
        if old.status.phase != "Succeeded" or wanted.spec.rounds > old.spec.rounds or not changes:
            return
        raise InputError(
            f"{'; '.join(change.refusal() for change in changes)} "
            "(the run is finished, and no round would use anything else)",
            hint=f"raise spec.rounds to continue with it, or choose another --out than {self.path}",
        )


@contextmanager
def lock(folder: Path, command: str) -> Iterator[None]:
    """Lock a folder, for as long as that command works in it."""
    with explain_os_errors(f"--out: got {folder}"):
        file = (folder / LOCK).open("w")
    with file:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _can_lock(file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise InputError(
                    f"{folder}: another `{command}` is at work in this folder",
                    hint="wait for it, or choose another folder",
                )
            time.sleep(0.01)
        yield


def find_run(name: str) -> RunDir | None:
    """The folder of a run: what can only be a path, or a name here with a run in it."""
    folder = RunDir(Path(name))
    return folder if name != folder.path.name or folder.exists() else None


def list_runs() -> list[RunDir]:
    """The runs and silos whose folders are here, or below `runs/`."""
    places = [*Path().glob("*/*.json"), *DEFAULT_ROOT.glob("*/*.json")]
    return [
        folder for path in sorted({p.parent for p in places}) if (folder := RunDir(path)).exists()
    ]


def follow(folder: RunDir) -> Iterator[Federation]:
    """The run's object now and after every change, until no runner works on it."""
    last: Federation | None = None
    while True:
        runs = folder.is_running()  # before the last look, so that nothing is missed
        if folder.object.exists() or not runs:  # else its runner has hardly begun
            newest = folder.load()
            if newest != last:
                yield newest
            last = newest
        if not runs:
            return
        time.sleep(LOOK_SECONDS)


def explain_phase(federation: Federation) -> str:
    """What a run does, waits for or failed with; the remedy is in the hint."""
    progressing = next((c for c in federation.status.conditions if c.type == "Progressing"), None)
    return progressing.message.removesuffix(REMEDY) if progressing else federation.status.phase


def suggest_fix(folder: RunDir, retry: str = "") -> str:
    """What to do about a run that has failed; `retry` is the command where it is known."""
    return (
        f"fix that, then {suggest_retry(folder, retry)}, or `hansa run` with other settings; "
        f"`hansa logs {folder.path}` prints the Jobs' logs"
    )


def suggest_retry(folder: RunDir, retry: str = "") -> str:
    """The command that continues with a run; its own store may need keys that are not known."""
    keys = "" if retry or folder.store.exists() else " with the keys of `hansa run`"
    return f"`{retry or f'hansa retry {folder.path}'}`{keys}"


def _can_lock(file: IO[str], kind: int) -> bool:
    """Whether the lock could be had; closing the file gives it back."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(name: str) -> bool:
    """Whether a run may have left this before its first save."""
    left = name.startswith(".") and ".log." in name  # half of a log that was being replaced
    return name in (LOCK, "store", "jobs", "federation.tmp") or name.endswith(".log") or left


def _update_metadata(old: Federation, wanted: Federation) -> Metadata:
    changed = old.spec != wanted.spec
    annotations = {**old.metadata.annotations, **wanted.metadata.annotations}
    if old.status.failed:
        annotations[ANNOTATION_RETRY] = f"after-round-{old.status.failed.round}"
    return old.metadata.model_copy(
        update={"generation": old.metadata.generation + changed, "annotations": annotations}
    )
