"""Optimizer state: AdamW's moments of one round kept for the next, in the silo's private store.

Moments are averages of gradients of the silo's own trajectories, so they are as private as those.
They take twice the space of an adapter, and those of every round are kept: a guard may roll back
to the adapter of any round, and the next round then needs the state that belongs to it. Where it
was deleted from the bucket, an older one is used, or none.
"""

from typing import TYPE_CHECKING

from safetensors import SafetensorError
from safetensors.numpy import load, save

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.core.errors import Corrupt
from hansa.store.base import ObjectStore, put_once

if TYPE_CHECKING:
    from hansa_client.training.adamw import State


def find(store: ObjectStore, assignment: Assignment) -> "State | None":
    """The state that belongs to the start adapter, where the spec says to keep it.

    It is that of the adapter's round, or of the newest before it in which this silo has trained.
    States of later rounds belong to adapters that were rolled back, or never merged.
    """
    if assignment.settings.training.optimizer_state == "fresh":
        return None
    place = assignment.private_storage
    present = set(store.list(bucket_keys.experience_root(place.prefix, assignment.environment)))
    for round_ in range(assignment.start.round, 0, -1):
        key = _key(assignment, round_)
        if key in present:
            try:
                return load(store.get(key))
            except SafetensorError:
                wrong = f"{key}: expected an optimizer's state, got something else"
                raise Corrupt(wrong) from None
    return None


def store(store: ObjectStore, assignment: Assignment, state: "State") -> None:
    """Store this round's state; called before its adapter is stored, which then implies it."""
    if assignment.settings.training.optimizer_state == "keep":
        put_once(store, _key(assignment, assignment.round), save(dict(sorted(state.items()))))


def _key(assignment: Assignment, round_: int) -> str:
    return bucket_keys.optimizer_state(
        assignment.private_storage.prefix, assignment.environment, round_
    )
