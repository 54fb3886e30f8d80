"""The text of an answer as it grows: tokens in, safe pieces of text out.

A piece is safe when no later token can change it: a character whose bytes are not all there yet,
and an end that may become a stop text, are kept back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hansa_client.models.chat_template import Chat
from hansa_client.serving.batch_decoder import Written

_HALF = "\N{REPLACEMENT CHARACTER}"


class Piece(NamedTuple):
    """A token and the text that it adds to the answer."""

    text: str
    written: Written


@dataclass
class AnswerText:
    """One answer's text."""

    chat: Chat
    """How tokens are read."""
    stop: tuple[str, ...] = ()
    """Texts before which it ends."""
    text: str = ""
    """What was given out."""
    count: int = 0
    """Tokens taken in, the one that ends the turn too."""
    is_stopped: bool = False
    """Whether the agent ended it, or a stop text did."""
    _tokens: list[int] = field(default_factory=list)
    _begin: int = 0
    _read: int = 0
    _kept: list[Piece] = field(default_factory=list)
    """Tokens whose text is not given out yet."""

    def add(self, written: Sequence[Written], *, is_last: bool) -> list[Piece]:
        """Take tokens in; the pieces that are safe to give out, all of them at the end."""
        for each in written:
            self.count += 1
            if each.token in self.chat.stops:
                self.is_stopped = True
            elif not self.is_stopped:
                self._kept.append(Piece(self._grown(each.token), each))
                self._cut()
        if is_last and not self.is_stopped and self._kept and (rest := self._rest()):
            last = self._kept.pop()
            self._kept.append(last._replace(text=last.text + rest))
            self._cut()
        return self._given(0 if is_last or self.is_stopped else self._unsafe())

    def _grown(self, token: int) -> str:
        """Text that a token adds: read with some tokens before it, on which spaces may depend."""
        self._tokens.append(token)
        before, whole = self.chat.texts(
            [self._tokens[self._begin : self._read], self._tokens[self._begin :]]
        )
        if whole.endswith(_HALF) or len(whole) <= len(before):
            return ""
        self._begin, self._read = self._read, len(self._tokens)
        return whole[len(before) :]

    def _rest(self) -> str:
        """What an answer ends with where that is half of a character."""
        if self._read == len(self._tokens):
            return ""
        before, whole = self.chat.texts(
            [self._tokens[self._begin : self._read], self._tokens[self._begin :]]
        )
        return whole[len(before) :]

    def _cut(self) -> None:
        """End the kept text before a stop text in it."""
        text = "".join(piece.text for piece in self._kept)
        places = [place for stop in self.stop if (place := text.find(stop)) >= 0]
        if not places:
            return
        self.is_stopped = True
        left, kept = min(places), []
        for piece in self._kept:
            if left > 0:
                kept.append(piece._replace(text=piece.text[:left]))
            left -= len(piece.text)
        self._kept = kept

    def _unsafe(self) -> int:
        """Characters at the end that may begin a stop text."""
        text = "".join(piece.text for piece in self._kept)
        return max(
            (n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n])),
            default=0,
        )

    def _given(self, unsafe: int) -> list[Piece]:
        """Give out the first tokens, but for those with unsafe text."""
        safe = sum(len(piece.text) for piece in self._kept) - unsafe
        given: list[Piece] = []
        while self._kept and len(self._kept[0].text) <= safe:
            piece = self._kept.pop(0)
            safe -= len(piece.text)
            given.append(piece)
        self.text += "".join(piece.text for piece in given)
        return given
