"""What a person takes out of a run: the page, an adapter, the whole history."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hansa.adapter import model_card
from hansa.api import bucket_keys
from hansa.api.bucket_documents import (
    EvaluationDocument,
    FileEntry,
    GlobalManifest,
    PersonalManifest,
    UpdateManifest,
    sha256,
)
from hansa.api.spec import Guard
from hansa.api.status import Federation, FederationStatus, HistoryEntry
from hansa.core.errors import Corrupt, InputError, InvalidDocument, NotFound
from hansa.core.files import explain_os_errors, replace_file
from hansa.local.credentials import pick_reader, read_credentials
from hansa.local.executor import now
from hansa.local.loop import open_embedded, open_experience, own_store, use_embedded
from hansa.local.objectstore import attach
from hansa.local.rundir import RunDir
from hansa.plan.policy import guard
from hansa.report import data, page
from hansa.store import documents
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
        variables = pick_reader(read_credentials(credentials)) if credentials else None
        yield own_store(federation.spec, variables)
        return
    live = attach(folder.store) if folder.is_running() else None
    if live:
        yield live
        return
    with open_embedded(folder, use_embedded(federation)) as store:
        yield store.store()


def write_page(
    federation: Federation,
    folder: RunDir,
    store: ObjectStore,
    path: Path | None,
    *,
    episodes: bool = True,
    credentials: Path | None = None,
) -> Path:
    """The report page; where it was written."""
    shown = add_storage(federation, folder)
    target = path or folder.page
    given = read_credentials(credentials) if credentials else {}
    private = {}
    for name in (e.name for e in shown.spec.environments if e.experience_storage is None):
        variables = given.get(name) or pick_reader(given) if given else None
        private[name] = open_experience(shown.spec, name, store, variables)
    facts = data.collect(
        shown, store, private=private, now=now(), adapter=str(folder.adapter), episodes=episodes
    )
    replace_file(target, page.render(facts).encode())
    return target


def add_storage(federation: Federation, folder: RunDir) -> Federation:
    """The object with the place of its store, so that keys can be made."""
    if not folder.store.exists():
        return federation
    return federation.model_copy(update={"spec": use_embedded(federation)})


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


def choose_served_round(federation: Federation, asked: str) -> int:
    """The round after which silos chose what they serve: a guard may keep an earlier adapter."""
    evaluated = federation.status.evaluated
    return evaluated if asked == "last" and evaluated else choose_round(federation, asked)


def pull_adapter(
    federation: Federation, folder: RunDir, store: ObjectStore, round_: int, to: Path
) -> dict[str, Any]:
    """Write a global adapter of a run into a folder, with its card."""
    files = pull_files(store, add_storage(federation, folder).spec.require_s3().prefix, round_, to)
    model_card.write(federation, round_, to)
    return files


def pull_files(store: ObjectStore, prefix: str, round_: int, to: Path) -> dict[str, Any]:
    """Write a global adapter's files into a folder, each checked against the manifest."""
    source = bucket_keys.global_folder(prefix, round_)
    try:
        raw = store.get(source + bucket_keys.MANIFEST)
    except NotFound:
        raise InputError(f"--round: got {round_}, which has no adapter in the store") from None
    return _copy(store, source, GlobalManifest.model_validate_json(raw).files, raw, to)


def pull_personal(
    store: ObjectStore, prefix: str, environment: str, round_: int, to: Path
) -> dict[str, Any] | None:
    """Write what a silo serves itself into a folder; nothing where that is the global adapter."""
    source = bucket_keys.personal_folder(prefix, environment, round_)
    try:
        raw = store.get(source + bucket_keys.MANIFEST)
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
    with explain_os_errors(f"--to: got {to}"):
        to.mkdir(parents=True, exist_ok=True)
    for name, entry in sorted(files.items()):
        if name == bucket_keys.STATE:  # used by the aggregator only
            continue
        content = store.get(source + name)
        if sha256(content) != entry.sha256:
            raise Corrupt(f"{source}{name}: its bytes are not what the manifest says")
        replace_file(to / Path(name).name, content)
    replace_file(to / bucket_keys.MANIFEST, raw)
    return {name: entry.to_json() for name, entry in sorted(files.items())}


def load_whole_history(
    federation: Federation, folder: RunDir, credentials: Path | None = None
) -> Federation:
    """The object with every round in its history, from the documents in the store."""
    with open_store(federation, folder, credentials) as store:
        whole = complete_history(add_storage(federation, folder), store)
    return federation.model_copy(update={"status": whole.status})


def complete_history(federation: Federation, store: ObjectStore) -> Federation:
    """The object, which names its store, with the rounds that its status has dropped."""
    status, storage = federation.status, federation.spec.storage
    if storage is None or [entry.round for entry in status.history] == list(_list_ended(status)):
        return federation
    history = list_every_round(federation, store, storage.s3.prefix)
    status = status.model_copy(update={"history": history})
    return federation.model_copy(update={"status": status})


def _list_ended(status: FederationStatus) -> range:
    is_open = status.current is not None and status.current.kind == "round"
    return range(status.round if is_open else status.round + 1)


