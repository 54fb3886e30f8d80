"""Decoding: the interface between rollouts and decoders, which generate the agent's turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hansa_client.models.chat_template import Chat


MAX_NEW_TOKENS = 256
"""Default maximum of tokens of one turn."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Options of a decoder."""

    temperature: float
    """Sampling temperature; 0 is greedy."""
    max_length: int
    """Maximum tokens of an episode."""
    max_new_tokens: int = MAX_NEW_TOKENS
    """Maximum tokens of one turn; a longer one is cut."""
    stop: Sequence[str] = ()
    """Texts that end a turn as soon as they are written."""


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """A row's next turn: new tokens to read first, and limits of the answer."""

    row: int
    """Which row."""
    is_first: bool
    """Whether an episode begins here, so that the row's cache is discarded."""
    tokens: list[int]
    """New tokens since the row's last turn, whose last token is the first one here."""
    budget: int
    """Maximum tokens of the answer."""
    uniforms: NDArray[np.float64]
    """A random number in [0, 1) for each token, which does not depend on the batch."""
    stop: Sequence[str] = ()
    """Texts that end this turn, beside those that end every turn."""
    text: str = ""
    """The world's text, for a decoder with its own tokenizer."""
    seed: int = 0
    """Random seed of this turn, for a decoder that draws its own random numbers."""


@dataclass(frozen=True, kw_only=True)
class TurnNote:
    """Notes about a turn that was generated as text by another program."""

    text: str = ""
    """The text."""
    is_exact: bool = True
    """Whether its tokens decode to this text; otherwise they are not trained on."""
    failure: str = ""
    """Why there is no turn, without text of the episode; empty: there is one."""


NO_NOTES: Mapping[int, TurnNote] = MappingProxyType({})
"""Notes of a decoder that generates tokens itself."""


class Decoder(Protocol):
    """Rows of text that one model continues."""

    name: str
    """How it decodes."""
    rows: int
    """Episodes that it plays at the same time."""
    joins: bool
    """Whether a new episode may take a row while others write."""
    notes: Mapping[int, TurnNote]
    """Notes about the turns that `write` returned last, by row."""

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Begin the next turn of these rows."""

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Continue until one in `patience` rows has ended its turn: those rows, and their tokens.

        The last token of each is not read yet: the row's next request has it, which saves a pass.
        """


class StopConditions:
    """A turn ends at the model's stop tokens, or as soon as a stop text is written."""

    def __init__(self, chat: "Chat", texts: Sequence[str] = ()) -> None:
        self.tokens = chat.stops
        self.texts = texts
        self._chat = chat

    def find_end(self, tokens: Sequence[int], known: int = 0, more: Sequence[str] = ()) -> int:
        """Number of tokens up to the turn's end, or 0; the first `known` do not end it.

        `more` are stop texts of this turn alone.
        """
        texts = (*self.texts, *more)
        for count in range(known + 1, len(tokens) + 1):
            if tokens[count - 1] in self.tokens:
                return count
            written = self._chat.decode(tokens[:count]) if texts else ""
            if any(ending in written for ending in texts):
                return count
        return 0


@dataclass
class PartialTurn:
    """A turn that is being generated."""

    request: TurnRequest
    """Its request."""
    tokens: list[int] = field(default_factory=list)
    """Its tokens so far."""
    is_over: bool = False
    """Whether it has ended."""

    def get_uniform(self) -> float:
        """The random number for its next token."""
        return float(self.request.uniforms[len(self.tokens)])

    def add(self, tokens: Sequence[int], endings: StopConditions) -> None:
        """Append tokens up to the end of the turn."""
        known = len(self.tokens)
        self.tokens = [*self.tokens, *tokens][: self.request.budget]
        end = endings.find_end(self.tokens, known, self.request.stop)
        self.tokens = self.tokens[: end or None]
        self.is_over = bool(end) or len(self.tokens) == self.request.budget


def take_finished(writing: dict[int, PartialTurn]) -> list[tuple[int, list[int]]]:
    """Remove and return the turns that have ended."""
    over = [(row, one.tokens) for row, one in writing.items() if one.is_over]
    for row, _ in over:
        del writing[row]
    return over
