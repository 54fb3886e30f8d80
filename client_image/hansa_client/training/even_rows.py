"""Even rows: trajectories padded to one length, in few shapes, so that few CUDA graphs are needed.

Each trajectory's gradient is then a product of its own slice of the row. Padding is behind a
trajectory, where its tokens do not attend to it, and adds nothing; nor do empty trajectories.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hansa_client import trajectory

_STEP = 16
"""Lengths are multiples of this, which suits the tiles of a GPU."""
_SHORTER = 0.71
"""Maximum ratio of a shape's length to the next longer one's: few shapes, and little padding."""

Lots = Sequence[Sequence[int]]
"""The sequences of each step."""


@dataclass(frozen=True)
class RowShape:
    """The shape of all rows of a CUDA graph."""

    count: int
    """Trajectories; the last ones may be empty."""
    length: int
    """Tokens of each."""
    wanted: int = 0
    """Maximum number of the agent's tokens in a row."""

    @property
    def tokens(self) -> int:
        """Tokens of a row."""
        return self.count * self.length


@dataclass(frozen=True)
class EvenRow:
    """The inputs of a CUDA graph."""

    numbers: NDArray[np.int64]
    """Tokens, then each token's index among the wanted ones, then the positions of the wanted."""
    shares: NDArray[np.float32]
    """Weight of the log-probability of each wanted token; 0 for padding."""


def choose_shapes(
    lots: Lots, lengths: Sequence[int], agents: Sequence[int], room: int, least: int
) -> list[RowShape]:
    """Shapes for the rows of all steps, the longest first; none where there are too few rows.

    `agents` are the agent's tokens of each sequence, `room` the tokens of a row, `least` the
    minimum rows of a shape: sequences of rarer shapes go into longer rows.
    """
    drawn = {lengths[index] for lot in lots for index in lot}
    made = _list_shapes(drawn, max(map(len, lots), default=0), room) if drawn else []
    while made:
        every = [each for lot in lots for each in fill_rows(lot, lengths, made)]
        used = Counter(shape for shape, _ in every)
        rare = [shape for shape in made if used[shape] < least]
        if len(every) < least:
            return []
        if not rare or rare == made[:1]:
            return [_count_wanted(shape, every, agents) for shape in made]
        made.remove(rare[-1])
    return []


def fill_rows(
    lot: Sequence[int], lengths: Sequence[int], made: Sequence[RowShape]
) -> Iterator[tuple[RowShape, list[int]]]:
    """A step's sequences in rows of these shapes, the longest first."""
    order = sorted(lot, key=lambda index: -lengths[index])
    while order:
        shape = [each for each in made if each.length >= lengths[order[0]]][-1]
        yield shape, order[: shape.count]
        order = order[shape.count :]


def build_row(
    shape: RowShape, sequences: Sequence[trajectory.Sequence], shares: Sequence[float]
) -> EvenRow:
    """These sequences as a row, with a share for each."""
    tokens = np.zeros((shape.count, shape.length), np.int64)
    own: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for place, sequence in enumerate(sequences):
        tokens[place, : len(sequence)] = sequence.tokens
        own.append(place * shape.length + np.flatnonzero(sequence.is_agent[1:]))
    wanted = np.concatenate(own)
    among = np.full(shape.tokens, shape.wanted, np.int64)
    among[wanted] = np.arange(len(wanted))
    missing = shape.wanted - len(wanted)
    counted = np.repeat(np.array([0.0, *shares], np.float32), list(map(len, own)))
    return EvenRow(
        np.concatenate([tokens.reshape(-1), among, wanted, np.zeros(missing, np.int64)]),
        np.concatenate([counted, np.zeros(missing, np.float32)]),
    )


def _list_shapes(drawn: set[int], most: int, room: int) -> list[RowShape]:
    """Shapes from the longest trajectory down to the shortest."""
    by_length: dict[int, RowShape] = {}
    while drawn:
        top = max(drawn)
        length = _STEP * -(-top // _STEP)
        by_length.setdefault(length, RowShape(_count_per_row(top, most, room), length))
        drawn = {each for each in drawn if each <= _SHORTER * top}
    return list(by_length.values())


def _count_per_row(top: int, most: int, room: int) -> int:
    """Trajectories of a row, so that the largest step fills as few rows as possible."""
    needed = -(-most // max(1, room // top))
    return -(-most // needed)


def _count_wanted(
    shape: RowShape, every: Sequence[tuple[RowShape, list[int]]], agents: Sequence[int]
) -> RowShape:
    wanted = [sum(agents[index] for index in part) for each, part in every if each == shape]
    return replace(shape, wanted=_STEP * -(-max(1, *wanted) // _STEP))
