"""Who masks against whom in a round, and again after somebody dropped out."""

from collections.abc import Iterable

from hansa.secure import Masking
from hansa.spec import Environment, FederationSpec


def first(spec: FederationSpec, there: Iterable[Environment]) -> Masking | None:
    """The masks that a round opens with: all against all; None: the spec asks for none."""
    if spec.aggregation.secure is None:
        return None
    keys = {e.name: e.masking_key for e in there if e.masking_key}
    return Masking(peers=dict(sorted(keys.items())))
