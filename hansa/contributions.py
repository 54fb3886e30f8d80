"""Who brought what: what a merge is worth to the others with a silo's update and without it.

The utility U of a set of updates is the success of their merge on a silo's validation tasks. Up to
eight silos the value of one is U(all) - U(all but it), leave-one-out. Above, it is Shapley's value
by a sampled order of the silos and its reverse: what the merge gains when the silo's turn comes.
All adapters play the same tasks with the same random numbers, so values are differences by task.

Limits: figures are each silo's own word. Two silos that bring the same are worth nothing each by
leave-one-out, for either stands in for the other.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hansa.base import Model, Sha256
from hansa.intervals import Z95, Interval

if TYPE_CHECKING:
    from hansa.spec import FederationSpec

FEWEST = 3
"""Silos: of two, either is simply the other's merge."""
MOST = 32
"""Silos that can be told apart in one report and one status."""
MOST_LEFT_OUT = 8
"""Silos up to which each is left out once; above, orders are sampled."""
DIGITS = 4
"""Decimals of what is reported."""

Method = Literal["leave-one-out", "shapley"]
Names = Annotated[list[Annotated[str, Field(max_length=30)]], Field(max_length=MOST)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Signed = Annotated[float, Field(ge=-1, le=1)]
Vote = tuple[
    Annotated[int, Field(ge=0, le=99)],
    Annotated[int, Field(ge=-(10**DIGITS), le=10**DIGITS)],
    Annotated[int, Field(ge=0, le=10**DIGITS)],
    Annotated[int, Field(ge=1, le=9999)],
]
"""Index of an environment, its value and that value's standard error in 1/10,000, and rounds."""
Votes = Annotated[list[Vote], Field(max_length=MOST)]


class Subset(Model):
    """An adapter that some of a round's updates were merged to."""

    members: Names
    """Environments whose updates are in it, sorted."""
    sha256: Sha256
    """Digest of its tensors."""
    size: Annotated[int, Field(ge=0, le=5 * 2**30)]
    """Their length in bytes."""


class Subsets(Model):
    """The merges of a round that silos play, to say what each update is worth."""

    method: Method
    """How values follow from them."""
    orders: Annotated[list[Names], Field(max_length=2)] = Field(default_factory=list)
    """For `shapley`: the orders in which silos are added."""
    adapters: Annotated[list[Subset], Field(max_length=2 * MOST)]
    """Each lies under its place in this list until the next round is merged."""


class Worth(Model):
    """What one silo's updates are worth to another, as a mean over rounds."""

    value: Signed
    """Success that the merge gains by them; below 0 it loses."""
    error: Annotated[float, Field(ge=0, le=1)]
    """Standard error of that, over tasks."""
    rounds: Annotated[int, Field(ge=1, le=9999)]
    """Rounds that it is the mean of."""

    def vote(self, index: int) -> Vote:
        """The same in a report, which names environments by index."""
        unit = 10**DIGITS
        return index, round(self.value * unit), round(self.error * unit), self.rounds


class Measured(Model):
    """What one silo has found the others' updates to be worth."""

    round: Count
    """Newest adapter that it has measured."""
    worth: Annotated[dict[str, Worth], Field(max_length=MOST)]
    """By environment."""


Sums = dict[str, dict[str, tuple[Annotated[float, Field(ge=-1e6, le=1e6)], Count]]]
"""By environment and task: the sum of differences, and rounds behind it."""


class TaskSums(Model):
    """A silo's measurements task by task, in its private store, of all rounds so far."""

    kind: Literal["contributions"] = "contributions"
    """What the document is."""
    program: str
    """Version of the program that wrote it."""
    fingerprint: Sha256
    """Digest of `inputs`."""
    inputs: dict[str, Any]
    """What it was computed from."""
    method: Method
    """How values were made; those of another method are not added to."""
    sums: Sums
    """What each environment was worth on each task, by the task's id."""


def check(spec: "FederationSpec") -> None:
    """Refuse what cannot be measured, or would give away what the spec protects."""
    evaluation, strategy = spec.evaluation, spec.aggregation.strategy
    if evaluation.contributions is None:
        return
    count = len(spec.environments)
    if not FEWEST <= count <= MOST:
        raise ValueError(
            f"evaluation.contributions: got a value with {count} environments, expected "
            f"{FEWEST} to {MOST} of them, or no value"
        )
    if strategy == "none":
        raise ValueError(
            "evaluation.contributions: got a value, and with aggregation.strategy none nothing is "
            "merged, expected another strategy or no value"
        )
    _check_protected(spec)
    if not evaluation.chosen_by(guarded=True):
        raise ValueError(
            "evaluation.validationTasks: got 0, by which evaluation.contributions measures "
            "nothing, expected at least 1 or none given"
        )


def _check_protected(spec: "FederationSpec") -> None:
    """Whoever has the merge with an update and the one without it can tell the update."""
    remote = next((e.name for e in spec.environments if e.member), None)
    protected = {
        "spec.privacy no silo may tell more figures than its budget pays for": spec.privacy,
        "aggregation.sealTo nobody but the aggregator may learn an update, which the merges with "
        "and without it give away": spec.aggregation.seal_to,
        "aggregation.secure nobody may learn an update, which the merges with and without it give "
        "away": spec.aggregation.secure,
        f"environments[{remote}].member the silo's owner has not agreed that the others learn its "
        "update, which the merges with and without it give away": remote,
    }
    for why, is_set in protected.items():
        if is_set:
            raise ValueError(
                f"evaluation.contributions: got a value, and with {why}, expected no value"
            )


# -- which merges are played ----------------------------------------------------------------------


def method(environments: int) -> Method:
    """How a federation of that size measures."""
    return "leave-one-out" if environments <= MOST_LEFT_OUT else "shapley"


def orders(members: Sequence[str], seed: int, round_: int) -> list[list[str]]:
    """A random order of the silos and its reverse: who comes early in one comes late in the other,
    which makes the mean of both less noisy than two draws."""
    drawn = sorted(members)
    random.Random(f"contributions/{seed}/{round_}").shuffle(drawn)
    return [drawn, drawn[::-1]]


def subsets(members: Sequence[str], chosen: Sequence[Sequence[str]]) -> list[list[str]]:
    """Sets of updates to merge, each once: all but one, or what comes first in the orders given.

    All of them and none of them are no part of it: those adapters are there already.
    """
    every = sorted(members)
    wanted = {tuple(name for name in every if name != left) for left in every}
    if chosen:
        wanted = {
            tuple(sorted(order[:length])) for order in chosen for length in range(1, len(order))
        }
    return [list(each) for each in sorted(wanted, key=lambda each: (len(each), each)) if each]


def played_by(name: str, made: Subsets) -> list[Subset]:
    """What a silo plays of them; by leave-one-out nobody measures itself."""
    if made.method == "shapley":
        return list(made.adapters)
    every = {member for each in made.adapters for member in each.members}
    return [each for each in made.adapters if every - set(each.members) != {name}]


# -- what follows from them -----------------------------------------------------------------------

Utility = Callable[[frozenset[str]], float]
"""Success of the merge of some updates."""


def leave_one_out(members: Sequence[str], utility: Utility, own: str = "") -> dict[str, float]:
    """What the merge of all loses without each; who measures leaves itself out."""
    every = frozenset(members)
    others = sorted(every - {own})
    return {name: utility(every) - utility(every - {name}) for name in others}


def shapley(chosen: Sequence[Sequence[str]], utility: Utility) -> dict[str, float]:
    """What each adds when its turn comes, as a mean over orders.

    Together the values are U(all) - U(none) whatever the orders; with all orders they are exact.
    """
    values: dict[str, float] = {}
    for order in chosen:
        for place, name in enumerate(order):
            with_it, before = frozenset(order[: place + 1]), frozenset(order[:place])
            gained = utility(with_it) - utility(before)
            values[name] = values.get(name, 0.0) + gained / len(chosen)
    return dict(sorted(values.items()))


def add(before: Sums, values: Mapping[str, Mapping[str, float]]) -> Sums:
    """The sums with one more round, given by task and environment."""
    sums: Sums = {name: dict(tasks) for name, tasks in before.items()}
    for task, by_name in values.items():
        for name, value in by_name.items():
            tasks = sums.setdefault(name, {})
            total, rounds = tasks.get(task, (0.0, 0))
            tasks[task] = (round(total + value, 6), rounds + 1)
    return {name: dict(sorted(sums[name].items())) for name in sorted(sums)}


def worth(tasks: Mapping[str, tuple[float, int]]) -> Worth | None:
    """The mean over tasks of their means over rounds, and how sure it is.

    Rounds play the same tasks, so tasks are what is independent. Agresti and Min's two pseudo-tasks
    of opposite outcome keep the error of few tasks, or of equal ones, from being nothing.
    """
    means = [total / rounds for total, rounds in tasks.values() if rounds]
    if not means:
        return None
    value = math.fsum(means) / len(means)
    counted = len(means) + 2
    squares = math.fsum(mean * mean for mean in means) + 1 - math.fsum(means) ** 2 / counted
    return Worth(
        value=round(min(1.0, max(-1.0, value)), DIGITS),
        error=round(min(1.0, math.sqrt(max(0.0, squares)) / counted), DIGITS),
        rounds=min(9999, max(rounds for _, rounds in tasks.values())),
    )


def to_others(name: str, measured: Mapping[str, Measured]) -> tuple[Interval, int] | None:
    """What a silo is worth to the others, with 95 % limits, and in how many rounds that showed."""
    votes = [
        each.worth[name]
        for who, each in sorted(measured.items())
        if who != name and name in each.worth
    ]
    if not votes:
        return None
    value = math.fsum(each.value for each in votes) / len(votes)
    half = Z95 * math.sqrt(math.fsum(each.error**2 for each in votes)) / len(votes)
    limits = Interval(max(-1.0, value - half), value, min(1.0, value + half))
    return limits, max(each.rounds for each in votes)
