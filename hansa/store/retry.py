"""How a store retries: the pauses between tries, and when it gives up."""

import os
from dataclasses import dataclass, field

from hansa.core.durations import backoff_seconds
from hansa.core.errors import InputError

ENV_PATIENCE = "HANSA_STORE_PATIENCE_SECONDS"
"""How long one verb tries again before the store counts as unreachable; default 60."""


def _patience() -> float:
    text = os.environ.get(ENV_PATIENCE, "60")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{ENV_PATIENCE}: got {text!r}, expected seconds, 0 or more")
    return seconds


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How long a verb waits for an answer, and how often it asks again."""

    patience_seconds: float = field(default_factory=_patience)
    """Total time of one verb, pauses included; then the store is unreachable."""
    connect_seconds: float = 5.0
    """Time for one connection to open."""
    read_seconds: float = 30.0
    """Silence on an open connection that counts as a failure."""
    first_pause_seconds: float = 0.2
    """Longest first pause; the bound doubles with every try."""
    longest_pause_seconds: float = 10.0
    """Where the doubling ends."""

    def pause_seconds(self, tries: int, share: float) -> float:
        """Pause after failed tries; the random share is jitter between clients."""
        return backoff_seconds(tries, share, self.first_pause_seconds, self.longest_pause_seconds)
