"""Conditions of any object of Hansa, as Kubernetes' conventions shape them."""

from typing import Literal, TypeVar

from hansa.core.model import Model
from hansa.core.timestamps import Time


class BaseCondition(Model):
    """What all conditions have; each kind of object has its own types and reasons."""

    type: str
    """What is observed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: str
    """Machine-readable cause."""
    message: str = ""
    """A sentence for a person, with what to do."""
    last_transition_time: Time
    """When `status` last changed."""
    observed_generation: int = 0
    """Generation of the spec that this speaks of."""


AnyCondition = TypeVar("AnyCondition", bound=BaseCondition)


def observed(conditions: list[AnyCondition], new: AnyCondition) -> list[AnyCondition]:
    """The conditions with one set; its transition time moves only when its status changes."""
    old = next((c for c in conditions if c.type == new.type), None)
    if old and old.status == new.status:
        new = new.model_copy(update={"last_transition_time": old.last_transition_time})
    return sorted([*(c for c in conditions if c.type != new.type), new], key=lambda c: c.type)
