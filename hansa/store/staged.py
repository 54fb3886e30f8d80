"""A store that stages a silo's own updates in its private store until they are published.

A client reads and writes its updates as usual. Only what `publish` is given reaches the exchange,
which is their masked form.
"""

from collections.abc import Mapping

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.core.errors import PermanentError
from hansa.crypto.sealing import OpeningKey
from hansa.store.base import ObjectStore, RedirectingStore, put_once
from hansa.store.sealed import read_keys_from


class StagedStore(RedirectingStore):
    """The exchange of a silo that masks: its own updates are kept in its private store."""

    def publish(self, key: str, data: bytes) -> bytes:
        """Write an object into the exchange itself, once; the stored bytes."""
        return put_once(self._store, key, data)

    def get_published(self, key: str) -> bytes:
        """All bytes of an object of the exchange itself."""
        return self._store.get(key)


def open_staged_store(
    store: ObjectStore, private: ObjectStore, assignment: Assignment
) -> ObjectStore:
    """The exchange of a silo's assignment, which stages updates where they are masked.

    Refused without a private store: the update would be stored unmasked beside its masked form.
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


def read_masking_keys(environ: Mapping[str, str]) -> list[OpeningKey]:
    """The private keys that a client was given to mask with."""
    which = "the key that masks updates (maskingSecret, or --masking-keys)"
    return read_keys_from(environ, ENV_MASKING_KEY, which)
