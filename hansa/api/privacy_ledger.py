"""The ledger: what a silo has given away of one record, release by release, in its private store.

An entry is written before anything leaves, so a crash in between costs budget and never privacy.
Training and held-out tasks are different records, and no record pays for both; where a file of
demonstrations may hold held-out tasks, costs add up.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from hansa.api import dp_accountant
from hansa.api.dp_accountant import Costs
from hansa.api.privacy import Privacy, Unit
from hansa.core.model import Model, Sha256

Purpose = Literal["training", "evaluation"]


class Budget(Model):
    """What a silo's owner allows, as `budget.json` beside the ledger; the lower bound holds."""

    kind: Literal["budget"] = "budget"
    """What the document is."""
    unit: Unit = "task"
    """What is protected; `task` protects more."""
    epsilon: Annotated[float, Field(gt=0, le=1000)]
    """The most that may be given away of one unit."""
    delta: Annotated[float, Field(gt=0, le=0.1)]
    """Chance with which it may not hold."""


class LedgerEntry(Model):
    """One release: a round's update, or how an adapter did on held-out tasks."""

    kind: Literal["release"] = "release"
    """What the document is."""
    environment: str
    """Silo it belongs to."""
    purpose: Purpose
    """What was released."""
    round: Annotated[int, Field(ge=0)]
    """Round of the update, or of the adapter that was evaluated."""
    fingerprint: Sha256
    """Digest of what it was computed from."""
    unit: Unit
    """What is protected."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    """Chance with which a unit takes part in a step."""
    noise_multiplier: Annotated[float, Field(gt=0)]
    """Noise of a step, in units of what one record can change."""
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Most that one trajectory's gradient counts; an evaluation has none."""
    steps: Annotated[int, Field(ge=1)]
    """Steps."""
    accountant: str = dp_accountant.NAME
    """How costs and epsilon were computed."""
    epsilon: Annotated[float, Field(ge=0)]
    """What all releases of this purpose have cost with this one, at `delta`."""
    delta: Annotated[float, Field(gt=0, le=1)]
    """Chance with which it may not hold."""

    @property
    def name(self) -> str:
        """Its file, without an ending."""
        return release(self.purpose, self.round)

    @property
    def costs(self) -> Costs:
        """Its own."""
        step = dp_accountant.step_costs(self.sampling_rate, self.noise_multiplier)
        return dp_accountant.total([(step, self.steps)])


def release(purpose: Purpose, round_: int) -> str:
    """Name of a release: one for each round's update, and one for each adapter evaluated."""
    return f"{purpose}-{round_:05d}"


def epsilon(entries: Sequence[LedgerEntry], delta: float, *, joint: bool) -> float:
    """What was given away of the worst record.

    `joint`: one record may be in both training and evaluation.
    """
    paid = [_sum([e for e in entries if e.purpose == purpose]) for purpose in _PURPOSES]
    if joint:
        paid = [dp_accountant.total([(costs, 1) for costs in paid])]
    return max(dp_accountant.epsilon(costs, delta) for costs in paid)


_PURPOSES: tuple[Purpose, ...] = ("training", "evaluation")


def _sum(entries: Sequence[LedgerEntry]) -> Costs:
    return dp_accountant.total([(entry.costs, 1) for entry in entries])


def bound(privacy: Privacy, own: Budget | None) -> tuple[float, float]:
    """The epsilon and delta that hold: the lower of the spec's and the silo's own."""
    if own is None:
        return privacy.epsilon, privacy.delta
    return min(privacy.epsilon, own.epsilon), min(privacy.delta, own.delta)
