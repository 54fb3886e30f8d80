"""The story of one aggregation: gate the members' updates, aggregate them, commit the result.

Safe to repeat at every step: each object is written once, the manifest last, and then the entry of
the audit log. A twin that computed other bytes goes on with the first writer's, so that the folder
is always one adapter.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import hansa
from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import AggregatorReport, Assignment
from hansa.api.bucket_documents import (
    Diagnostics,
    FederationDocument,
    FileEntry,
    GlobalManifest,
    Refusal,
)
from hansa.api.spec import Model
from hansa.core.errors import Corrupt, NotFound, PermanentError
from hansa.core.logs import Log
from hansa.core.stopwatch import Clock, Stopwatch
from hansa.store.base import ObjectStore, put_once
from hansa.store.documents import parse
from hansa.store.prefix_owner import read_owner
from hansa_server import audit, strategies
from hansa_server import folder as folder_
from hansa_server.diagnostics import diagnose
from hansa_server.folder import Workplace
from hansa_server.masked import members_of, settled
from hansa_server.measure import distance
from hansa_server.merge import MergeResult, merge, result_shapes
from hansa_server.merge_input import MergeInput
from hansa_server.step import fitted
from hansa_server.stream import Members, TooFewMembers


def aggregate(
    assignment: Assignment, store: ObjectStore, log: Log, clock: Clock = time.monotonic
) -> AggregatorReport:
    """Make the round's global adapter, or find it made already, and report it."""
    watch = Stopwatch(clock)
    check_assignment(assignment)
    owner = read_owner(store, assignment)
    entry = audit.find_place(store, assignment)
    committed = read_committed(store, assignment)
    if committed:
        log.info("already_committed", round=assignment.round)
        written = audit.write_result(store, assignment, entry, committed)
        return report(assignment, committed, written)

    members = Members(store, assignment, log)
    with TemporaryDirectory(prefix="hansa-") as folder, ExitStack() as files:
        place = Workplace(Path(folder))
        try:
            assignment = settled(store, assignment)
            members = members_of(store, assignment, log)
            made = compute(store, assignment, owner, members, place, files, watch)
        except TooFewMembers as error:
            written = audit.write_failure(store, assignment, entry, members.refused)
            error.report = error.report.model_copy(update={"audit": written})
            raise
        log.info("aggregated", members=len(members.offers), refused=len(members.refused))
        own_prefix(store, assignment, made.base_model)
        stored = write_folder(store, assignment, made.task, made.result, place)
        watch.lap("write")
        document = describe(assignment, members, made, stored, watch.seconds)
    committed = commit(store, assignment, document)
    written = audit.write_result(store, assignment, entry, committed)
    digest = document.files[bucket_keys.ADAPTER].sha256
    log.info("committed", round=assignment.round, norm=document.norm, sha256=digest)
    return report(assignment, committed, written)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A merge that is done, and not stored yet."""

    base_model: str
    """Digest of the base model that the members share."""
    task: MergeInput
    """What there was to merge."""
    result: MergeResult
    """What came of it."""


def compute(
    store: ObjectStore,
    assignment: Assignment,
    owner: FederationDocument | None,
    members: Members,
    place: Workplace,
    files: ExitStack,
    watch: Stopwatch,
) -> Made:
    """Gate and merge, which store nothing: whoever checks a round does the same."""
    files.callback(members.close)
    members.read_manifests()
    base_model = members.agree_on_base_model(owner.base_model if owner else None)
    task = gather(store, assignment, members, place, files)
    watch.lap("read")
    result = merge(task, place.result, place.next_state)
    watch.lap("aggregate")
    return Made(base_model=base_model, task=task, result=result)


def gather(
    store: ObjectStore,
    assignment: Assignment,
    members: Members,
    place: Workplace,
    files: ExitStack,
) -> MergeInput:
    """Start adapter and updates on this machine's disk, with all that the gate lets through."""
    agreed = members.agree_on_shapes() if assignment.start.round == 0 else None
    shapes = agreed or folder_.glance_at_start(store, assignment)
    prepare = partial(folder_.open_start, store, assignment, agreed, place, files)
    start, frozen = members.fetch(shapes, prepare, place.updates)
    state = folder_.read_state(store, assignment, place.state)
    if state:
        files.callback(state.close)
    task = MergeInput(
        start=start,
        frozen=frozen,
        updates=members.updates(),
        settings=assignment.settings.aggregation,
        round=assignment.round,
        seed=assignment.seed,
        state=state,
    )
    return fitted(task, assignment.settings.step_factor)


