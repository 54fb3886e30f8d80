"""A store that keeps a silo's own updates aside: they are masked before anybody else reads them.

A client works as it always does, and finds its updates where it put them, in its private store.
What it sends of them is made from there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from hansa import keys
from hansa.assignment import Assignment
from hansa.errors import PermanentError
from hansa.sealing import OpeningKey
from hansa.secure import ENV_MASKING_KEY
from hansa.store.base import ObjectStore, Watch
from hansa.store.sealed import keys_given


class AsideStore:
    """The exchange as a silo sees it that masks: below its own updates is its private store."""

    def __init__(
        self, shared: ObjectStore, private: ObjectStore, *, root: str, private_root: str
    ) -> None:
        """`root` is where the silo's updates would lie, `private_root` where they do."""
        self.shared = shared
        """The exchange itself."""
        self._private = private
        self._root = root
        self._private_root = private_root

    def get(self, key: str) -> bytes:
        """All bytes of an object."""
        store, place = self._place(key)
        return store.get(place)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        store, place = self._place(key)
        return store.get_range(place, start, length)

    def size(self, key: str) -> int:
        """Length of an object in bytes."""
        store, place = self._place(key)
        return store.size(place)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""
        store, place = self._place(key)
        store.put_if_absent(place, data)

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        """Copy an object into a file; the sha256 of the bytes that came."""
        store, place = self._place(key)
        return store.download(place, path, size, watch)

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Write a file as an object once; its sha256."""
        store, place = self._place(key)
        return store.upload_if_absent(place, path)

    def list(self, prefix: str) -> Iterator[str]:
        """Keys of the exchange below a prefix, sorted; what is kept aside is not listed."""
        return self.shared.list(prefix)

    def remove(self, key: str) -> None:
        """Delete an object; updates never are."""
        store, place = self._place(key)
        store.remove(place)

    def _place(self, key: str) -> tuple[ObjectStore, str]:
        if key.startswith(self._root):
            return self._private, self._private_root + key.removeprefix(self._root)
        return self.shared, key


def aside_store(store: ObjectStore, private: ObjectStore, assignment: Assignment) -> ObjectStore:
    """The exchange of a silo's assignment, which keeps updates aside where they are masked.

    Refused without a private store: an update would lie unmasked beside its masked form.
    """
    if assignment.settings.aggregation.secure is None:
        return store
    if assignment.experience_storage is None:
        raise PermanentError(
            "settings.aggregation.secure: got it, and this silo has no experienceStorage, "
            "expected one: whoever reads the shared bucket would read its update unmasked"
        )
    name = assignment.environment
    return AsideStore(
        store,
        private,
        root=keys.update_root(assignment.storage.prefix, name),
        private_root=keys.masking_updates(assignment.experience_storage.prefix, name),
    )


def masking_keys(environ: Mapping[str, str]) -> list[OpeningKey]:
    """The private keys that a client was given to mask with."""
    which = "the key that masks updates (maskingSecret, or --masking-keys)"
    return keys_given(environ, ENV_MASKING_KEY, which)
