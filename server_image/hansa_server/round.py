"""The story of one aggregation: gate the members' updates, aggregate them, commit the result.

Safe to repeat at every step: each object is written once, the manifest last. A twin that computed
other bytes goes on with the first writer's, so that the folder is always one adapter.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

import hansa
from hansa import adapter, keys, manifest
from hansa.assignment import AggregatorReport, Assignment
from hansa.errors import Corrupt, NotFound, PermanentError
from hansa.logs import Log
from hansa.manifest import FederationDocument, FileEntry, GlobalManifest, Refusal
from hansa.spec import Model
from hansa.store.base import ObjectStore, put_once
from hansa_server.strategies import STRATEGIES
from hansa_server.strategies.base import move
from hansa_server.stream import Members

Clock = Callable[[], float]
Document = TypeVar("Document", bound=Model)


def aggregate(
    assignment: Assignment, store: ObjectStore, log: Log, clock: Clock = time.monotonic
) -> AggregatorReport:
    """Make the round's global adapter, or find it made already, and report it."""
    watch = Stopwatch(clock)
    check_assignment(assignment)
    owner = read_federation(store, assignment)
    committed = read_committed(store, assignment)
    if committed:
        log.info("already_committed", round=assignment.round)
        return report(assignment, committed)

    members = Members(store, assignment, log)
    members.read_manifests()
    base_model = members.agree_on_base_model(owner.base_model if owner else None)
    start = read_start(store, assignment, members)
    members.expect(start)
    watch.lap("read")

    moved = merge(assignment, start, members)
    log.info("aggregated", members=len(members.offers), refused=len(members.refused))
    watch.lap("aggregate")

    own_prefix(store, assignment, base_model)
    files, norm = write_adapter(store, assignment, start, moved)
    watch.lap("write")
    document = describe(assignment, members, base_model, files, norm, watch.seconds)
    committed = commit(store, assignment, document)
    log.info("committed", round=assignment.round, norm=norm, sha256=files[keys.ADAPTER].sha256)
    return report(assignment, committed)


class Stopwatch:
    """Seconds of each phase, from one lap to the next."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock()
        self.seconds: dict[str, float] = {}
        """Phases that are over."""

    def lap(self, phase: str) -> None:
        """A phase is over."""
        now = self._clock()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now


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


def read_federation(store: ObjectStore, assignment: Assignment) -> FederationDocument | None:
    """Who owns the prefix; nobody before the first aggregation."""
    prefix = assignment.storage.prefix
    key = keys.federation(prefix)
    try:
        document = parse(FederationDocument, key, store.get(key))
    except NotFound:
        return None
    manifest.check_same_run(prefix, document.identity, assignment.identity())
    return document


def read_committed(store: ObjectStore, assignment: Assignment) -> bytes | None:
    """The round's manifest when it is committed already; its files must be there."""
    folder = global_folder(assignment)
    try:
        data = store.get(folder + keys.MANIFEST)
    except NotFound:
        return None
    check_committed(assignment, data)
    for name, entry in parse(GlobalManifest, folder + keys.MANIFEST, data).files.items():
        check_stored_size(store, folder + name, entry)
    return data


def check_committed(assignment: Assignment, data: bytes) -> None:
    """A committed result counts only for the run that it was computed for."""
    stored = parse(GlobalManifest, global_folder(assignment) + keys.MANIFEST, data)
    manifest.check_same_run(assignment.storage.prefix, stored.inputs, assignment.inputs())


def check_stored_size(store: ObjectStore, key: str, entry: FileEntry) -> None:
    """A file that its manifest promises is there, at least by its length."""
    try:
        size = store.size(key)
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the file that its manifest names") from None
    if size != entry.size:
        raise Corrupt(f"{key}: got {size} bytes, expected {entry.size} as its manifest says")


def read_start(store: ObjectStore, assignment: Assignment, members: Members) -> adapter.Tensors:
    """The global adapter that all members started from; round 0's is made from the seed."""
    start = assignment.start
    if start.round == 0:
        shapes = members.agree_on_shapes()
        return adapter.start(shapes, assignment.adapter.rank, assignment.seed)
    key = keys.global_folder(assignment.storage.prefix, start.round) + keys.ADAPTER
    try:
        data = store.get(key)
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the adapter the round starts from") from None
    if manifest.sha256(data) != start.sha256:
        raise Corrupt(f"{key}: got sha256 {manifest.sha256(data)}, expected {start.sha256}")
    return adapter.decode(data)