def list_every_round(federation: Federation, store: ObjectStore, prefix: str) -> list[HistoryEntry]:
    """Each round that is over, as the status has it, else as its documents tell it.

    The guard's verdict is in no document; it is found again by the guard of today, and one that was
    changed since may leave a rejected round as `aggregated`. One without an adapter is `apart` or
    `empty` by what the silos sent and the spec of today, else `failed`.
    """
    status, rule = federation.status, federation.spec.guard
    known = {entry.round: entry for entry in status.history}
    rounds = _list_ended(status)
    whole = [known.get(r) or _entry(federation, store, prefix, r) for r in rounds]
    for round_ in rounds if rule and rule.acts else ():  # in order: a rejected one is no measure
        if round_ not in known and whole[round_].adapter:
            _mark_regression(
                whole, round_, rule, lambda r: _read_start_round(federation, store, prefix, r)
            )
    return whole


def _mark_regression(
    whole: list[HistoryEntry], round_: int, rule: Guard | None, start: Callable[[int], int | None]
) -> None:
    """Mark an adapter that the guard rejected, and the round that found it worse, with the reason.

    A rollback alone is no regression: a finished federation continues from its best adapter. A drop
    alone is none either: the guard may have been added later.
    """
    next_ = next((entry.round for entry in whole[round_ + 1 :] if entry.adapter), round_)
    if next_ == round_ or start(next_) == round_:
        return
    fall = guard.judge(rule, whole[: round_ + 1], round_)
    if fall is None:
        return
    between = whole[round_ + 1 : next_]
    began = [e.round for e in between if e.outcome == "failed" and start(e.round) == round_]
    judges = [] if any(e.outcome == "rolled-back" for e in between) else began[-1:]
    for marked, outcome in [(round_, "rejected"), *((r, "rolled-back") for r in judges)]:
        update = {"outcome": outcome, "message": fall.message}
        whole[marked] = whole[marked].model_copy(update=update)


def _read_start_round(
    federation: Federation, store: ObjectStore, prefix: str, round_: int
) -> int | None:
    """Round of the adapter that a round began at, by its manifest or else by an update's."""
    names = sorted(e.name for e in federation.spec.environments)
    updates = [bucket_keys.update_folder(prefix, name, round_) for name in names]
    made: type[GlobalManifest] | type[UpdateManifest] = GlobalManifest
    for folder in (bucket_keys.global_folder(prefix, round_), *updates):
        with suppress(NotFound, InvalidDocument):  # a silo may write anything: that is no answer
            return documents.read_document(made, store, folder + bucket_keys.MANIFEST).start.round
        made = UpdateManifest
    return None


def _entry(federation: Federation, store: ObjectStore, prefix: str, round_: int) -> HistoryEntry:
    """One round from its manifest and its evaluations."""
    success: dict[str, float] = {}
    episodes: dict[str, int] = {}
    effective: dict[str, float] = {}
    validation: dict[str, float] = {}
    for environment in sorted(e.name for e in federation.spec.environments):
        key = bucket_keys.evaluation(prefix, environment, round_)
        try:
            document = documents.read_document(EvaluationDocument, store, key)
        except (NotFound, InvalidDocument):
            continue
        success[environment] = round(document.successes / max(1, document.episodes), 4)
        episodes[environment] = document.episodes
        worth = document.effective()
        if worth is not None:
            effective[environment] = round(worth, 2)
        if document.validation and document.validation.ratio is not None:
            validation[environment] = document.validation.ratio
    entry = HistoryEntry(
        round=round_,
        outcome="failed",
        success=success,
        episodes=episodes,
        effective=effective,
        validation=validation,
    )
    try:
        raw = store.get(bucket_keys.global_folder(prefix, round_) + bucket_keys.MANIFEST)
    except NotFound:
        unmerged = _describe_unmerged(federation, store, prefix, round_) if round_ else {}
        return entry.model_copy(update=unmerged)
    manifest = GlobalManifest.model_validate_json(raw)
    updates = f"{len(manifest.members)}/{len(federation.spec.environments)}"
    adapter = manifest.files[bucket_keys.ADAPTER].sha256
    made = {
        "outcome": "aggregated",
        "updates": updates,
        "adapter": adapter,
        "server_step": manifest.server_step,
    }
    return entry.model_copy(update=made)


def _describe_unmerged(
    federation: Federation, store: ObjectStore, prefix: str, round_: int
) -> dict[str, str]:
    """What is known of a round without a global adapter, where that is no failure."""
    spec, trained = federation.spec, list[bool]()
    for environment in spec.environments:
        with suppress(NotFound, InvalidDocument):  # a silo may write anything: that is no answer
            key = bucket_keys.update_folder(prefix, environment.name, round_) + bucket_keys.MANIFEST
            trained.append(documents.read_document(UpdateManifest, store, key).trained)
    shares = spec.aggregation.strategy != "none"
    minimum = spec.participation.minimum_updates or len(spec.environments)
    if len(trained) < minimum or (shares and any(trained)):
        return {}
    outcome = "apart" if any(trained) else "empty"
    return {"outcome": outcome, "updates": f"{sum(trained)}/{len(spec.environments)}"}
