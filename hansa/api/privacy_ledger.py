"""The ledger: what a silo has given away of one record, release by release, in its private store.

A silo has one, for all runs; the spec bounds what one run gives away, the owner's budget all of it.

An entry is written before anything leaves, so a crash in between costs budget and never privacy.
Training and held-out tasks are different records, and no record pays for both; where a file of
demonstrations may hold held-out tasks, costs add up.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from hansa.api import dp_accountant
from hansa.api.dp_accountant import Costs
from hansa.api.privacy import PrivacyCost, Unit
from hansa.core.canonical import fingerprint
from hansa.core.model import Model, Sha256

Purpose = Literal["training", "evaluation"]


class Budget(Model):
    """What a silo's owner allows in all runs, as `budget.json` beside the ledger."""

    kind: Literal["budget"] = "budget"
    """What the document is."""
    unit: Unit = "task"
    """What is protected; `task` protects more."""
    epsilon: Annotated[float, Field(gt=0, le=1000)]
    """The most that may be given away of one unit, in all runs together."""
    delta: Annotated[float, Field(gt=0, le=0.1)]
    """Chance with which it may not hold."""


class LedgerEntry(PrivacyCost):
    """One release: a round's update, or how an adapter did on held-out tasks."""

    kind: Literal["release"] = "release"
    """What the document is."""
    prefix: str
    """The run's place in the private store."""
    environment: str
    """Silo it belongs to."""
    joint: bool = False
    """Whether a record may be in both training and evaluation: demonstrations came from a file."""
    purpose: Purpose
    """What was released."""
    round: Annotated[int, Field(ge=0)]
    """Round of the update, or of the adapter that was evaluated."""
    fingerprint: Sha256
    """Digest of what it was computed from."""
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Most that one trajectory's gradient counts; an evaluation has none."""

    @property
    def name(self) -> str:
        """Its file, without an ending: another question, or one of another run, has another."""
        digest = fingerprint({"prefix": self.prefix, "fingerprint": self.fingerprint})
        return f"{self.purpose}-{self.round:05d}-{digest[:16]}"

    @property
    def costs(self) -> Costs:
        """Its own."""
        step = dp_accountant.step_costs(self.sampling_rate, self.noise_multiplier)
        return dp_accountant.sum_costs([(step, self.steps)])


def epsilon(entries: Sequence[LedgerEntry], delta: float) -> float:
    """What was given away of the worst record."""
    purposes: tuple[Purpose, ...] = ("training", "evaluation")
    paid = [
        dp_accountant.sum_costs([(entry.costs, 1) for entry in entries if entry.purpose == purpose])
        for purpose in purposes
    ]
    if any(entry.joint for entry in entries):
        paid = [dp_accountant.sum_costs([(costs, 1) for costs in paid])]
    return max(dp_accountant.epsilon(costs, delta) for costs in paid)
