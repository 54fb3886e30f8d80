"""A store that seals a silo's experience to the silo's own key, so that nobody else can read it.

Everything that Jobs write below `experience/<environment>/` and into the privacy ledger is sealed;
the owner's `budget.json` is not. With a key all other objects there must be sealed, so experience
is sealed from a run's first round on, or never.

Limits: names, lengths and times of objects stay visible, and objects can be deleted. Then a round
is played again with new noise or masks, so `spec.privacy` and `aggregation.secure` need a store of
the silo's own.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.core.errors import KeyMissing
from hansa.core.logs import EXPERIENCE
from hansa.crypto import sealing
from hansa.crypto.sealing import OpeningKey, OwnKey
from hansa.store.base import ObjectStore
from hansa.store.sealed import UnsealingStore, read_keys_from

ENV_EXPERIENCE_KEY = f"{EXPERIENCE}KEY"
"""File of a silo's own private keys, newest first: that one seals, and all of them open."""


class ExperienceStore(UnsealingStore):
    """A store with a silo's experience, sealed on its way in and opened on its way out.

    Without keys objects are read and written unsealed, and sealed ones are refused.
    """

    def __init__(
        self, store: ObjectStore, prefix: str, environment: str, own: Sequence[OpeningKey]
    ) -> None:
        """`prefix` is the private one."""
        self._own = [OwnKey(private=key.private) for key in own]
        super().__init__(store, prefix, self._own)
        self._root = bucket_keys.experience_root(prefix, environment)
        self._ledger = bucket_keys.privacy_root(environment)
        self._budget = bucket_keys.privacy_budget(environment)

    def check(self) -> None:
        """Refuse keys that do not open the existing objects, before anything else is written."""
        first = next((key for key in self._store.list(self._root) if self._is_private(key)), None)
        if first:
            self.get_range(first, 0, 1)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write an object once; Precondition when it exists already."""
        if self._is_private(key) and self._keys:
            data = sealing.seal(self._own[0], key, data)
        self._store.put_if_absent(key, data)

    def upload_if_absent(self, key: str, path: Path) -> str:
        """Write a file as an object once, sealed a little at a time; the file's own sha256."""
        if not self._is_private(key) or not self._keys:
            return self._store.upload_if_absent(key, path)
        size = path.stat().st_size
        with path.open("rb") as plain, NamedTemporaryFile(prefix="hansa-") as sealed:
            sealed.writelines(sealing.seal_pieces(self._own[0], key, size, plain.read))
            sealed.flush()
            self._store.upload_if_absent(key, Path(sealed.name))
            plain.seek(0)
            return hashlib.file_digest(plain, "sha256").hexdigest()

    def _is_private(self, key: str) -> bool:
        return key.startswith((self._root, self._ledger)) and key != self._budget

    def _is_sealed(self, key: str) -> bool:
        if not self._is_private(key):
            return False
        if not self._keys and self._looks_sealed(key):
            raise KeyMissing(
                f"{key}: it is sealed to the silo's own key, and {ENV_EXPERIENCE_KEY} names no "
                "file with it",
                hint=f"{ENV_EXPERIENCE_KEY} is a variable, or stands in the silo's part of "
                "--credentials; on a cluster experienceKeySecret names a Secret",
            )
        return bool(self._keys)


def open_experience_store(
    private: ObjectStore, assignment: Assignment, environ: Mapping[str, str]
) -> ObjectStore:
    """The private store of a silo's assignment, which seals where the silo has a key."""
    which = "the silo's own key (experienceKeySecret, or --credentials)"
    is_given = environ.get(ENV_EXPERIENCE_KEY)
    own = read_keys_from(environ, ENV_EXPERIENCE_KEY, which) if is_given else []
    prefix = assignment.private_storage.prefix
    store = ExperienceStore(private, prefix, assignment.environment, own)
    store.check()
    return store if own else private
