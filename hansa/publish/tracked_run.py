"""What is exported: a run in a folder of this machine, or a federation's status on a cluster."""

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hansa.api.status import Federation, FederationStatus, HistoryEntry
from hansa.core.errors import InputError, Unreachable
from hansa.core.files import explain_os_errors
from hansa.local.rundir import RunDir
from hansa.local.rundir import follow as follow_folder
from hansa.publish.bucket import read_known_fields
from hansa.report import data, tracking_figures
from hansa.report.run_facts import Round
from hansa.tracking.record import Record

if TYPE_CHECKING:
    from hansa.kubernetes.client import Data
    from hansa.kubernetes.federations import Federations

IDENTITY = "export.id"
"""File in a run's folder that names the run for trackers, made by its first export."""
PAGE = "report.html"


class LocalRun:
    """A run's folder; its store is read for what the manifests say of each round."""

    def __init__(
        self, folder: RunDir, credentials: Path | None, say: Callable[[str], None]
    ) -> None:
        self._folder, self._credentials, self._say = folder, credentials, say
        self._identity = read_or_make_identity(folder.path)
        self._closed: list[int] = []
        self._forgotten: list[HistoryEntry] = []
        self._rounds: tuple[Round, ...] = ()

    def read(self) -> Record:
        """What there is now."""
        is_over = not self._folder.is_running()  # before the look, so that nothing is missed
        return self._record(self._folder.load(), is_over=is_over)

    def follow(self) -> Iterator[Record]:
        """What there is now and after every change, until no runner works on it."""
        for federation in follow_folder(self._folder):
            yield self._record(federation, is_over=False)
        yield self.read()

    @contextmanager
    def files(self) -> Iterator[Mapping[str, Path]]:
        """The last adapter with its card, and the page without any episode."""
        from hansa.local.results import open_store, pull_adapter, write_page

        federation = self._folder.load()
        with tempfile.TemporaryDirectory(prefix="hansa-export-") as scratch:
            target = Path(scratch)
            with open_store(federation, self._folder, self._credentials) as store:
                write_page(federation, self._folder, store, target / PAGE, episodes=False)
                if adapter := federation.status.adapter:
                    folder = target / "adapter"
                    pull_adapter(federation, self._folder, store, adapter.round, folder)
            files = (path for path in sorted(target.rglob("*")) if path.is_file())
            yield {path.relative_to(target).as_posix(): path for path in files}

    def _record(self, federation: Federation, *, is_over: bool) -> Record:
        try:
            self._read_store(federation, is_over=is_over)
        except Unreachable:
            if is_over:
                raise
        history = sorted([*self._forgotten, *federation.status.history], key=lambda e: e.round)
        status = federation.status.model_copy(update={"history": history})
        whole = federation.model_copy(update={"status": status})
        return tracking_figures.build_record(
            whole, self._identity, is_over=is_over, rounds=self._rounds
        )

    def _read_store(self, federation: Federation, *, is_over: bool) -> None:
        """Read it when a round has ended, since nothing else writes a manifest of one.

        What could not be read is asked for again, and said once the run is over.
        """
        from hansa.local.results import add_storage, complete_history, open_store

        closed = [entry.round for entry in federation.status.history if entry.closed_at]
        if closed == self._closed or self._is_store_starting():
            return
        shown = add_storage(federation, self._folder)
        with open_store(federation, self._folder, self._credentials) as store:
            shown = complete_history(shown, store)
            collected = data.collect(shown, store, episodes=False)
        known = {entry.round for entry in federation.status.history}
        self._forgotten = [e for e in shown.status.history if e.round not in known]
        self._rounds = collected.rounds
        self._closed = [] if collected.notes else closed
        for note in collected.notes if is_over else ():
            self._say(note.replace("Not shown", "not exported", 1))

    def _is_store_starting(self) -> bool:
        """Whether a runner is still starting its store: a second server would disturb it."""
        from hansa.local.objectstore import attach

        is_embedded = self._folder.store.exists()
        return is_embedded and self._folder.is_running() and not attach(self._folder.store)


class OnCluster:
    """A federation's status, read with the rights of the user."""

    def __init__(self, federations: "Federations", name: str, lost: Callable[[str], None]) -> None:
        """`lost` is called with why the cluster does not answer."""
        self._federations, self._name, self._lost = federations, name, lost

    def read(self) -> Record:
        """What there is now."""
        return _build_record(self._federations.get(self._name))

    def follow(self) -> Iterator[Record]:
        """What there is now and after every change, until it has succeeded, failed or is gone."""
        from hansa.kubernetes.watch import follow

        for document in follow(self._federations, self._name, lost=self._lost):
            if document is None:
                raise InputError(f"federation {self._name}: it was deleted before it ended")
            record = _build_record(document)
            yield record
            if record.state != "running":
                return

    @contextmanager
    def files(self) -> Iterator[Mapping[str, Path]]:
        """None: they are in the federation's store, which `hansa pull` reads."""
        yield {}


RunSource = LocalRun | OnCluster
"""A run that can be read once, or followed to its end."""


def _build_record(document: "Data") -> Record:
    from hansa.kubernetes.state import has_failed, has_succeeded

    federation = read_document(document)
    is_over = has_succeeded(document) or has_failed(document)
    return tracking_figures.build_record(federation, federation.metadata.uid, is_over=is_over)


def read_document(document: "Data") -> Federation:
    """A federation of the API as far as this version knows its fields."""
    fields = FederationStatus.model_fields.items()
    try:
        return read_known_fields(document, [field.alias or name for name, field in fields])
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        name = document["metadata"].get("name")
        raise InputError(
            f"federation {name}: {where}: cannot be read by this version of hansa",
            hint="install the version of the operator",
        ) from None


def read_or_make_identity(folder: Path) -> str:
    """The run's identity for trackers: made once, and kept with the run wherever it is moved."""
    path = folder / IDENTITY
    with explain_os_errors(f"RUN: got {folder}"):
        with suppress(FileExistsError):
            draft = folder / f".{IDENTITY}.{os.getpid()}"
            draft.write_text(secrets.token_hex(16) + "\n")
            try:
                os.link(draft, path)  # whole or not at all, and only the first time
            finally:
                draft.unlink()
        return path.read_text().strip()
