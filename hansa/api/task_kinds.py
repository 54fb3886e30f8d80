"""Kinds of tasks as they leave a silo: few, with short names, whatever its world calls them.

Names may come from a silo's own package, and go into manifests, reports, metrics and pages.
Success rates by kind reveal something of a silo, so with privacy none of this is sent.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from pydantic import Field

MOST_KINDS = 12
"""At most so many kinds are kept apart; of more, neighbours in their order are joined."""
MOST_NAMES = 200
"""Kinds that a world may know; what has more names names tasks, not kinds."""
LEAST_TASKS = 4
"""Training tasks of a kind at least, on average, for the same reason."""
LONGEST_NAME = 30

_PLAIN = r"^[A-Za-z0-9]([A-Za-z0-9 ,._+-]*[A-Za-z0-9._+-])?$"
Name = Annotated[str, Field(pattern=_PLAIN, max_length=LONGEST_NAME)]
PARTS = 10_000
Rates = Annotated[dict[Name, Annotated[int, Field(ge=0, le=PARTS)]], Field(max_length=MOST_KINDS)]
"""Share of successes by kind in 1/10,000: bounded where it is read, for a silo writes it."""

Tallies = Mapping[str, Sequence[int]]
"""Successes and episodes by kind."""

_OTHER = re.compile(r"[^A-Za-z0-9,._+-]+")


def public_names(names: Collection[str], tasks: int) -> dict[str, str]:
    """What each of a world's names is called outside; nothing where they are no kinds.

    `tasks`: how many training tasks have these names. Neighbours that are one have the name of the
    first, and how many more there are.
    """
    known = sorted(set(names) - {""})
    if len(known) > min(MOST_NAMES, tasks // LEAST_TASKS):
        return {}
    places: dict[int, list[str]] = {}
    for index, name in enumerate(known):
        places.setdefault(index * min(MOST_KINDS, len(known)) // len(known), []).append(name)
    return {name: _name_group(some) for some in places.values() for name in some}


def rates(tallies: Tallies) -> dict[str, int] | None:
    """Share of successes by kind, as a report has room for; nothing where there are no kinds."""
    shares = {name: won * PARTS // played for name, (won, played) in tallies.items() if played}
    return shares or None


def _name_group(names: list[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    short = _OTHER.sub(" ", names[0]).strip(" ,._+-")[: LONGEST_NAME - len(more)].rstrip(" ,")
    return (short or "kind") + more
