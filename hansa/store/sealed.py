"""Stores that seal a silo's updates when they are written, and open them when they are merged.

What is sealed are the files with values: adapter and moments. Manifests stay readable, and name
digests and sizes of what is *in* those files, so that every check behind a store is as without it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.core.errors import Corrupt, InputError, NotFound, PermanentError, Precondition, Unopened
from hansa.crypto import sealing
from hansa.crypto.sealing import Opening, OpeningKey
from hansa.store.base import ForwardingStore, ObjectStore, Watch

FILES = (bucket_keys.ADAPTER, bucket_keys.MOMENTS)
LONGEST = 64 * 1024
"""Bytes of a file that could hold keys."""
Opener = Callable[[], Sequence[OpeningKey]]
"""Gives the private keys, when they are needed."""


class OpenedStore(ForwardingStore):
    """The exchange as the aggregator reads it: sealed updates look as if they were not.

    Each verb but `download` reads what it needs into memory, which is a header or a document.
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        opening: Sequence[OpeningKey],
        *,
        all_are_sealed: bool = True,
    ) -> None:
        """Where not `all_are_sealed`, each is looked at: a run may seal from some round on."""
        super().__init__(store)
        self._all_are_sealed = all_are_sealed
        self._root = bucket_keys.updates_root(prefix)
        self._keys = opening

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        data = self._store.get(key)
        return sealing.opened(self._keys, key, data) if self._is_sealed(key) else data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        if not self._is_sealed(key):
            return super().get_range(key, start, length)

        def read(begin: int, size: int) -> bytes:
            return self._store.get_range(key, begin, size)

        wanted = range(start, start + length)
        return sealing.open_range(self._keys, key, wanted, self._store.size(key), read)

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        size = self._store.size(key)
        return sealing.plain_size(size) if self._is_sealed(key) else size

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file, opened on the way; the sha256 of what is in it.

        What does not open is read once more: the way here may flip a bit.
        """
        if not self._is_sealed(key):
            return self._store.download(key, path, size, watch)
        try:
            return self._open_into(key, path, size, watch)
        except Unopened:
            return self._open_into(key, path, size, watch)

    def _open_into(self, key: str, path: Path | None, size: int, watch: Watch | None) -> str:
        sealed = sealing.sealed_size(size)
        with path.open("wb", buffering=0) if path else nullcontext() as file:
            copy = _Copy(self._keys, key, sealed, file, watch)
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


class _Copy:
    """Sees the bytes of a sealed object, and writes what is in them."""

    def __init__(
        self,
        opening: Sequence[OpeningKey],
        key: str,
        sealed: int,
        file: BinaryIO | None,
        watch: Watch | None,
    ) -> None:
        self._given = (opening, key, sealed)
        self._file = file
        self._watch = watch
        self._begin()

    def _begin(self) -> None:
        self.size = 0
        self.digest = hashlib.sha256()
        self._opening = Opening(*self._given)
        if self._file:
            self._file.seek(0)
            self._file.truncate()

    def __call__(self, begin: int, piece: bytes) -> None:
        if begin == 0:  # perhaps once more, after a try that failed
            self._begin()
        for plain in self._opening.feed(piece):
            if self._watch:
                self._watch(self.size, plain)
            if self._file:
                self.digest.update(plain)
            self.size += self._file.write(plain) if self._file else len(plain)


class SealingStore(ForwardingStore):
    """The exchange as a silo writes it: its updates are sealed to the aggregator's key.

    A silo cannot open what it sealed. So what goes into an update is written to the private store,
    once, and is sealed when its manifest commits it: an attempt that was killed, and a twin, go on
    with those bytes, and nothing leaves before.
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
        """`root` is where the silo's updates lie, `private_root` where what is in them does."""
        super().__init__(store)
        self._private = private
        self._root = root
        self._private_root = private_root
        self._public = public

    def get(self, key: str) -> bytes:
        """All bytes of an object; of a sealed one those that went into it."""
        own = self._own(key)
        if not own:
            return self._store.get(key)
        try:
            return self._private.get(own)
        except NotFound:
            data = self._store.get(key)  # of a round before updates were sealed
        if sealing.is_sealed(data):
            raise NotFound(f"{key}: what is in it is not in the private store any more")
        return data

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""
        own = self._own(key)
        if own:
            self._private.put_if_absent(own, data)
            return
        if key.startswith(self._root) and key.endswith(bucket_keys.MANIFEST):
            self._seal_files(key.removesuffix(bucket_keys.MANIFEST))
        self._store.put_if_absent(key, data)

    def _seal_files(self, folder: str) -> None:
        """Send what an update consists of; a sealed object that is there holds the same."""
        for key in (folder + name for name in FILES):
            try:
                data = self._private.get(self._own(key))
            except NotFound:
                continue
            with suppress(Precondition):
                self._store.put_if_absent(key, sealing.seal(self._public, key, data))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        if self._own(key):
            return self.get(key)[start : start + length]
        return self._store.get_range(key, start, length)

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        return len(self.get(key)) if self._own(key) else self._store.size(key)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file; the sha256 of the bytes that came."""
        own = self._own(key)
        if own:
            with suppress(NotFound):  # of a round before updates were sealed
                return self._private.download(own, path, size, watch)
        return self._store.download(key, path, size, watch)

    def _resolve(self, key: str) -> tuple[ObjectStore, str]:
        own = self._own(key)
        return (self._private, own) if own else (self._store, key)

    def _own(self, key: str) -> str:
        """Where in the private store that is which a key of a sealed object stands for."""
        if key.startswith(self._root) and key.endswith(FILES):
            return self._private_root + key.removeprefix(self._root)
        return ""


def sealing_store(store: ObjectStore, private: ObjectStore, assignment: Assignment) -> ObjectStore:
    """The exchange of a silo's assignment, which seals its updates where the settings ask for it.

    Refused where experience lies open in the shared bucket: so would what goes into an update.
    """
    public, name = assignment.settings.aggregation.seal_to, assignment.environment
    if not public:
        return store
    # A private store that opens is one that seals: hansa.store.experience.
    if assignment.experience_storage is None and not isinstance(private, OpenedStore):
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


def opened_store(store: ObjectStore, assignment: Assignment, opening: Opener) -> ObjectStore:
    """The exchange of an aggregator's assignment, which opens updates where they are sealed."""
    if not assignment.settings.aggregation.seal_to:
        return store
    return OpenedStore(store, assignment.storage.prefix, opening())


def keys_at_hand(environ: Mapping[str, str]) -> list[OpeningKey]:
    """The private keys that an aggregator was given to open updates with."""
    which = "the key that opens updates (spec.storage.sealingSecret, or --sealing-key)"
    return keys_given(environ, sealing.ENV_SEALING_KEY, which)


def keys_given(environ: Mapping[str, str], variable: str, which: str) -> list[OpeningKey]:
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
    try:
        with path.open("rb") as file:
            pem = file.read(LONGEST)
    except OSError as error:
        raise InputError(f"{where}: {path}: {error.strerror}") from None
    return sealing.read_keys(pem, f"{where}: {path}")
