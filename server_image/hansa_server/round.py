"""One aggregation: gate the members' updates, merge them, commit the result.

Every step is safe to repeat: each object is written once, the manifest last, and then the entry of
the audit log. An attempt that computed other bytes continues with those of the first writer, so
that the folder is always one adapter.
"""

import time
from dataclasses import dataclass
from functools import partial

import hansa
from hansa.adapter import lora
from hansa.adapter.tensor_file import Shapes
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import AggregatorReport, Assignment
from hansa.api.bucket_documents import (
    Diagnostics,
    FederationDocument,
    FileEntry,
    GlobalManifest,
    Refusal,
)
from hansa.core.errors import Corrupt, NotFound, PermanentError
from hansa.core.logs import Log
from hansa.core.stopwatch import Clock, Stopwatch
from hansa.store.base import ObjectStore, get_if_present, put_once
from hansa.store.documents import parse, read_owner
from hansa_server import audit, plugin
from hansa_server import folder as folder_
from hansa_server.diagnostics import diagnose
from hansa_server.folder import Workplace, open_workplace
from hansa_server.masked import make_members, settle_members
from hansa_server.measure import measure_distance
from hansa_server.merge import MergeResult, compute_result_shapes, merge
from hansa_server.merge_input import MergeInput
from hansa_server.step import fit_step
from hansa_server.stream import Members, TooFewMembers


def aggregate(
    assignment: Assignment, store: ObjectStore, log: Log, clock: Clock = time.monotonic
) -> AggregatorReport:
    """Make the round's global adapter, or find it committed already, and report it."""
    watch = Stopwatch(clock)
    check_assignment(assignment)
    owner = read_owner(store, assignment)
    entry = audit.find_place(store, assignment)
    committed = read_committed(store, assignment)
    if committed:
        log.info("already_committed", round=assignment.round)
        written = audit.write_result(store, assignment, entry, committed)
        return make_report(assignment, committed, written)

    members = Members(store, assignment, log)
    with open_workplace() as place:
        try:
            assignment = settle_members(store, assignment)
            members = make_members(store, assignment, log)
            made = compute(store, assignment, owner, members, place, watch)
        except TooFewMembers as error:
            written = audit.write_failure(store, assignment, entry, members.refused)
            error.report = error.report.model_copy(update={"audit": written})
            raise
        log.info("aggregated", members=len(members.offers), refused=len(members.refused))
        claim_prefix(store, assignment, made.base_model)
        files = write_folder(store, assignment, made, place)
        norm, diagnostics = measure(assignment, made.task, place)
        watch.lap("write")
        document = describe(assignment, members, made, files, norm, diagnostics, watch.seconds)
    committed = commit(store, assignment, document)
    written = audit.write_result(store, assignment, entry, committed)
    digest = document.files[bucket_keys.ADAPTER].sha256
    log.info("committed", round=assignment.round, norm=document.norm, sha256=digest)
    return make_report(assignment, committed, written)


@dataclass(frozen=True, kw_only=True)
class ComputedMerge:
    """A merge that is not stored yet."""

    base_model: str
    """Digest of the base model that the members share."""
    task: MergeInput
    """What was merged."""
    result: MergeResult
    """The merge's result."""


def compute(
    store: ObjectStore,
    assignment: Assignment,
    owner: FederationDocument | None,
    members: Members,
    place: Workplace,
    watch: Stopwatch,
) -> ComputedMerge:
    """Gate and merge, without storing anything; an audit calls it, too."""
    place.files.callback(members.close)
    members.read_manifests()
    base_model = members.agree_on_base_model(owner.base_model if owner else None)
    task = gather(store, assignment, members, place)
    watch.lap("read")
    result = merge(task, place.result, place.next_state)
    watch.lap("aggregate")
    return ComputedMerge(base_model=base_model, task=task, result=result)


def gather(
    store: ObjectStore, assignment: Assignment, members: Members, place: Workplace
) -> MergeInput:
    """Copy the start adapter to this machine's disk, and the updates that pass the gate."""
    agreed = members.agree_on_shapes() if assignment.start.round == 0 else None
    shapes = agreed or folder_.peek_start_shapes(store, assignment)
    prepare = partial(folder_.open_start, store, assignment, agreed, place)
    start, frozen = members.fetch(shapes, prepare, place.updates)
    state = folder_.read_state(store, assignment, place.state)
    if state:
        place.files.callback(state.close)
    task = MergeInput(
        start=start,
        frozen=frozen,
        updates=members.list_updates(),
        settings=assignment.settings.aggregation,
        round=assignment.round,
        seed=assignment.seed,
        state=state,
    )
    return fit_step(task, assignment.settings.step_factor)


def check_assignment(assignment: Assignment) -> None:
    """Refuse an invalid assignment before the store is read."""
    if assignment.role != "aggregator":
        raise PermanentError(f"role: got {assignment.role}, expected aggregator")
    names = [member.environment for member in assignment.members]
    if len(set(names)) != len(names):
        raise PermanentError("members: got an environment twice, expected each once")
    unknown = sorted(set(names) - set(assignment.environments))
    if unknown:
        raise PermanentError(f"members: got {unknown[0]}, expected one of the environments")
    plugin.get(assignment.settings.aggregation)  # fails where a plug-in is not installed


