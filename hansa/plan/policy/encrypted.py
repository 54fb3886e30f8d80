"""Stores and servers reached without encryption: whoever is on the way reads what is sent."""

import re

from hansa.api.spec import FederationSpec
from hansa.api.storage import Storage

_HERE = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/.*)?")


def warnings(spec: FederationSpec) -> list[str]:
    """A sentence for each endpoint that is not this machine's own and has no https."""
    named = {"spec.storage.s3.endpoint": _address(spec.storage)}
    for index, environment in enumerate(spec.environments):
        path, turns = f"spec.environments[{index}]", environment.endpoint
        named[f"{path}.experienceStorage.s3.endpoint"] = _address(environment.experience_storage)
        named[f"{path}.endpoint.url"] = turns.url if turns else ""
    return [
        f"{path}: {address} is not encrypted: whoever is on the way reads what is sent; https is"
        for path, address in named.items()
        if address.startswith("http://") and not _HERE.fullmatch(address)
    ]


def _address(storage: Storage | None) -> str:
    return (storage.s3.endpoint or "") if storage else ""
