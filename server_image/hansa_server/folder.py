"""The global folder: reading the start adapter from it, and writing the result to it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from hansa.adapter import lora
from hansa.adapter.tensor_file import Shapes, TensorFile, TensorWriter
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FileEntry, GlobalManifest
from hansa.core.errors import Corrupt, NotFound, Precondition
from hansa.store.base import ObjectStore
from hansa_server.measure import is_finite
from hansa_server.merge import WORKERS, Parts, compute_part_shapes, split
from hansa_server.scratch import read_head


class Workplace:
    """Scratch files of one aggregation, in a folder of their own."""

    def __init__(self, folder: Path, files: ExitStack) -> None:
        self.files = files
        """Closes what is open when the aggregation is over."""
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
        """The state that the strategy stored with it."""
        self.result = folder / "result.safetensors"
        """The next adapter."""
        self.new = folder / "new.safetensors"
        """Its trainable part."""
        self.new_frozen = folder / "new_frozen.safetensors"
        """Its frozen part."""
        self.next_state = folder / "next_state.safetensors"
        """The state that the strategy stores for the next round."""


@contextmanager
def open_workplace() -> Iterator[Workplace]:
    """A workplace below the system's temporary folder, removed afterwards."""
    with TemporaryDirectory(prefix="hansa-") as folder, ExitStack() as files:
        yield Workplace(Path(folder), files)


def open_start(
    store: ObjectStore, assignment: Assignment, agreed: Shapes | None, place: Workplace
) -> Parts:
    """The adapter that the round starts from: new with the agreed shapes, or else copied."""
    if agreed is None:
        copy_start(store, assignment, place.whole)
    else:
        make_start(assignment, agreed, place.whole)
    return open_parts(place.whole, assignment.adapter.rank, place.start, place.frozen, place.files)


def peek_start_shapes(store: ObjectStore, assignment: Assignment) -> Shapes | None:
    """Shapes of the trainable part of the stored start adapter; None where its head is invalid.

    Nothing has verified these bytes: use them only to bound what is read of updates.
    """
    key = get_start_key(assignment)
    try:
        shapes = lora.parse_shapes(read_head(store, key), store.size(key))
    except (NotFound, lora.AdapterError):  # `copy_start` will say what is wrong
        return None
    return compute_part_shapes(shapes, assignment.adapter.rank)


def make_start(assignment: Assignment, shapes: Shapes, path: Path) -> None:
    """Write the untrained adapter of round 0, some layers at a time."""
    with TensorWriter(path, shapes) as writer, ThreadPoolExecutor(WORKERS) as pool:

        def make(module: str) -> None:
            names = lora.tensor_names(module)
            layer = {name: shapes[name] for name in names}
            made = lora.init_adapter(layer, assignment.adapter.rank, assignment.seed)
            writer.write(names.a, made[names.a])  # B is zeros, which a new file has already

        list(pool.map(make, lora.target_names(shapes)))


def copy_start(store: ObjectStore, assignment: Assignment, path: Path) -> None:
    """Copy the adapter that the round starts from."""
    key, start = get_start_key(assignment), assignment.start
    try:
        got = store.download(key, path, store.size(key))
    except NotFound:
        raise Corrupt(f"{key}: got nothing, expected the adapter the round starts from") from None
    if got != start.sha256:
        raise Corrupt(f"{key}: got sha256 {got}, expected {start.sha256}")


def get_start_key(assignment: Assignment) -> str:
    """Key of the adapter that a later round starts from."""
    prefix, round_ = assignment.storage.prefix, assignment.start.round
    return bucket_keys.global_folder(prefix, round_) + bucket_keys.ADAPTER


def open_parts(whole: Path, rank: int, trained: Path, frozen: Path, files: ExitStack) -> Parts:
    """The trainable and the frozen part of an adapter; a file without the latter is not split."""
    file = files.enter_context(lora.open_file(whole))
    if lora.frozen_rank(file.shapes, rank) == 0:
        return file, None
    split(file, rank, trained, frozen)
    made = files.enter_context(lora.open_file(trained))
    return made, files.enter_context(lora.open_file(frozen))


def read_state(store: ObjectStore, assignment: Assignment, path: Path) -> TensorFile | None:
    """The state that this strategy stored with the start adapter; None if another one made it."""
    start = assignment.start
    folder = bucket_keys.global_folder(assignment.storage.prefix, start.round)
    key = folder + bucket_keys.MANIFEST
    if start.round == 0:
        return None
    try:
        document = GlobalManifest.model_validate_json(store.get(key))
    except NotFound:
        return None
    except ValidationError:
        raise Corrupt(f"{key}: expected a global adapter's manifest") from None
    made_by = document.inputs.get("aggregation", {}).get("strategy")
    entry = document.files.get(bucket_keys.STATE)
    if not entry or made_by != assignment.settings.aggregation.strategy:
        return None
    if store.download(folder + bucket_keys.STATE, path, entry.size) != entry.sha256:
        raise Corrupt(f"{folder + bucket_keys.STATE}: got other bytes than its manifest names")
    return TensorFile(path)


def store_file(store: ObjectStore, key: str, path: Path, shapes: Shapes | None = None) -> FileEntry:
    """Write a file once; where another attempt was faster, `path` has its bytes afterwards.

    The other attempt's adapter is checked where its `shapes` are known.
    """
    try:
        digest = store.upload_if_absent(key, path)
    except Precondition:
        digest = store.download(key, path, store.size(key))
        if shapes:
            check_whole(key, path, shapes)
    return FileEntry(sha256=digest, size=path.stat().st_size)


def check_whole(key: str, path: Path, shapes: Shapes) -> None:
    """Check that another attempt's adapter can be this round's."""
    try:
        with lora.open_file(path) as file:
            is_sound = file.shapes == shapes and is_finite(file)
    except lora.AdapterError as error:
        raise Corrupt(f"{key}: {error.message}") from None
    if not is_sound:
        raise Corrupt(f"{key}: got another adapter's tensors, expected this round's shapes")
