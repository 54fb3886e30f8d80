"""Decoding: what a rollout asks of whatever writes the agent's turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hansa_client.models.chat_template import Chat


MAX_NEW_TOKENS = 256
"""Tokens of one turn where no manifest says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How turns are written."""

    temperature: float
    """Sampling temperature; 0 is greedy."""
    max_length: int
    """Tokens of an episode at most."""
    max_new_tokens: int = MAX_NEW_TOKENS
    """Tokens of one turn at most; a longer one is cut, and the world judges what is there."""
    stop: Sequence[str] = ()
    """Texts that end a turn as soon as they are written."""


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """A row's next turn: what it has to read first, and how it may answer."""

    row: int
    """Which row."""
    is_first: bool
    """Whether an episode begins here; what the row held before is forgotten."""
    tokens: list[int]
    """What is new since the row wrote last, its own last token before all."""
    budget: int
    """Tokens of the answer at most."""
    uniforms: NDArray[np.float64]
    """One random number in [0, 1) for each token, the same whoever shares the row's batch."""
    stop: Sequence[str] = ()
    """Texts that end this turn, beside those that end every turn."""
    text: str = ""
    """What the world said, for a decoder that has a tokenizer of its own."""
    seed: int = 0
    """Of this turn, for a decoder that draws its own random numbers."""


@dataclass(frozen=True, kw_only=True)
class TurnNote:
    """What is to be said of a turn that somebody else has written as text."""

    text: str = ""
    """What was written."""
    is_exact: bool = True
    """Whether its tokens are read back as this text; else nothing is learned from them."""
    failure: str = ""
    """Why there is no turn, without a word of the episode; empty: there is one."""


NO_NOTES: Mapping[int, TurnNote] = MappingProxyType({})
"""Of a decoder that writes tokens itself."""


class Decoder(Protocol):
    """Rows of text that one model goes on writing."""

    name: str
    """How it decodes."""
    rows: int
    """Episodes that it plays at the same time."""
    joins: bool
    """Whether a new episode may take a row while others write."""
    notes: Mapping[int, TurnNote]
    """By row, of the turns that `write` has returned last."""

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Begin the next turn of these rows."""

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Go on until one in `patience` rows has ended its turn: each such row, and what it wrote.

        The last token of each is not read: it comes back with the row's next ask, which saves a
        pass.
        """


class StopConditions:
    """When a turn is over: at the model's stop tokens, or as soon as a given text is written."""

    def __init__(self, chat: Chat, texts: Sequence[str] = ()) -> None:
        self.tokens = chat.stops
        self.texts = texts
        self._chat = chat

    def end_of(self, tokens: Sequence[int], known: int = 0, more: Sequence[str] = ()) -> int:
        """Tokens up to a turn's end, 0 where it goes on; up to `known` it is known to.

        `more` are texts that end this turn alone.
        """
        texts = (*self.texts, *more)
        for count in range(known + 1, len(tokens) + 1):
            if tokens[count - 1] in self.tokens:
                return count
            if texts and self._has_text(tokens[:count], texts):
                return count
        return 0

    def _has_text(self, tokens: Sequence[int], texts: Sequence[str]) -> bool:
        written = self._chat.written(tokens)
        return any(ending in written for ending in texts)


@dataclass
class PartialTurn:
    """A turn that is being written."""

    request: TurnRequest
    """What was asked for."""
    tokens: list[int] = field(default_factory=list)
    """What there is of it."""
    is_over: bool = False
    """Whether it waits to be fetched."""

    def uniform(self) -> float:
        """The number that draws its next token."""
        return float(self.request.uniforms[len(self.tokens)])

    def add(self, tokens: Sequence[int], endings: StopConditions) -> None:
        """Take tokens on, up to where the turn is over."""
        known = len(self.tokens)
        self.tokens = [*self.tokens, *tokens][: self.request.budget]
        end = endings.end_of(self.tokens, known, self.request.stop)
        self.tokens = self.tokens[: end or None]
        self.is_over = bool(end) or len(self.tokens) == self.request.budget


def take_finished(writing: dict[int, PartialTurn]) -> list[tuple[int, list[int]]]:
    """The turns that are over, taken out."""
    over = [(row, one.tokens) for row, one in writing.items() if one.is_over]
    for row, _ in over:
        del writing[row]
    return over
