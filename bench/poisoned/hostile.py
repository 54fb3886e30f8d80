"""A client that is told to send harmful updates, for bench/poisoned/run.py; no part of the product.

It plays, trains and reports as every client does. Between training and sending it changes its
adapter, and describes what it sends truly but for the norm, where it names the honest one: only a
look at the values, or at the other members, can tell.
"""

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.assignment import Assignment
from hansa.runtime import program
from hansa.runtime.warm_parent import serve
from hansa.store.base import ObjectStore
from hansa_client import __main__ as client
from hansa_client import learners, seeds, send

ENV_ATTACK = "HANSA_BENCH_ATTACK"
"""What hostile clients do: a name of ATTACKS."""
ENV_HOSTILE = "HANSA_BENCH_HOSTILE"
"""Environments whose clients are hostile, with commas between."""


def nan(start: Tensors, trained: Tensors, seed: int) -> Tensors:
    """The honest adapter with one value that is no number."""
    made = {name: array.copy() for name, array in trained.items()}
    made[min(made)].flat[0] = np.nan
    return made


def long(start: Tensors, trained: Tensors, seed: int) -> Tensors:
    """The honest change, a thousand times as long."""
    return {name: start[name] + 1000 * (trained[name] - start[name]) for name in start}


def flipped(start: Tensors, trained: Tensors, seed: int) -> Tensors:
    """The honest change the other way: as long as any, and all its training undone."""
    return {name: start[name] - (trained[name] - start[name]) for name in start}


def noise(start: Tensors, trained: Tensors, seed: int) -> Tensors:
    """Normal noise in place of the change, ten times as long as it."""
    dice = seeds.make_generator(seed)
    drawn = {name: dice.standard_normal(start[name].shape) for name in sorted(start)}
    length = float(np.sqrt(sum(np.sum(array**2) for array in drawn.values())))
    scale = 10 * lora.distance(trained, start) / length
    return {name: (start[name] + scale * drawn[name]).astype(np.float32) for name in start}


def huge(start: Tensors, trained: Tensors, seed: int) -> Tensors:
    """Numbers still, of the honest signs, and beyond what any sum of weights bears."""
    return {name: np.copysign(np.float32(1e30), array) for name, array in trained.items()}


def turned(start: Tensors, trained: Tensors, seed: int) -> Tensors:
    """The honest change of the weights to the last bit, by factors that undo those of others."""
    return {name: -array for name, array in trained.items()}


ATTACKS: dict[str, Callable[[Tensors, Tensors, int], Tensors]] = {
    "flipped": flipped,
    "long": long,
    "noise": noise,
    "nan": nan,
    "huge": huge,
    "turned": turned,
    "claims": flipped,
}
CLAIMS = "claims"
"""The attack that also says it has trained on more episodes than there are."""


class Hostile:
    """Stands between the client's training and its sending."""

    def __init__(self) -> None:
        self._start: Tensors = {}
        self._norm = 0.0
        self._learner, self._store, self._commit = learners.get, send.store_adapter, send.commit

    def take_over(self) -> None:
        """Put itself in place of the functions that it passes on to."""
        vars(learners)["get"] = self.learner
        vars(send).update(store_adapter=self.store_adapter, commit=self.commit)

    def learner(self, *which: Any) -> Any:
        """The real learner; the adapter that it starts from is remembered."""
        learn = self._learner(*which)

        def remembering(base: Any, lesson: Any, progress: Any) -> Any:
            self._start = lesson.start
            return learn(base, lesson, progress)

        return remembering

    def store_adapter(self, store: ObjectStore, assignment: Assignment, tensors: Tensors) -> bytes:
        """Store the changed adapter in place of the honest one."""
        if assignment.environment not in os.environ.get(ENV_HOSTILE, "").split(","):
            return self._store(store, assignment, tensors)
        self._norm = lora.distance(tensors, self._start)
        seed = seeds.derive(assignment.seed, assignment.environment, assignment.round, "attack")
        attack = ATTACKS[os.environ[ENV_ATTACK]]
        return self._store(store, assignment, attack(self._start, tensors, seed))

    def commit(
        self, store: ObjectStore, assignment: Assignment, update: send.TrainedUpdate
    ) -> send.Committed:
        """Commit it with the norm that an honest update would have."""
        if self._norm:
            update = dataclasses.replace(update, norm=self._norm)
        if self._norm and os.environ[ENV_ATTACK] == CLAIMS:
            counts = update.counts.model_copy(update={"kept": 2**53, "succeeded": 2**53})
            update = dataclasses.replace(update, counts=counts)
        return self._commit(store, assignment, update)


if __name__ == "__main__":
    Hostile().take_over()
    client.import_slow_modules()
    serve(lambda: program.run_assignment(client.PROGRAM, client.work))
    sys.exit(0)