def read_committed(store: ObjectStore, assignment: Assignment) -> bytes | None:
    """The round's manifest if it is committed already; its files must exist."""
    folder = get_global_folder(assignment)
    data = get_if_present(store, folder + bucket_keys.MANIFEST)
    if data is None:
        return None
    for name, entry in parse_committed(assignment, data).files.items():
        check_stored_size(store, folder + name, entry)
    return data


def parse_committed(assignment: Assignment, data: bytes) -> GlobalManifest:
    """The round's manifest; a result that was computed for another run is an error."""
    stored = parse(GlobalManifest, get_global_folder(assignment) + bucket_keys.MANIFEST, data)
    bucket_documents.check_same_run(assignment.place, stored.inputs, assignment.inputs())
    return stored


def check_stored_size(store: ObjectStore, key: str, entry: FileEntry) -> None:
    """Check that a file of a manifest exists and has the length given there."""
    try:
        size = store.size(key)
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the file that its manifest names") from None
    if size != entry.size:
        raise Corrupt(f"{key}: got {size} bytes, expected {entry.size} as its manifest says")


def claim_prefix(store: ObjectStore, assignment: Assignment, base_model: str) -> None:
    """Record whose prefix this is, before the first global adapter can be read."""
    prefix = assignment.storage.prefix
    own = FederationDocument(
        program=hansa.__version__, identity=assignment.identity(), base_model=base_model
    )
    key = bucket_keys.federation(prefix)
    data = put_once(store, key, bucket_documents.canonical(own.to_json()))
    stored = parse(FederationDocument, key, data)
    theirs = {**stored.identity, "model.sha256": stored.base_model}
    bucket_documents.check_same_run(
        assignment.place, theirs, {**own.identity, "model.sha256": base_model}
    )


def write_folder(
    store: ObjectStore, assignment: Assignment, made: ComputedMerge, place: Workplace
) -> dict[str, FileEntry]:
    """Store the adapter and its config, and describe the files that are in the store afterwards."""
    folder = get_global_folder(assignment)
    shapes = compute_result_shapes(made.task, made.result.frozen_rank)
    files = {}
    if made.result.has_state:
        key = folder + bucket_keys.STATE
        files[bucket_keys.STATE] = folder_.store_file(store, key, place.next_state)
    key = folder + bucket_keys.ADAPTER
    files[bucket_keys.ADAPTER] = folder_.store_file(store, key, place.result, shapes)
    config = make_config(assignment, shapes, made.result)
    stored = put_once(store, folder + bucket_keys.CONFIG, config)
    digest = bucket_documents.sha256(stored)
    files[bucket_keys.CONFIG] = FileEntry(sha256=digest, size=len(stored))
    return files


def make_config(assignment: Assignment, shapes: Shapes, result: MergeResult) -> bytes:
    """The adapter_config.json of a result with these shapes."""
    targets, source = lora.target_names(shapes), assignment.model.source
    return lora.render_config(assignment.adapter, source, targets, result.frozen_rank)


def measure(
    assignment: Assignment, task: MergeInput, place: Workplace
) -> tuple[float, Diagnostics | None]:
    """How far the stored adapter moved, and how the updates relate to it, if that is wanted."""
    trained, frozen = folder_.open_parts(
        place.result, assignment.adapter.rank, place.new, place.new_frozen, place.files
    )
    norm = measure_distance(trained, task.start)
    if not task.settings.diagnostics:
        return norm, None
    scale = assignment.adapter.alpha / assignment.adapter.rank
    figures = diagnose(task, trained, frozen, scale)
    if assignment.masking:  # nothing about a single member can be computed from the sum
        return norm, figures.model_copy(update=_OF_MEMBERS)
    factors = {update.environment: update.norm for update in task.updates}
    return norm, figures.model_copy(update={"factor_norms": factors})


_OF_MEMBERS = {"error": 0.0, "norms": {}, "cosine": {}, "share": {}}
"""Diagnostics that need each member's update, as they are reported for masked updates."""


def describe(
    assignment: Assignment,
    members: Members,
    made: ComputedMerge,
    files: dict[str, FileEntry],
    norm: float,
    diagnostics: Diagnostics | None,
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
        files=files,
        members=[offer.member for offer in offers.values()],
        refused=[Refusal(environment=e, reason=r) for e, r in sorted(members.refused.items())],
        norm=norm,
        server_step=made.task.step,
        frozen_rank=made.result.frozen_rank,
        compression=made.result.loss,
        diagnostics=diagnostics,
        made_with=audit.describe_versions(),
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
    """Write the manifest, or take the one that another attempt has written first."""
    key = get_global_folder(assignment) + bucket_keys.MANIFEST
    data = put_once(store, key, bucket_documents.canonical(document.to_json()))
    parse_committed(assignment, data)
    return data


def make_report(assignment: Assignment, data: bytes, audit: str | None) -> AggregatorReport:
    """The report about a committed manifest; a second run reports the same."""
    stored = parse_committed(assignment, data)
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


def get_global_folder(assignment: Assignment) -> str:
    """Folder of this round's adapter."""
    return bucket_keys.global_folder(assignment.storage.prefix, assignment.round)
