"""Decoding: what a rollout asks of whatever writes the agent's turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hansa_client.chat import Chat


@dataclass(frozen=True, kw_only=True)
class Ask:
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
    """One number in [0, 1) for each token: the row's luck, whoever shares its batch."""
    seed: int
    """The same luck for an engine that draws by itself."""


class Decoder(Protocol):
    """Rows of text that one model goes on writing."""

    name: str
    """How it decodes."""
    rows: int
    """Episodes that it plays at the same time."""
    joins: bool
    """Whether a new episode may take a row while others write."""

    def read(self, asks: Sequence[Ask]) -> None:
        """Begin the next turn of these rows."""

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Go on until one in so many rows has ended its turn: each such row, and what it wrote.

        The last token of each is not read: it comes back with the row's next ask, which saves a
        pass.
        """


class Endings:
    """When a turn is over: at the model's stop tokens, or as soon as a given text is written."""

    def __init__(self, chat: Chat, texts: Sequence[str] = ()) -> None:
        self.tokens = chat.stops
        self.texts = texts
        self._chat = chat

    def found(self, tokens: Sequence[int], known: int = 0) -> int:
        """Tokens up to a turn's end, 0 where it goes on; up to `known` it is known to."""
        for count in range(known + 1, len(tokens) + 1):
            if tokens[count - 1] in self.tokens:
                return count
            if self.texts and self._has_text(tokens[:count]):
                return count
        return 0

    def _has_text(self, tokens: Sequence[int]) -> bool:
        written = self._chat.written(tokens)
        return any(ending in written for ending in self.texts)


@dataclass
class Writing:
    """A turn that is being written."""

    ask: Ask
    """What was asked for."""
    tokens: list[int] = field(default_factory=list)
    """What there is of it."""
    is_over: bool = False
    """Whether it waits to be fetched."""

    def uniform(self) -> float:
        """The number that draws its next token."""
        return float(self.ask.uniforms[len(self.tokens)])

    def add(self, tokens: Sequence[int], endings: Endings) -> None:
        """Take tokens on, up to where the turn is over."""
        known = len(self.tokens)
        self.tokens = [*self.tokens, *tokens][: self.ask.budget]
        end = endings.found(self.tokens, known)
        self.tokens = self.tokens[: end or None]
        self.is_over = bool(end) or len(self.tokens) == self.ask.budget


def take_over(writing: dict[int, Writing]) -> list[tuple[int, list[int]]]:
    """The turns that are over, taken out."""
    over = [(row, one.tokens) for row, one in writing.items() if one.is_over]
    for row, _ in over:
        del writing[row]
    return over


def sample(logits: torch.Tensor, uniform: torch.Tensor, temperature: float) -> torch.Tensor:
    """One token for each row by the inverse of its distribution; temperature 0 takes the likeliest.

    A row's token follows from its own number, so that it does not depend on the other rows.
    """
    if temperature == 0:
        return logits.argmax(-1)
    chances = torch.softmax(logits.float() / temperature, dim=-1).double().cumsum(-1)
    threshold = uniform[:, None] * chances[:, -1:]
    found = torch.searchsorted(chances, threshold, right=True)[:, 0]
    return found.clamp_(max=logits.shape[-1] - 1)