def check_assignment(assignment: Assignment) -> None:
    """Refuse what no aggregator can do, before the store is touched."""
    if assignment.role != "aggregator":
        raise PermanentError(f"role: got {assignment.role}, expected aggregator")
    names = [member.environment for member in assignment.members]
    if len(set(names)) != len(names):
        raise PermanentError("members: got an environment twice, expected each once")
    unknown = sorted(set(names) - set(assignment.environments))
    if unknown:
        raise PermanentError(f"members: got {unknown[0]}, expected one of the environments")
    strategies.get(assignment.settings.aggregation)  # says what is missing in this image


def read_committed(store: ObjectStore, assignment: Assignment) -> bytes | None:
    """The round's manifest when it is committed already; its files must be there."""
    folder = global_folder(assignment)
    try:
        data = store.get(folder + bucket_keys.MANIFEST)
    except NotFound:
        return None
    check_committed(assignment, data)
    for name, entry in parse(GlobalManifest, folder + bucket_keys.MANIFEST, data).files.items():
        check_stored_size(store, folder + name, entry)
    return data


def check_committed(assignment: Assignment, data: bytes) -> None:
    """A committed result counts only for the run that it was computed for."""
    stored = parse(GlobalManifest, global_folder(assignment) + bucket_keys.MANIFEST, data)
    bucket_documents.check_same_run(assignment.storage.prefix, stored.inputs, assignment.inputs())


def check_stored_size(store: ObjectStore, key: str, entry: FileEntry) -> None:
    """A file that its manifest promises is there, at least by its length."""
    try:
        size = store.size(key)
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the file that its manifest names") from None
    if size != entry.size:
        raise Corrupt(f"{key}: got {size} bytes, expected {entry.size} as its manifest says")


def own_prefix(store: ObjectStore, assignment: Assignment, base_model: str) -> None:
    """Write once whose prefix this is, before the first global adapter can be read."""
    prefix = assignment.storage.prefix
    own = FederationDocument(
        program=hansa.__version__, identity=assignment.identity(), base_model=base_model
    )
    key = bucket_keys.federation(prefix)
    stored = parse(FederationDocument, key, put_once(store, key, to_bytes(own)))
    theirs = {**stored.identity, "model.sha256": stored.base_model}
    bucket_documents.check_same_run(prefix, theirs, {**own.identity, "model.sha256": base_model})


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The files of the folder as they are stored, and what they say."""

    files: dict[str, FileEntry]
    """Each file."""
    norm: float
    """Length of the step of the trainable part."""
    diagnostics: Diagnostics | None
    """How the updates relate to the result."""


def write_folder(
    store: ObjectStore,
    assignment: Assignment,
    task: MergeInput,
    result: MergeResult,
    place: Workplace,
) -> Stored:
    """Store the adapter and its config; what is described afterwards is what is stored."""
    folder = global_folder(assignment)
    shapes = result_shapes(task, result.frozen_rank)
    files = {}
    if result.has_state:
        files[bucket_keys.STATE] = folder_.store_file(
            store, folder + bucket_keys.STATE, place.next_state
        )
    files[bucket_keys.ADAPTER] = folder_.store_file(
        store, folder + bucket_keys.ADAPTER, place.result, shapes
    )
    targets = lora.target_names(shapes)
    source, frozen = assignment.model.source, result.frozen_rank
    config = lora.config(assignment.adapter, source, targets, frozen)
    files[bucket_keys.CONFIG] = folder_.store_bytes(store, folder + bucket_keys.CONFIG, config)
    norm, diagnostics = measure(assignment, task, place)
    return Stored(files=files, norm=norm, diagnostics=diagnostics)


def measure(
    assignment: Assignment, task: MergeInput, place: Workplace
) -> tuple[float, Diagnostics | None]:
    """How far the stored adapter moved, and how the updates relate to it."""
    with ExitStack() as files:
        trained, frozen = folder_.open_parts(
            place.result, assignment.adapter.rank, place.new, place.new_frozen, files
        )
        norm = distance(trained, task.start)
        if not task.settings.diagnostics:
            return norm, None
        scale = assignment.adapter.alpha / assignment.adapter.rank
        figures = diagnose(task, trained, frozen, scale)
        if assignment.masking:  # the sum tells of no member, and of no product of its factors
            return norm, figures.model_copy(update=_OF_MEMBERS)
        factors = {update.environment: update.norm for update in task.updates}
        return norm, figures.model_copy(update={"factor_norms": factors})


_OF_MEMBERS = {"error": 0.0, "norms": {}, "cosine": {}, "share": {}}
"""Diagnostics that need each member's update, as they are where nobody sees one."""


