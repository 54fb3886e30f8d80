"""What a tracker gets: a run of the federation, one for each silo, and their figures."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

State = Literal["running", "finished", "failed"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One figure of one round."""

    metric: str
    """Name, as success or seconds.train."""
    step: int
    """Its round."""
    value: float
    """A finite number."""
    time: datetime | None = None
    """When the round ended, if known."""


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """The federation as a whole, or one silo's part in it."""

    key: str
    """Unique identity, the same at every export."""
    name: str
    """Display name."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Settings by their path, bounded in number and length, without secrets."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Current facts: the next export may replace them."""
    points: tuple[Point, ...] = ()
    """Figures by metric and round, each pair once; later exports only add some."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """All that is exported of a run: numbers and settings, no text of an episode."""

    federation: TrackedRun
    """The parent run."""
    silos: tuple[TrackedRun, ...] = ()
    """Its children, sorted by name."""
    state: State = "running"
    """Its state."""
    started_at: datetime | None = None
    """When its first round opened, if known."""
    ended_at: datetime | None = None
    """When its last round ended; absent while it runs."""

    @property
    def runs(self) -> tuple[TrackedRun, ...]:
        """The parent and its children."""
        return (self.federation, *self.silos)

    def compute_digest(self) -> str:
        """The same for the same data: what a finished export is marked with."""
        return hashlib.sha256(repr(self).encode()).hexdigest()
