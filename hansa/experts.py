"""Which worlds can show demonstrations, as far as the contract knows without importing one.

A builtin world is known by name; a test compares the table with the registry of worlds. A world of
another package is asked itself where it is installed, and unknown elsewhere.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hansa.errors import InputError
from hansa.spec import Environment, FederationSpec

EXPERTS = {
    "agentgym": False,
    "babyai": True,
    "gymnasium": False,
    "maze": True,
    "mixed": True,
    "textcraft": True,
    "webshop": True,
    "wordle": True,
}
"""Every builtin world, and whether it has an expert."""
MIXED = "mixed"
"""The world that plays the worlds in its option `worlds`, each with demonstrations of its own."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Demonstrations that the expert of one world must show."""

    where: str
    """The environment, as spec.environments[0]."""
    world: str
    """The world."""
    count: int
    """How many."""
    is_own: bool
    """Whether the number is the environment's own, or that of all."""

    def refuse(self) -> InputError:
        """The error of a world that has no expert."""
        field = f"{self.where}.demonstrations" if self.is_own else "spec.experience.demonstrations"
        return InputError(
            f"{field}: got {self.count}, but world {self.world} of {self.where} has no expert, "
            "expected 0 or a file in demonstrationsFrom",
            hint=f"set {self.where}.demonstrations: 0, or its demonstrationsFrom",
        )


def wanted(spec: FederationSpec) -> Iterator[Wanted]:
    """What experts must show, environment by environment; those that read a file need none."""
    for index, environment in enumerate(spec.environments):
        for world, own in _parts(environment):
            file = own.get("demonstrationsFrom") or spec.experience.demonstrations_from
            number = own.get("demonstrations")
            count = spec.experience.demonstrations if number is None else number
            if file or not isinstance(count, int) or count < 1:
                continue
            yield Wanted(
                where=f"spec.environments[{index}]",
                world=world,
                count=count,
                is_own=number is not None,
            )


def _parts(environment: Environment) -> list[tuple[str, dict[str, Any]]]:
    """The worlds that an environment plays, each with what it says of demonstrations itself.

    The parts of `mixed` are options, which nobody has checked yet.
    """
    own = environment.to_json()
    if environment.world != MIXED:
        return [(environment.world, own)]
    given = environment.options.get("worlds")
    parts = [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []
    shared = {"demonstrations": own.get("demonstrations")}
    return [(str(part.get("world", "")), {**shared, **part}) for part in parts]


def check(spec: FederationSpec) -> None:
    """Refuse demonstrations that a builtin world cannot show."""
    for each in wanted(spec):
        if not EXPERTS.get(each.world, True):
            raise each.refuse()


def has_expert(kind: type) -> bool:
    """Whether the class of a world has an expert of its own.

    The contract cannot import the base of all worlds; it is the abstract class `World`.
    """
    owner = next((each for each in kind.__mro__ if "expert" in vars(each)), None)
    is_base = owner is None or (owner.__name__ == "World" and inspect.isabstract(owner))
    return not is_base
