"""What a person takes out of a run: the page, an adapter, the whole history."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hansa import keys
from hansa.errors import Corrupt, InputError, NotFound
from hansa.local.credentials import of_reader, read_credentials
from hansa.local.executor import now
from hansa.local.loop import embedded_spec, open_embedded, own_store
from hansa.local.objectstore import attach
from hansa.local.rundir import RunDir
from hansa.manifest import (
    EvaluationDocument,
    FileEntry,
    GlobalManifest,
    PersonalManifest,
    sha256,
)
from hansa.program import replace
from hansa.report import data, page
from hansa.spec import S3
from hansa.status import Federation, HistoryEntry
from hansa.store.base import ObjectStore


def write_results(federation: Federation, folder: RunDir, store: ObjectStore) -> None:
    """The page, and the last adapter as a PEFT folder; both are made again at every end."""
    write_page(federation, folder, store, None)
    adapter = federation.status.adapter
    if adapter:
        pull_adapter(federation, folder, store, adapter.round, folder.adapter)


@contextmanager
def open_store(
    federation: Federation, folder: RunDir, credentials: Path | None = None
) -> Iterator[ObjectStore]:
    """The run's store: the live run's, or started for as long as it is read, or the user's own."""
    if not folder.store.exists():
        variables = of_reader(read_credentials(credentials)) if credentials else None
        yield own_store(federation.spec, variables)
        return
    live = attach(folder.store) if folder.is_running() else None
    if live:
        yield live
        return
    with open_embedded(folder, embedded_spec(federation)) as store:
        yield store.store()


def write_page(
    federation: Federation,
    folder: RunDir,
    store: ObjectStore,
    path: Path | None,
    *,
    replays: bool = True,
) -> Path:
    """The report page; where it was written."""
    shown = with_storage(federation, folder)
    target = path or folder.page
    facts = data.collect(shown, store, now=now(), adapter=str(folder.adapter), replays=replays)
    replace(target, page.render(facts).encode())
    return target


def with_storage(federation: Federation, folder: RunDir) -> Federation:
    """The object with the place of its store, so that keys can be made."""
    if not folder.store.exists():
        return federation
    return federation.model_copy(update={"spec": embedded_spec(federation)})


def choose_round(federation: Federation, asked: str) -> int:
    """The round that the user means."""
    status = federation.status
    if asked == "last" and status.adapter:
        return status.adapter.round
    if asked == "best" and status.best and status.best.round:
        return status.best.round
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if asked in ("last", "best"):
        raise InputError(f"--round: got {asked}, but no round has made an adapter that fits yet")
    raise InputError(f"--round: got {asked}, expected a round's number, `last` or `best`")


def pull_adapter(
    federation: Federation, folder: RunDir, store: ObjectStore, round_: int, to: Path
) -> dict[str, Any]:
    """Write a global adapter of a run into a folder."""
    return pull_files(store, _s3(federation, folder).prefix, round_, to)


def pull_files(store: ObjectStore, prefix: str, round_: int, to: Path) -> dict[str, Any]:
    """Write a global adapter's files into a folder, each checked against the manifest."""
    source = keys.global_folder(prefix, round_)
    try:
        raw = store.get(source + keys.MANIFEST)
    except NotFound:
        raise InputError(f"--round: got {round_}, which has no adapter in the store") from None
    return _copy(store, source, GlobalManifest.model_validate_json(raw).files, raw, to)


def pull_personal(
    store: ObjectStore, prefix: str, environment: str, round_: int, to: Path
) -> dict[str, Any] | None:
    """Write what a silo serves itself into a folder; nothing where that is the global adapter."""
    source = keys.personal_folder(prefix, environment, round_)
    try:
        raw = store.get(source + keys.MANIFEST)
    except NotFound:
        raise InputError(
            f"--environment: got {environment}, which chose nothing to serve in round {round_}",
            hint="spec.personalization lets silos choose, after the last round",
        ) from None
    files = PersonalManifest.model_validate_json(raw).files
    return _copy(store, source, files, raw, to) if files else None


def _copy(
    store: ObjectStore, source: str, files: Mapping[str, FileEntry], raw: bytes, to: Path
) -> dict[str, Any]:
    """Files of a folder in the store, each checked, and their manifest last."""
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--to: got {to}: {error.strerror}") from None
    for name, entry in sorted(files.items()):
        if name == keys.STATE:  # the server's own affair
            continue
        content = store.get(source + name)
        if sha256(content) != entry.sha256:
            raise Corrupt(f"{source}{name}: its bytes are not what the manifest says")
        replace(to / Path(name).name, content)
    replace(to / keys.MANIFEST, raw)
    return {name: entry.to_json() for name, entry in sorted(files.items())}


def whole_history(
    federation: Federation, folder: RunDir, credentials: Path | None = None
) -> Federation:
    """The object with every round in its history, from the documents in the store."""
    prefix = _s3(federation, folder).prefix
    known = {entry.round: entry for entry in federation.status.history}
    with open_store(federation, folder, credentials) as store:
        for round_ in range(federation.status.round + 1):
            if round_ not in known:
                known[round_] = _entry(federation, store, prefix, round_)
    history = [known[round_] for round_ in sorted(known)]
    status = federation.status.model_copy(update={"history": history})
    return federation.model_copy(update={"status": status})


def _entry(federation: Federation, store: ObjectStore, prefix: str, round_: int) -> HistoryEntry:
    """One round from its manifest and its evaluations."""
    success: dict[str, float] = {}
    episodes: dict[str, int] = {}
    effective: dict[str, float] = {}
    for environment in sorted(e.name for e in federation.spec.environments):
        try:
            raw = store.get(keys.evaluation(prefix, environment, round_))
        except NotFound:
            continue
        document = EvaluationDocument.model_validate_json(raw)
        success[environment] = round(document.successes / max(1, document.episodes), 4)
        episodes[environment] = document.episodes
        worth = document.effective()
        if worth is not None:
            effective[environment] = round(worth, 2)
    entry = HistoryEntry(
        round=round_, outcome="failed", success=success, episodes=episodes, effective=effective
    )
    try:
        raw = store.get(keys.global_folder(prefix, round_) + keys.MANIFEST)
    except NotFound:
        return entry
    manifest = GlobalManifest.model_validate_json(raw)
    updates = f"{len(manifest.members)}/{len(federation.spec.environments)}"
    adapter = manifest.files[keys.ADAPTER].sha256
    made = {"outcome": "aggregated", "updates": updates, "adapter": adapter}
    return entry.model_copy(update=made)


def _s3(federation: Federation, folder: RunDir) -> S3:
    storage = with_storage(federation, folder).spec.storage
    if storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    return storage.s3
