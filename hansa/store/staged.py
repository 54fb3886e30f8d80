"""A store that stages a silo's own updates in its private store until they are published.

A client works as it always does, and finds its updates where it put them. Nothing of them reaches
the exchange but what `publish` is given, which is their masked form.
"""

from collections.abc import Mapping

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.core.errors import PermanentError
from hansa.crypto.sealing import OpeningKey
from hansa.store.base import ForwardingStore, ObjectStore, put_once
from hansa.store.sealed import keys_given


class StagedStore(ForwardingStore):
    """The exchange as a silo sees it that masks: below its own updates is its private store."""

    def __init__(
        self, shared: ObjectStore, private: ObjectStore, *, root: str, private_root: str
    ) -> None:
        """`root` is where the silo's updates are published, `private_root` where they wait."""
        super().__init__(shared)
        self._private = private
        self._root = root
        self._private_root = private_root

    def _resolve(self, key: str) -> tuple[ObjectStore, str]:
        if key.startswith(self._root):
            return self._private, self._private_root + key.removeprefix(self._root)
        return self._store, key

    def publish(self, key: str, data: bytes) -> bytes:
        """Write an object into the exchange itself, once; the stored bytes."""
        return put_once(self._store, key, data)

    def get_published(self, key: str) -> bytes:
        """All bytes of an object of the exchange itself."""
        return self._store.get(key)


def staged_store(store: ObjectStore, private: ObjectStore, assignment: Assignment) -> ObjectStore:
    """The exchange of a silo's assignment, which stages updates where they are masked.

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
    return StagedStore(
        store,
        private,
        root=bucket_keys.update_root(assignment.storage.prefix, name),
        private_root=bucket_keys.masking_updates(assignment.experience_storage.prefix, name),
    )


def masking_keys(environ: Mapping[str, str]) -> list[OpeningKey]:
    """The private keys that a client was given to mask with."""
    which = "the key that masks updates (maskingSecret, or --masking-keys)"
    return keys_given(environ, ENV_MASKING_KEY, which)
