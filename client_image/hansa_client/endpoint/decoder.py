"""A decoder whose turns an OpenAI-compatible server writes, as text that is tokenized here.

Each row is one chat, and a thread waits for its next turn. The tokens are this client's own
tokenization of the text. A text that they do not decode to is played, but not trained on.
"""

import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import NamedTuple

from hansa.core.http import HttpError
from hansa_client.decoding.protocol import Decoding, TurnNote, TurnRequest
from hansa_client.endpoint.adapters import Served
from hansa_client.endpoint.api import CHAT, Api, Document
from hansa_client.models.chat_template import Chat

_REPLACED = "\ufffd"
"""U+FFFD, which servers write for invalid UTF-8."""


class _Answer(NamedTuple):
    row: int
    text: str = ""
    is_cut: bool = False
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
        self._orders: SimpleQueue[tuple[int, Document] | None] = SimpleQueue()
        self._answers: SimpleQueue[_Answer] = SimpleQueue()
        for _ in range(rows):
            # Daemons: the process must not wait for answers that it no longer needs.
            threading.Thread(target=self._answer_orders, name="endpoint", daemon=True).start()

    def close(self) -> None:
        """End the threads."""
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
            self._orders.put((request.row, self._make_body(turns, request)))

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Wait for an answer, and take all that have arrived."""
        answers = [self._answers.get()]
        while not self._answers.empty():  # nobody else takes any
            answers.append(self._answers.get_nowait())
        taken = [(answer.row, *self._process_answer(answer)) for answer in answers]
        self.notes = {row: note for row, _, note in taken}
        return [(row, tokens) for row, tokens, _ in taken]

    def _make_body(self, turns: list[dict[str, str]], request: TurnRequest) -> Document:
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

    def _process_answer(self, answer: _Answer) -> tuple[list[int], TurnNote]:
        """An answer's tokens and note."""
        if isinstance(answer.error, HttpError):
            return [], TurnNote(failure=str(answer.error))
        if answer.error:
            raise answer.error
        text, budget = _cut_at_stop(self._how.stop, answer.text), self._budgets[answer.row]
        tokens = self._chat.encode_actions([text])[0]
        if answer.is_cut and text == answer.text:
            tokens = tokens[:-1] or tokens
        is_exact = _REPLACED not in text and self._chat.decode(tokens) == text
        if len(tokens) > budget:  # the server's tokens are longer, or it ignores max_tokens
            tokens = tokens[:budget]
            text = self._chat.decode(tokens)
        self._chats[answer.row].append({"role": "assistant", "content": text})
        return tokens, TurnNote(text=text, is_exact=is_exact)

    # -- threads ----------------------------------------------------------------------------------

    def _answer_orders(self) -> None:
        while order := self._orders.get():
            row, body = order
            try:
                answer = self._ask(row, body)
            except BaseException as error:  # handled in the thread that plays the episodes
                answer = _Answer(row, error=error)
            self._answers.put(answer)

    def _ask(self, row: int, body: Document) -> _Answer:
        document = self._api.ask_patiently(CHAT, body)
        try:
            (choice,) = document["choices"]
            text, reason = choice["message"]["content"] or "", choice.get("finish_reason")
        except (TypeError, KeyError, ValueError, AttributeError):
            raise HttpError("answer", "an answer that is no chat completion") from None
        if not isinstance(text, str) or reason not in ("stop", "length", None):
            raise HttpError("answer", "an answer that is not text")
        # Tokenizers refuse half a surrogate pair.
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return _Answer(row, text=text, is_cut=reason == "length")


def _cut_at_stop(stops: Sequence[str], text: str) -> str:
    """What comes before a stop text: some servers leave it in their answer."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text
