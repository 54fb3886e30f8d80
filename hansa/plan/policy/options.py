"""Changed options of a world: they decide what a silo's client does, so an Event names them."""

from typing import Any

from hansa.api.bucket_documents import fingerprint
from hansa.api.immutable_fields import OPTIONS
from hansa.api.spec import FederationSpec


def compute_digests(spec: FederationSpec, accepted: dict[str, Any]) -> dict[str, str]:
    """What the status remembers of all options; of environments that left, too."""
    now = {e.name: fingerprint(e.options) for e in spec.environments}
    return {**accepted.get(OPTIONS, {}), **now}


def list_changed(spec: FederationSpec, accepted: dict[str, Any]) -> list[str]:
    """Environments whose options are other ones than those last accepted, sorted."""
    before = accepted.get(OPTIONS, {})
    now = compute_digests(spec, accepted)
    return sorted(name for name in before if before[name] != now[name])
