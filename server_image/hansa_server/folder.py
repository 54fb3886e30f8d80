"""The global folder: the start adapter taken out of it, and the result put into it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from pydantic import ValidationError

from hansa.adapter import lora
from hansa.adapter.tensor_file import Shapes, TensorFile, TensorWriter
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FileEntry, GlobalManifest
from hansa.core.errors import Corrupt, NotFound, Precondition
from hansa.store.base import ObjectStore, put_once
from hansa_server.measure import is_finite
from hansa_server.merge import WORKERS, Parts, part_shapes, split, split_rank
from hansa_server.scratch import read_head


class Workplace:
    """Names of the scratch files of one aggregation, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.updates = folder / "updates"
        """Folder of the members' files."""
        self.updates.mkdir()
        self.whole = folder / "start.safetensors"
        """The start adapter as it is stored."""
        self.start = folder / "trained.safetensors"
        """Its trainable part."""
        self.frozen = folder / "frozen.safetensors"
        """Its frozen part."""
        self.state = folder / "state.safetensors"
        """What its strategy remembered."""
        self.result = folder / "result.safetensors"
        """The next adapter."""
        self.new = folder / "new.safetensors"
        """Its trainable part."""
        self.new_frozen = folder / "new_frozen.safetensors"
        """Its frozen part."""
        self.next_state = folder / "next_state.safetensors"
        """What the strategy will remember."""


def open_start(
    store: ObjectStore,
    assignment: Assignment,
    agreed: Shapes | None,
    place: Workplace,
    files: ExitStack,
) -> Parts:
    """The adapter that the round starts from: made of the shapes agreed on, or else copied."""
    if agreed is None:
        read_start(store, assignment, place)
    else:
        make_start(assignment, agreed, place.whole)
    return open_parts(place.whole, assignment.adapter.rank, place.start, place.frozen, files)


def glance_at_start(store: ObjectStore, assignment: Assignment) -> Shapes | None:
    """Shapes of the trainable part of the stored start adapter; None where its head tells none.

    Nothing has verified these bytes: they bound what is read of updates, and serve for no more.
    """
    key = start_key(assignment)
    try:
        shapes = lora.shapes(read_head(store, key), store.size(key))
    except (NotFound, lora.AdapterError):  # whoever reads all of it knows what is wrong
        return None
    return part_shapes(shapes, assignment.adapter.rank)


def make_start(assignment: Assignment, shapes: Shapes, path: Path) -> None:
    """Write the untrained adapter of round 0, some layers at a time."""
    with TensorWriter(path, shapes) as writer, ThreadPoolExecutor(WORKERS) as pool:

        def make(module: str) -> None:
            names = lora.names(module)
            layer = {name: shapes[name] for name in names}
            made = lora.start(layer, assignment.adapter.rank, assignment.seed)
            writer.write(names.a, made[names.a])  # B is zeros, which a new file has already

        list(pool.map(make, lora.target_names(shapes)))


def read_start(store: ObjectStore, assignment: Assignment, place: Workplace) -> None:
    """Copy the adapter that the round starts from."""
    key, start = start_key(assignment), assignment.start
    try:
        got = store.download(key, place.whole, store.size(key))
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the adapter the round starts from") from None
    if got != start.sha256:
        raise Corrupt(f"{key}: got sha256 {got}, expected {start.sha256}")


def start_key(assignment: Assignment) -> str:
    """Where the adapter lies that a later round starts from."""
    return (
        bucket_keys.global_folder(assignment.storage.prefix, assignment.start.round)
        + bucket_keys.ADAPTER
    )


def open_parts(whole: Path, rank: int, trained: Path, frozen: Path, files: ExitStack) -> Parts:
    """The trainable and the frozen part of an adapter's file, which are split only if need be."""
    file = files.enter_context(lora.open_file(whole))
    if split_rank(file, rank) == 0:
        return file, None
    split(file, rank, trained, frozen)
    made = files.enter_context(lora.open_file(trained))
    return made, files.enter_context(lora.open_file(frozen))


def read_state(store: ObjectStore, assignment: Assignment, path: Path) -> TensorFile | None:
    """What this strategy remembered beside the start adapter; nothing if another one made it."""
    start = assignment.start
    folder = bucket_keys.global_folder(assignment.storage.prefix, start.round)
    if start.round == 0:
        return None
    try:
        document = GlobalManifest.model_validate_json(store.get(folder + bucket_keys.MANIFEST))
    except NotFound:
        return None
    except ValidationError:
        raise Corrupt(
            f"{folder + bucket_keys.MANIFEST}: expected a global adapter's manifest"
        ) from None
    made_by = document.inputs.get("aggregation", {}).get("strategy")
    entry = document.files.get(bucket_keys.STATE)
    if not entry or made_by != assignment.settings.aggregation.strategy:
        return None
    if store.download(folder + bucket_keys.STATE, path, entry.size) != entry.sha256:
        raise Corrupt(f"{folder + bucket_keys.STATE}: got other bytes than its manifest names")
    return TensorFile(path)


def store_file(store: ObjectStore, key: str, path: Path, shapes: Shapes | None = None) -> FileEntry:
    """Write a file once; when a twin was faster, `path` holds the twin's bytes afterwards.

    Of an adapter with known `shapes`, a twin's is looked at before it is gone on with.
    """
    try:
        digest = store.upload_if_absent(key, path)
    except Precondition:
        digest = store.download(key, path, store.size(key))
        if shapes:
            check_whole(key, path, shapes)
    return FileEntry(sha256=digest, size=path.stat().st_size)


def store_bytes(store: ObjectStore, key: str, data: bytes) -> FileEntry:
    """Write a small file once, and describe what is stored."""
    stored = put_once(store, key, data)
    return FileEntry(sha256=bucket_documents.sha256(stored), size=len(stored))


def check_whole(key: str, path: Path, shapes: Shapes) -> None:
    """An earlier writer's adapter counts when it can be this round's at all."""
    try:
        with lora.open_file(path) as file:
            same = file.shapes == shapes
            finite = is_finite(file)
    except lora.AdapterError as error:
        raise Corrupt(f"{key}: {error.message}") from None
    if not same or not finite:
        raise Corrupt(f"{key}: got another adapter's tensors, expected this round's shapes")