def merge(assignment: Assignment, start: adapter.Tensors, members: Members) -> adapter.Tensors:
    """The next global adapter, in memory."""
    settings = assignment.settings.aggregation
    combined = STRATEGIES[settings.strategy](start, members, settings)
    moved = move(start, combined, settings.server_step)
    if not adapter.is_finite(moved):
        raise PermanentError(
            f"aggregation.serverStep: got {settings.server_step}, which makes the adapter infinite",
            hint="lower aggregation.serverStep or the learning rate",
        )
    return moved


def own_prefix(store: ObjectStore, assignment: Assignment, base_model: str) -> None:
    """Write once whose prefix this is, before the first global adapter can be seen."""
    prefix = assignment.storage.prefix
    own = FederationDocument(
        program=hansa.__version__, identity=assignment.identity(), base_model=base_model
    )
    key = keys.federation(prefix)
    stored = parse(FederationDocument, key, put_once(store, key, to_bytes(own)))
    theirs = {**stored.identity, "model.sha256": stored.base_model}
    manifest.check_same_run(prefix, theirs, {**own.identity, "model.sha256": base_model})


def write_adapter(
    store: ObjectStore, assignment: Assignment, start: adapter.Tensors, moved: adapter.Tensors
) -> tuple[dict[str, FileEntry], float]:
    """Store the adapter and its config; what is described afterwards is what is stored."""
    folder = global_folder(assignment)
    own = adapter.encode(moved)
    targets = adapter.target_names(moved)
    config = adapter.config(assignment.adapter, assignment.model.source, targets)
    stored = put_once(store, folder + keys.ADAPTER, own)
    if stored is not own:
        moved = check_whole(folder + keys.ADAPTER, stored, start)
    contents = {keys.ADAPTER: stored, keys.CONFIG: put_once(store, folder + keys.CONFIG, config)}
    files = {
        name: FileEntry(sha256=manifest.sha256(data), size=len(data))
        for name, data in contents.items()
    }
    return files, adapter.distance(moved, start)


def check_whole(key: str, data: bytes, start: adapter.Tensors) -> adapter.Tensors:
    """An earlier writer's adapter, when it can be this round's at all."""
    try:
        tensors = adapter.decode(data)
    except adapter.AdapterError as error:
        raise Corrupt(f"{key}: {error.message}") from None
    if adapter.shapes(tensors) != adapter.shapes(start) or not adapter.is_finite(tensors):
        raise Corrupt(f"{key}: got another adapter's tensors, expected the start adapter's shapes")
    return tensors


def describe(
    assignment: Assignment,
    members: Members,
    base_model: str,
    files: dict[str, FileEntry],
    norm: float,
    seconds: dict[str, float],
) -> GlobalManifest:
    """The round's manifest."""
    inputs = assignment.inputs()
    offers = members.offers
    return GlobalManifest(
        program=hansa.__version__,
        round=assignment.round,
        fingerprint=manifest.fingerprint(inputs),
        inputs=inputs,
        base_model=base_model,
        start=assignment.start,
        files=files,
        members=[offer.member for offer in offers.values()],
        refused=[Refusal(environment=e, reason=r) for e, r in sorted(members.refused.items())],
        norm=norm,
        updates={
            environment: offer.manifest.model_dump(
                mode="json", by_alias=True, include={"counts", "norm", "loss", "seconds"}
            )
            for environment, offer in offers.items()
        },
        seconds=seconds,
    )


def commit(store: ObjectStore, assignment: Assignment, document: GlobalManifest) -> bytes:
    """Write the manifest, or take the one that a twin has written first."""
    data = put_once(store, global_folder(assignment) + keys.MANIFEST, to_bytes(document))
    check_committed(assignment, data)
    return data


def report(assignment: Assignment, data: bytes) -> AggregatorReport:
    """The committed manifest as the executor reads it; a second run reports the same."""
    stored = parse(GlobalManifest, global_folder(assignment) + keys.MANIFEST, data)
    index = {name: position for position, name in enumerate(assignment.environments)}
    entry = stored.files[keys.ADAPTER]
    return AggregatorReport(
        round=stored.round,
        manifest=manifest.sha256(data),
        adapter=entry.sha256,
        bytes=entry.size,
        members=[index[m.environment] for m in stored.members if m.environment in index],
        refused=[
            (index[r.environment], r.reason) for r in stored.refused if r.environment in index
        ],
        seconds=stored.seconds,
    )


def parse(model: type[Document], key: str, data: bytes) -> Document:
    """A document of ours; one that cannot be read was damaged, or written by a newer version."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Corrupt(f"{key}: {where}: {first['msg']}") from None


def to_bytes(document: Model) -> bytes:
    """A document as it is stored."""
    return manifest.canonical(document.to_json())


def global_folder(assignment: Assignment) -> str:
    """Folder that this round's adapter goes to."""
    return keys.global_folder(assignment.storage.prefix, assignment.round)
