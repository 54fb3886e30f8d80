"""The strategy `none`: every environment continues from its own last update."""

from hansa.api.bucket_documents import StartAdapter
from hansa.api.status import AdapterStatus, FederationStatus

NONE = "none"


def find_own_start(status: FederationStatus, strategy: str, name: str) -> StartAdapter | None:
    """An environment's own last update, unless it has none that is newer than what all share."""
    own = _find_own(status, strategy, name)
    return StartAdapter(round=own.round, sha256=own.sha256) if own else None


def find_newest_round(status: FederationStatus, strategy: str) -> int:
    """Round of the newest adapter that a client would start from; 0: there is none."""
    own = [_find_own(status, strategy, line.name) for line in status.environments]
    shared = status.adapter.round if status.adapter else 0
    return max([shared, *(adapter.round for adapter in own if adapter)])


def _find_own(status: FederationStatus, strategy: str, name: str) -> AdapterStatus | None:
    if strategy != NONE:
        return None
    line = next((line for line in status.environments if line.name == name), None)
    shared = status.adapter.round if status.adapter else 0
    return line.adapter if line and line.adapter and line.adapter.round > shared else None
