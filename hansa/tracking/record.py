"""What a tracker is given: a run of the federation, one for each silo, and their figures."""

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
    """Round that it tells of."""
    value: float
    """A finite number."""
    time: datetime | None = None
    """When the round ended; absent where nobody knows."""


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """The federation as a whole, or one silo's part in it."""

    key: str
    """Identity: the same at every export, and no other run has it."""
    name: str
    """What people read."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Settings by their path, bounded in number and length, without secrets."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What holds now: the next export may replace it."""
    points: tuple[Point, ...] = ()
    """Figures by metric and round, each pair once; more come, and none is taken back."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """All that is exported of a run: numbers and settings, and no text that an episode has."""

    federation: TrackedRun
    """The parent run."""
    silos: tuple[TrackedRun, ...] = ()
    """Its children, sorted by name."""
    state: State = "running"
    """How far it is."""
    started_at: datetime | None = None
    """When its first round opened, as far as that is known."""
    ended_at: datetime | None = None
    """When its last round ended; absent while it runs."""

    @property
    def runs(self) -> tuple[TrackedRun, ...]:
        """The parent and its children."""
        return (self.federation, *self.silos)

    def digest(self) -> str:
        """The same for the same data: what a finished export is marked with."""
        return hashlib.sha256(repr(self).encode()).hexdigest()
