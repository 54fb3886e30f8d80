"""The text of an answer as it grows: tokens in, safe pieces of text out.

A piece is safe when no later token can change it: an incomplete UTF-8 character and a possible
beginning of a stop text are held back.
"""

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
    """Tokens added, with the one that ends the turn."""
    is_stopped: bool = False
    """Whether the agent ended it, or a stop text did."""
    _tokens: list[int] = field(default_factory=list)
    _begin: int = 0
    _read: int = 0
    _kept: list[Piece] = field(default_factory=list)
    """Tokens whose text is not given out yet."""

    def add(self, written: Sequence[Written], *, is_last: bool) -> list[Piece]:
        """Add tokens; returns the pieces that are safe to send, all of them at the end."""
        for each in written:
            self.count += 1
            if each.token in self.chat.stops:
                self.is_stopped = True
            elif not self.is_stopped:
                self._kept.append(Piece(self._decode_token(each.token), each))
                self._cut_at_stop()
        if is_last and not self.is_stopped and self._kept and (rest := self._decode_rest()):
            last = self._kept.pop()
            self._kept.append(last._replace(text=last.text + rest))
            self._cut_at_stop()
        return self._release(0 if is_last or self.is_stopped else self._count_unsafe())

    def _decode_token(self, token: int) -> str:
        """Text that a token adds; decoded with tokens before it, since spaces depend on them."""
        self._tokens.append(token)
        text = self._decode_rest()
        if text.endswith(_HALF) or not text:
            return ""
        self._begin, self._read = self._read, len(self._tokens)
        return text

    def _decode_rest(self) -> str:
        """Text of the tokens that were not given out yet; it may end with half a character."""
        if self._read == len(self._tokens):
            return ""
        before, whole = self.chat.decode_all(
            [self._tokens[self._begin : self._read], self._tokens[self._begin :]]
        )
        return whole[len(before) :]

    def _cut_at_stop(self) -> None:
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

    def _count_unsafe(self) -> int:
        """Characters at the end that may begin a stop text."""
        text = "".join(piece.text for piece in self._kept)
        return max(
            (n for stop in self.stop for n in range(1, len(stop)) if text.endswith(stop[:n])),
            default=0,
        )

    def _release(self, unsafe: int) -> list[Piece]:
        """Release the first tokens, up to unsafe text."""
        safe = sum(len(piece.text) for piece in self._kept) - unsafe
        given: list[Piece] = []
        while self._kept and len(self._kept[0].text) <= safe:
            piece = self._kept.pop(0)
            safe -= len(piece.text)
            given.append(piece)
        self.text += "".join(piece.text for piece in given)
        return given
