"""Which families of reasoning-gym are played, and what their scoring may get to see.

What an agent writes is anybody's text: its adapter was trained with updates of others. Some
families hand an answer to Python's `eval`, or to a parser that does; such an answer must consist
of what cannot do anything, or is never scored. A test looks through the package for others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hansa_more_worlds.packages import load
from hansa_worlds.errors import OptionError

NAME = "reasoning-gym"
MODULE = "reasoning_gym"

_NO_ANSWER = "which has no known answer"
_CHANGES = "whose questions differ from process to process"
_RUNS = "which runs an answer as code"

REFUSED = {
    "boxnet": _NO_ANSWER,
    "composite": "which is other families: name them in options.families",
    "futoshiki": "whose answer cannot be written in one line",
    "graph_color": _NO_ANSWER,
    "intermediate_integration": _RUNS,
    "isomorphic_strings": _CHANGES,
    "knight_swap": _CHANGES,
    "list_functions": _CHANGES,
    "polynomial_multiplication": _RUNS,
    "propositional_logic": _NO_ANSWER,
    "ransom_note": _CHANGES,
    "rubiks_cube": _NO_ANSWER,
    "rush_hour": _NO_ANSWER,
    "simple_integration": _RUNS,
    "word_ladder": _CHANGES,
}
"""Families that are not played, and why."""

PLAIN = {
    "binary_matrix": re.compile(r"[-0-9, \n\[\]]*"),
    "countdown": re.compile(r"(?!.*\*\s*\*)[-+*/() 0-9]{0,200}"),
    "n_queens": re.compile(r"[Q_ \n]*"),
    "puzzle24": re.compile(r"(?!.*\*\s*\*)[-+*/() 0-9]{0,200}"),
    "spiral_matrix": re.compile(r"[-0-9, \[\]]*"),
    "string_insertion": re.compile(r"[A-Z]*"),
}
"""What an answer must be made of before these families may score it: they evaluate it."""


def check(family: str, config: Mapping[str, object]) -> None:
    """Refuse a family that is not played, and settings that it does not take."""
    known = load(NAME, MODULE).factory.DATASETS
    if family in REFUSED:
        raise OptionError(f"options.families: got {family!r}, {REFUSED[family]}, expected another")
    if family not in known:
        fits = ", ".join(sorted(known.keys() - REFUSED.keys()))
        raise OptionError(f"options.families: got {family!r}, expected some of {fits}")
    kind = known[family][1]
    takes = sorted(set(kind.__dataclass_fields__) - {"seed", "size"})
    if unknown := sorted(config.keys() - set(takes)):
        raise OptionError(
            f"options.config.{family}: got {', '.join(unknown)}, expected some of"
            f" {', '.join(takes)}"
        )
    try:
        made = kind(**config)
        if hasattr(made, "validate"):
            made.validate()
    except Exception as error:  # assertions, mostly without a sentence
        why = " ".join(str(error).split())[:200] or "its own check refuses them"
        raise OptionError(
            f"options.config.{family}: got {dict(config)!r}, expected settings that fit ({why})"
        ) from error


def dataset(family: str, config: Mapping[str, object], number: int) -> Any:
    """What makes and scores one question; the number alone decides which."""
    return load(NAME, MODULE).create_dataset(family, **config, seed=number, size=1)


def score(maker: Any, family: str, answer: str, entry: Mapping[str, Any]) -> float:
    """What the family gives for an answer, from 0 to 1; nothing for what its scoring trips over."""
    plain = PLAIN.get(family)
    if plain is not None and not plain.fullmatch(answer):
        return 0.0
    try:
        given = float(maker.score_answer(answer, entry))
    except Exception:  # an answer is any text
        return 0.0
    return min(1.0, max(0.0, given)) if given == given else 0.0
