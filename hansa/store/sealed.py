"""Stores that seal a silo's updates when they are written, and open them when they are merged.

Sealed are the files with values: adapter and moments. Manifests stay readable, with the digests and
sizes of the plain files, so that all checks work as without sealing.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.core.errors import (
    Corrupt,
    InputError,
    NotFound,
    PermanentError,
    Precondition,
    UnsealError,
)
from hansa.core.files import explain_os_errors
from hansa.crypto import sealing
from hansa.crypto.sealing import OpeningKey, Unsealer
from hansa.store.base import ForwardingStore, ObjectStore, RedirectingStore, Watch

FILES = (bucket_keys.ADAPTER, bucket_keys.MOMENTS)
LONGEST = 64 * 1024
"""Bytes of a file that could hold keys."""
Opener = Callable[[], Sequence[OpeningKey]]
"""Reads the private keys when they are needed."""


class UnsealingStore(ForwardingStore):
    """The exchange as the aggregator reads it: sealed updates read as if they were not sealed.

    All verbs but `download` read into memory, which is enough for headers and documents.
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        opening: Sequence[OpeningKey],
        *,
        all_are_sealed: bool = True,
    ) -> None:
        """Without `all_are_sealed` each object is checked: a run may seal from a later round on."""
        super().__init__(store)
        self._all_are_sealed = all_are_sealed
        self._root = bucket_keys.updates_root(prefix)
        self._keys = opening

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        data = self._store.get(key)
        return sealing.unseal(self._keys, key, data) if self._is_sealed(key) else data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        if not self._is_sealed(key):
            return super().get_range(key, start, length)

        def read(begin: int, size: int) -> bytes:
            return self._store.get_range(key, begin, size)

        wanted = range(start, start + length)
        return sealing.unseal_range(self._keys, key, wanted, self._store.size(key), read)

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        size = self._store.size(key)
        return sealing.plain_size(size) if self._is_sealed(key) else size

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file, opened on the way; the sha256 of what is in it.

        An object that does not open is read once more, since the transfer may have flipped a bit.
        """
        if not self._is_sealed(key):
            return self._store.download(key, path, size, watch)
        try:
            return self._open_into(key, path, size, watch)
        except UnsealError:
            return self._open_into(key, path, size, watch)

    def _open_into(self, key: str, path: Path | None, size: int, watch: Watch | None) -> str:
        sealed = sealing.sealed_size(size)
        with path.open("wb", buffering=0) if path else nullcontext() as file:
            copy = _UnsealingCopy(self._keys, key, sealed, file, watch)
            self._store.download(key, None, sealed, copy)
        if copy.size != size:
            raise Corrupt(f"{key}: got {copy.size} bytes, expected {size}")
        return copy.digest.hexdigest() if path else ""

    def _is_sealed(self, key: str) -> bool:
        if not key.startswith(self._root) or not key.endswith(FILES):
            return False
        return self._all_are_sealed or self._looks_sealed(key)

    def _looks_sealed(self, key: str) -> bool:
        return sealing.is_sealed(self._store.get_range(key, 0, sealing.HEAD))


@dataclass
class _UnsealingCopy:
    """Gets the bytes of a sealed object, and writes its content."""

    keys: Sequence[OpeningKey]
    key: str
    sealed: int
    file: BinaryIO | None
    watch: Watch | None

    def __post_init__(self) -> None:
        self.size = 0
        self.digest = hashlib.sha256()
        self._opening = Unsealer(self.keys, self.key, self.sealed)
        if self.file:
            self.file.seek(0)
            self.file.truncate()

    def __call__(self, begin: int, piece: bytes) -> None:
        if begin == 0:  # the first try, or a retry
            self.__post_init__()
        for plain in self._opening.feed(piece):
            if self.watch:
                self.watch(self.size, plain)
            if self.file:
                self.digest.update(plain)
            self.size += self.file.write(plain) if self.file else len(plain)


class SealingStore(RedirectingStore):
    """The exchange as a silo writes it: its updates are sealed to the aggregator's key.

    A silo cannot open what it sealed. So the files of an update are written to the private store
    once, and sealed when the manifest commits them: after a kill, and in a twin, the same bytes are
    used, and nothing leaves the silo before.
    """

    def __init__(
        self,
        store: ObjectStore,
        private: ObjectStore,
        *,
        root: str,
        private_root: str,
        public: str,
    ) -> None:
        """`public` is the aggregator's key."""
        super().__init__(store, private, root=root, private_root=private_root)
        self._public = public

    def get(self, key: str) -> bytes:
        """All bytes of an object; of a sealed one those that went into it."""
        own = self._redirect_key(key)
        if not own:
            return self._store.get(key)
        try:
            return self._private.get(own)
        except NotFound:
            data = self._store.get(key)  # of a round before updates were sealed
        if sealing.is_sealed(data):
            raise NotFound(f"{key}: its content is no longer in the private store")
        return data

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""
        if key.startswith(self._root) and key.endswith(bucket_keys.MANIFEST):
            self._seal_files(key.removesuffix(bucket_keys.MANIFEST))
        super().put_if_absent(key, data)

    def _seal_files(self, folder: str) -> None:
        """Seal and send the files of an update; a sealed object that exists holds the same."""
        for key in (folder + name for name in FILES):
            try:
                data = self._private.get(self._redirect_key(key))
            except NotFound:
                continue
            with suppress(Precondition):
                self._store.put_if_absent(key, sealing.seal(self._public, key, data))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        if self._redirect_key(key):
            return self.get(key)[start : start + length]
        return self._store.get_range(key, start, length)

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        return len(self.get(key)) if self._redirect_key(key) else self._store.size(key)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file; the sha256 of the bytes that came."""
        own = self._redirect_key(key)
        if own:
            with suppress(NotFound):  # of a round before updates were sealed
                return self._private.download(own, path, size, watch)
        return self._store.download(key, path, size, watch)

    def _redirect_key(self, key: str) -> str:
        return super()._redirect_key(key) if key.endswith(FILES) else ""


def open_sealing_store(
    store: ObjectStore, private: ObjectStore, assignment: Assignment
) -> ObjectStore:
    """The exchange of a silo's assignment, which seals its updates where the settings ask for it.

    Refused where experience is unsealed in the shared bucket: an update's files would be, too.
    """
    public, name = assignment.settings.aggregation.seal_to, assignment.environment
    if not public:
        return store
    # Only hansa.store.experience makes such a private store, and it seals as well.
    if assignment.experience_storage is None and not isinstance(private, UnsealingStore):
        raise PermanentError(
            "settings.aggregation.sealTo: got a key, and this silo has no experienceStorage and no "
            "key of its own (experienceKeySecret), expected one of them: whoever reads the shared "
            "bucket would read the experience itself"
        )
    return SealingStore(
        store,
        private,
        root=bucket_keys.update_root(assignment.storage.prefix, name),
        private_root=bucket_keys.sealed_updates(assignment.private_storage.prefix, name),
        public=public,
    )


def open_unsealing_store(
    store: ObjectStore, assignment: Assignment, opening: Opener
) -> ObjectStore:
    """The exchange of an aggregator's assignment, which opens updates where they are sealed."""
    if not assignment.settings.aggregation.seal_to:
        return store
    return UnsealingStore(store, assignment.storage.prefix, opening())


def read_aggregator_keys(environ: Mapping[str, str]) -> list[OpeningKey]:
    """The private keys that an aggregator was given to open updates with."""
    which = "the key that opens updates (spec.storage.sealingSecret, or --sealing-key)"
    return read_keys_from(environ, sealing.ENV_SEALING_KEY, which)


def read_keys_from(environ: Mapping[str, str], variable: str, which: str) -> list[OpeningKey]:
    """The private keys in the file that a variable names; a permanent error without them."""
    path = environ.get(variable, "")
    if not path:
        raise PermanentError(f"{variable}: got nothing, expected the file of {which}")
    try:
        return read_opening_keys(Path(path), variable)
    except InputError as error:
        raise PermanentError(error.message, error.hint) from None


def read_opening_keys(path: Path, where: str) -> list[OpeningKey]:
    """The private keys of a file; InputError, which names the field, where it holds none."""
    named = f"{where}: {path}"
    with explain_os_errors(named), path.open("rb") as file:
        pem = file.read(LONGEST)
    return sealing.read_keys(pem, named)
