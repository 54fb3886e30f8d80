"""The owner of a prefix: the run whose results lie there, written once by its first aggregation."""

from pydantic import ValidationError

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FederationDocument, check_same_run
from hansa.core.errors import Corrupt, NotFound
from hansa.store.base import ObjectStore


def read_owner(store: ObjectStore, assignment: Assignment) -> FederationDocument | None:
    """Who owns the prefix, which must be this run; nobody before the first aggregation."""
    prefix = assignment.storage.prefix
    key = bucket_keys.federation(prefix)
    try:
        owner = FederationDocument.model_validate_json(store.get(key))
    except NotFound:
        return None
    except ValidationError:
        raise Corrupt(f"{key}: expected the owner of the prefix, got something else") from None
    check_same_run(prefix, owner.identity, assignment.identity())
    return owner
