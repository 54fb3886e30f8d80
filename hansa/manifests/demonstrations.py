"""Which worlds can show demonstrations, as far as is known without importing one.

A builtin world is known by its table; a test compares that with the classes. A world of another
package is asked itself where it is installed, and unknown elsewhere.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hansa.api.spec import Environment, FederationSpec
from hansa.api.worlds import BUILTIN
from hansa.core.errors import InputError

MIXED = "mixed"
"""The world that plays the worlds in its option `worlds`, each with demonstrations of its own."""


@dataclass(frozen=True, kw_only=True)
class RequiredDemonstrations:
    """Demonstrations that the expert of one world must show."""

    where: str
    """The environment, as spec.environments[0], or the part of a `mixed` one."""
    world: str
    """The world."""
    count: int
    """How many."""
    field: str
    """Where the number stands: the part's own, the environment's, or that of all."""

    def refuse(self) -> InputError:
        """The error of a world that has no expert."""
        return InputError(
            f"{self.field}: got {self.count}, but world {self.world} of {self.where} has no expert,"
            " expected 0 or a file in demonstrationsFrom",
            hint=f"set {self.where}.demonstrations: 0, or its demonstrationsFrom",
        )


def list_required(spec: FederationSpec) -> Iterator[RequiredDemonstrations]:
    """What experts must show, environment by environment; those that read a file need none."""
    for index, environment in enumerate(spec.environments):
        whole = f"spec.environments[{index}]"
        if environment.member:
            continue  # its owner's manifest names the world
        for where, own in _list_worlds(environment, whole):
            file = own.get("demonstrationsFrom") or spec.experience.demonstrations_from
            numbers = {
                f"{where}.demonstrations": own.get("demonstrations"),
                f"{whole}.demonstrations": environment.demonstrations,
                "spec.experience.demonstrations": spec.experience.demonstrations,
            }
            field, count = next((f, n) for f, n in numbers.items() if n is not None)
            if file or not isinstance(count, int) or count < 1:
                continue
            yield RequiredDemonstrations(
                where=where, world=str(own.get("world", "")), count=count, field=field
            )


def _list_worlds(environment: Environment, whole: str) -> list[tuple[str, dict[str, Any]]]:
    """The worlds of an environment: the path of each, and its settings.

    The parts of `mixed` are options, which nobody has checked yet.
    """
    if environment.world != MIXED:
        return [(whole, environment.to_json())]
    given = environment.options.get("worlds")
    parts = enumerate(given) if isinstance(given, list) else ()
    return [(f"{whole}.options.worlds[{i}]", part) for i, part in parts if isinstance(part, dict)]


def check(spec: FederationSpec) -> None:
    """Refuse demonstrations that a builtin world cannot show."""
    for each in list_required(spec):
        if each.world in BUILTIN and not BUILTIN[each.world].has_expert:
            raise each.refuse()


def has_expert(kind: type) -> bool:
    """Whether the class of a world has an expert of its own.

    The contract cannot import the base of all worlds; it is the abstract class `World`.
    """
    owner = next((each for each in kind.__mro__ if "expert" in vars(each)), None)
    is_base = owner is None or (owner.__name__ == "World" and inspect.isabstract(owner))
    return not is_base
