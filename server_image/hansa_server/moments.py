"""The moments that come with updates: copied and checked like these, and read input by input."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from hansa.adapter import second_moments
from hansa.adapter.second_moments import Widths
from hansa.adapter.tensor_file import MAX_HEADER, AdapterError, Float32, TensorFile
from hansa_server.gate import UpdateRefused
from hansa_server.merge_input import Array

TOLERANCE = 1e-3
"""How far from right angles, and from length 1, directions may be."""


@dataclass(frozen=True, kw_only=True)
class Moments:
    """One member's, of one input: values along some directions, and one size for all others."""

    read: Callable[[], Float32]
    """Directions, one a row: the large part, which is read when it is needed and not kept."""
    width: int
    """How long they are."""
    values: Array
    """What the input has along each beyond the rest."""
    rest: float
    """What it has along every direction."""

    @property
    def trace(self) -> float:
        """The mean squared length of the input."""
        return float(self.values.sum() + self.rest * self.width)


def open_checked(
    path: Path, known: Widths, rank: int, is_finite: bool, most_head: int = MAX_HEADER
) -> TensorFile:
    """A member's file, or Refused where it holds no moments of these layers' inputs."""
    try:
        file = TensorFile(path, most=most_head)
    except AdapterError as error:
        raise UpdateRefused("moments", error.message) from None
    try:
        second_moments.check_layout(file.layout, known, rank)
        if not is_finite:
            raise UpdateRefused("moments", "a value is infinite or not a number")
        for layers in second_moments.inputs(file.layout):
            check_input(file, layers)
    except AdapterError as error:
        file.close()
        raise UpdateRefused("moments", error.message) from None
    except BaseException:
        file.close()
        raise
    return file


def check_input(file: TensorFile, layers: Sequence[str]) -> None:
    """Sizes from 0 on, no direction smaller than the rest, directions at right angles."""
    names = second_moments.names(layers)
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
    if not worst <= TOLERANCE:
        raise UpdateRefused("moments", f"{names.vectors}: got directions that are {worst:g} off")


def read(file: TensorFile, layers: Sequence[str]) -> Moments:
    """One input's."""
    names = second_moments.names(layers)
    rest = float(file.read(names.rest)[0])
    return Moments(
        read=partial(file.read, names.vectors),
        width=file.shapes[names.vectors][1],
        values=file.read(names.values).astype(np.float64) - rest,
        rest=rest,
    )
