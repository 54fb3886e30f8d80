"""Documents that another party wrote: read up to a bound, and checked before they are believed."""

from typing import TypeVar

from pydantic import ValidationError

from hansa.api.bucket_documents import PersonalManifest, TaskTallies
from hansa.api.spec import Model
from hansa.core.errors import Corrupt, Garbled
from hansa.store.base import ObjectStore
from hansa.validation.json_size import CROWDED, is_crowded
from hansa.validation.messages import first_misfit

Document = TypeVar("Document", bound=Model)

MOST_BYTES = 4 * 2**20
"""The longest are evaluations, with some 40 bytes for each of their tasks."""

_BY_TASK = (TaskTallies, PersonalManifest)
"""A silo's own, in its private store, which name each of up to 100,000 tasks."""


def read(kind: type[Document], store: ObjectStore, key: str) -> Document:
    """A document of the bucket, NotFound, or Garbled: a silo may put anything under its own keys.

    It is read as a range, which no checksum of the store covers: this is for showing what others
    did, and nothing is computed from it.
    """
    data = store.get_range(key, 0, MOST_BYTES + 1)
    return _checked(kind, key, data, len(data))


def read_whole(kind: type[Document], store: ObjectStore, key: str) -> Document:
    """The same with the store's checksum, for what figures are computed from; one request more."""
    size = store.size(key)
    return _checked(kind, key, store.get(key) if size <= MOST_BYTES else b"", size)


def _checked(kind: type[Document], key: str, data: bytes, size: int) -> Document:
    if size > MOST_BYTES:
        raise Garbled(f"{key}: got more than {MOST_BYTES} bytes, expected no more")
    if not issubclass(kind, _BY_TASK) and is_crowded(data):
        raise Garbled(f"{key}: got {CROWDED}")
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        raise Garbled(f"{key}: got no {kind.__name__} that this version can read") from None


def parse(kind: type[Document], key: str, data: bytes) -> Document:
    """A document of ours; one that cannot be read was damaged, or written by a newer version."""
    if is_crowded(data):
        raise Corrupt(f"{key}: got {CROWDED}")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise Corrupt(f"{key}: {first_misfit(error)}") from None
