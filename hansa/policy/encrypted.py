"""Stores that are reached without encryption: whoever is on the way reads what is sent."""

import re

from hansa.spec import FederationSpec
from hansa.storage import Storage

_HERE = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?/?")


def warnings(spec: FederationSpec) -> list[str]:
    """A sentence for each endpoint that is not this machine's own and has no https."""
    named = {"spec.storage": spec.storage} | {
        f"spec.environments[{index}].experienceStorage": environment.experience_storage
        for index, environment in enumerate(spec.environments)
    }
    return [
        f"{path}.s3.endpoint: {storage.s3.endpoint} is not encrypted: whoever is on the way reads "
        "what is sent; https is"
        for path, storage in named.items()
        if storage and _is_open(storage)
    ]


def _is_open(storage: Storage) -> bool:
    endpoint = storage.s3.endpoint or ""
    return endpoint.startswith("http://") and not _HERE.fullmatch(endpoint)
