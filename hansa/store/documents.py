"""Documents of the bucket: read up to a bound, and checked before they are used."""

from typing import TypeVar

from pydantic import ValidationError

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FederationDocument, TaskResult, check_same_run
from hansa.api.spec import Model
from hansa.core.errors import Corrupt, InvalidDocument, NotFound
from hansa.store.base import ObjectStore
from hansa.validation.json_size import CROWDED, is_crowded
from hansa.validation.messages import describe_first_misfit

Document = TypeVar("Document", bound=Model)

MOST_BYTES = 4 * 2**20
"""The longest are evaluations, with some 40 bytes for each of their tasks."""


def read_document(kind: type[Document], store: ObjectStore, key: str) -> Document:
    """A document of another party, to show it; NotFound, or Garbled where it is invalid.

    A silo may put anything under its own keys. The document is read as a range, which no checksum
    of the store covers, so nothing may be computed from it.
    """
    data = store.get_range(key, 0, MOST_BYTES + 1)
    return _parse_foreign(kind, key, data, len(data))


def read_with_checksum(kind: type[Document], store: ObjectStore, key: str) -> Document:
    """The same with the store's checksum, to compute figures from it; takes one more request."""
    size = store.size(key)
    return _parse_foreign(kind, key, store.get(key) if size <= MOST_BYTES else b"", size)


def _parse_foreign(kind: type[Document], key: str, data: bytes, size: int) -> Document:
    if size > MOST_BYTES:
        raise InvalidDocument(f"{key}: got more than {MOST_BYTES} bytes, expected no more")
    # A silo's own results name each of up to 100,000 tasks.
    if not issubclass(kind, TaskResult) and is_crowded(data):
        raise InvalidDocument(f"{key}: got {CROWDED}")
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        raise InvalidDocument(f"{key}: got no {kind.__name__} that this version can read") from None


def parse(kind: type[Document], key: str, data: bytes) -> Document:
    """A document of our own; one that cannot be read was damaged, or a newer version wrote it."""
    if is_crowded(data):
        raise Corrupt(f"{key}: got {CROWDED}")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise Corrupt(f"{key}: {describe_first_misfit(error)}") from None


def read_owner(store: ObjectStore, assignment: Assignment) -> FederationDocument | None:
    """The run that owns the prefix, which must be this one; None before the first aggregation."""
    prefix = assignment.storage.prefix
    key = bucket_keys.federation(prefix)
    try:
        owner = parse(FederationDocument, key, store.get(key))
    except NotFound:
        return None
    check_same_run(assignment.place, owner.identity, assignment.identity())
    return owner
