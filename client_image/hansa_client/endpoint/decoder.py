"""A decoder whose turns are another server's: texts go out, texts come back and become tokens.

Each row is one chat, whose next turn a thread waits for. The tokens are this client's own
tokenization of the text. A text that is not read back from them is played, and not learned from.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from hansa.core.http import HttpError
from hansa_client.decoding.protocol import Decoding, TurnNote, TurnRequest
from hansa_client.endpoint.adapters import Served
from hansa_client.endpoint.api import CHAT, Api, Document
from hansa_client.models.chat_template import Chat

_REPLACED = "\ufffd"
"""What servers write for bytes that are no text."""


class _Order(NamedTuple):
    row: int
    body: Document


class _Answer(NamedTuple):
    row: int
    text: str = ""
    is_cut: bool = False
    failure: str = ""
    error: BaseException | None = None


class EndpointDecoder:
    """Rows of chats with one server."""

    joins = True

    def __init__(self, api: Api, served: Served, chat: Chat, rows: int, how: Decoding) -> None:
        self.name = api.place
        self.rows = rows
        self.notes: Mapping[int, TurnNote] = {}
        self._api = api
        self._served = served
        self._chat = chat
        self._how = how
        self._chats: dict[int, list[dict[str, str]]] = {}
        self._budgets: dict[int, int] = {}
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        for _ in range(rows):
            # Daemons: nobody waits for an answer that nobody wants any more.
            threading.Thread(target=self._work, name="endpoint", daemon=True).start()

    def close(self) -> None:
        """Let the threads end."""
        self._api.close()
        for _ in range(self.rows):
            self._orders.put(None)

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Ask for the next turn of these rows."""
        for request in requests:
            if request.is_first:
                self._chats[request.row] = []
            turns = self._chats[request.row]
            turns.append({"role": "user", "content": self._chat.clean(request.text)})
            self._budgets[request.row] = request.budget
            self._orders.put(_Order(request.row, self._body(turns, request)))

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Wait for an answer, and take those that are there as well."""
        answers = [self._answers.get()]
        try:
            while True:
                answers.append(self._answers.get_nowait())
        except Empty:
            pass
        taken = [(answer.row, *self._taken(answer)) for answer in answers]
        self.notes = {row: note for row, _, note in taken}
        return [(row, tokens) for row, tokens, _ in taken]

    def _body(self, turns: list[dict[str, str]], request: TurnRequest) -> Document:
        stops = {"stop": list(self._how.stop)} if self._how.stop else {}
        return {
            "model": self._served.model,
            "messages": list(turns),
            "max_tokens": request.budget,
            "temperature": self._how.temperature,
            "top_p": 1.0,
            "seed": request.seed,
            "n": 1,
            "stream": False,
            **stops,
            **self._served.more,
        }

    def _taken(self, answer: _Answer) -> tuple[list[int], TurnNote]:
        """An answer's tokens, and what else is to be said of it."""
        if answer.error:
            raise answer.error
        if answer.failure:
            return [], TurnNote(failure=answer.failure)
        text, budget = _before(self._how.stop, answer.text), self._budgets[answer.row]
        tokens = self._chat.actions([text])[0]
        if answer.is_cut and text == answer.text:
            tokens = tokens[:-1] or tokens
        is_exact = _REPLACED not in text and self._chat.written(tokens) == text
        if len(tokens) > budget:  # the server's tokens were longer, or it knows no budget
            tokens = tokens[:budget]
            text = self._chat.written(tokens)
        self._chats[answer.row].append({"role": "assistant", "content": text})
        return tokens, TurnNote(text=text, is_exact=is_exact)

    # -- threads ----------------------------------------------------------------------------------

    def _work(self) -> None:
        while order := self._orders.get():
            try:
                answer = self._ask(order)
            except HttpError as error:
                answer = _Answer(order.row, failure=str(error))
            except BaseException as error:  # raised where the episodes are played
                answer = _Answer(order.row, error=error)
            self._answers.put(answer)

    def _ask(self, order: _Order) -> _Answer:
        document = self._api.post_patiently(CHAT, order.body)
        try:
            (choice,) = document["choices"]
            text, reason = choice["message"]["content"] or "", choice.get("finish_reason")
        except (TypeError, KeyError, ValueError, AttributeError):
            raise HttpError("answer", "an answer that is no chat completion") from None
        if not isinstance(text, str) or reason not in ("stop", "length", None):
            raise HttpError("answer", "an answer that is no text")
        # Half a surrogate pair is no text, and no tokenizer takes it.
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return _Answer(order.row, text=text, is_cut=reason == "length")


def _before(stops: Sequence[str], text: str) -> str:
    """What comes before a stop text: some servers leave it in their answer."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text