def describe(
    assignment: Assignment,
    members: Members,
    made: Made,
    stored: Stored,
    seconds: dict[str, float],
) -> GlobalManifest:
    """The round's manifest."""
    inputs = assignment.inputs()
    offers = members.offers
    return GlobalManifest(
        program=hansa.__version__,
        round=assignment.round,
        fingerprint=bucket_documents.fingerprint(inputs),
        inputs=inputs,
        base_model=made.base_model,
        start=assignment.start,
        files=stored.files,
        members=[offer.member for offer in offers.values()],
        refused=[Refusal(environment=e, reason=r) for e, r in sorted(members.refused.items())],
        norm=stored.norm,
        server_step=made.task.step,
        frozen_rank=made.result.frozen_rank,
        compression=made.result.loss,
        diagnostics=stored.diagnostics,
        made_with=audit.made_with(),
        updates={
            environment: offer.manifest.model_dump(
                mode="json",
                by_alias=True,
                include={"counts", "norm", "loss", "privacy", "seconds"},
                exclude_none=True,
            )
            for environment, offer in offers.items()
        },
        seconds=seconds,
    )


def commit(store: ObjectStore, assignment: Assignment, document: GlobalManifest) -> bytes:
    """Write the manifest, or take the one that a twin has written first."""
    data = put_once(store, global_folder(assignment) + bucket_keys.MANIFEST, to_bytes(document))
    check_committed(assignment, data)
    return data


def report(assignment: Assignment, data: bytes, audit: str | None) -> AggregatorReport:
    """The committed manifest as the executor reads it; a second run reports the same."""
    stored = parse(GlobalManifest, global_folder(assignment) + bucket_keys.MANIFEST, data)
    index = {name: position for position, name in enumerate(assignment.environments)}
    entry = stored.files[bucket_keys.ADAPTER]
    members = [m.environment for m in stored.members if m.environment in index]
    diagnostics = stored.diagnostics
    of_members = diagnostics if diagnostics and diagnostics.cosine else None
    return AggregatorReport(
        round=stored.round,
        manifest=bucket_documents.sha256(data),
        adapter=entry.sha256,
        audit=audit,
        bytes=entry.size,
        members=[index[name] for name in members],
        refused=[
            (index[r.environment], r.reason) for r in stored.refused if r.environment in index
        ],
        server_step=stored.server_step,
        norm=float(f"{diagnostics.norm:.6g}") if diagnostics else 0.0,
        error=float(f"{diagnostics.error:.4g}") if diagnostics else 0.0,
        effective_rank=round(diagnostics.effective_rank, 3) if diagnostics else 0.0,
        cosine=[round(of_members.cosine[name], 3) for name in members] if of_members else [],
        share=[round(of_members.share[name], 3) for name in members] if of_members else [],
        seconds=stored.seconds,
    )


def to_bytes(document: Model) -> bytes:
    """A document as it is stored."""
    return bucket_documents.canonical(document.to_json())


def global_folder(assignment: Assignment) -> str:
    """Folder that this round's adapter goes to."""
    return bucket_keys.global_folder(assignment.storage.prefix, assignment.round)
