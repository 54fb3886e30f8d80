"""The second moments that come with updates: checking them, and reading those of an input."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hansa.adapter import second_moments
from hansa.adapter.second_moments import Widths
from hansa.adapter.tensor_file import MAX_HEADER, AdapterError, Float32, TensorFile
from hansa_server.gate import UpdateRefused, require
from hansa_server.merge_input import Array

TOLERANCE = 1e-3
"""How far directions may be from orthogonal, and from length 1."""


@dataclass(frozen=True, kw_only=True)
class Moments:
    """A member's moments of one input: values along some directions, and one for all others."""

    read: Callable[[], Float32]
    """Reads the directions, one in each row; they are large and not kept."""
    width: int
    """Length of a direction."""
    values: Array
    """The moment along each direction, less the rest."""
    rest: float
    """The moment along all other directions."""

    @property
    def trace(self) -> float:
        """The mean squared length of the input."""
        return float(self.values.sum() + self.rest * self.width)


def open_moments(
    path: Path, known: Widths, rank: int, is_finite: bool, most_head: int = MAX_HEADER
) -> TensorFile:
    """Open a member's file; UpdateRefused where it is invalid for these layers."""
    try:
        file = TensorFile(path, most=most_head)
        try:
            second_moments.check_layout(file.layout, known, rank)
            require(is_finite, "moments", "a value is infinite or not a number")
            for layers in second_moments.parse_inputs(file.layout):
                check_input(file, layers)
        except BaseException:
            file.close()
            raise
    except AdapterError as error:
        raise UpdateRefused("moments", error.message) from None
    return file


def check_input(file: TensorFile, layers: Sequence[str]) -> None:
    """Values are not negative nor below the rest, and directions are orthogonal."""
    names = second_moments.moment_names(layers)
    values, rest = file.read(names.values), float(file.read(names.rest)[0])
    smallest = float(values.min(initial=np.inf))
    if rest < 0 or smallest < rest or not float(values.sum()) + rest > 0:
        detail = f"got {smallest:g} along a direction and {rest:g} along the rest"
        raise UpdateRefused(
            "moments", f"{names.values}: {detail}, expected no less than that, and 0"
        )
    vectors: Float32 = file.read(names.vectors)
    with np.errstate(over="ignore", invalid="ignore"):
        off = vectors @ vectors.T
        off[np.diag_indices(len(off))] -= 1.0
        worst = float(np.abs(off).max(initial=0.0))
    detail = f"{names.vectors}: got directions that are {worst:g} off"
    require(worst <= TOLERANCE, "moments", detail)


def read_moments(file: TensorFile, layers: Sequence[str]) -> Moments:
    """The moments of one input."""
    names = second_moments.moment_names(layers)
    rest = float(file.read(names.rest)[0])
    return Moments(
        read=partial(file.read, names.vectors),
        width=file.shapes[names.vectors][1],
        values=file.read(names.values).astype(np.float64) - rest,
        rest=rest,
    )
