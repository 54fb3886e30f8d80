"""The recording endpoint: a harness's requests wait here until the episode has their answers."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from queue import Empty, SimpleQueue
from typing import NamedTuple

from hansa.core.logs import get
from hansa_client.serving import chat_request, documents
from hansa_client.serving.chat_request import ChatRequest
from hansa_client.serving.documents import Document, Spoken
from hansa_client.serving.errors import ClientGone, OpenAIError, refused
from hansa_client.serving.handler import ChatHandler
from hansa_client.serving.metrics import Metrics
from hansa_client.serving.server import ChatServer

MODEL = "agent"
"""The model's name; requests may call it anything."""
LOOK_SECONDS = 0.25
"""How often a waiting request looks whether its client is still there."""
_POLL_SECONDS = 0.02
_OTHERS_WORD = ("tool_choice", "response_format", "reasoning_effort", "parallel_tool_calls")
"""Fields that cannot be kept here: what the model makes of the chat is what it is trained on."""


class HttpAnswer(NamedTuple):
    """What a request is answered with."""

    spoken: Spoken
    """What the model said."""
    is_cut: bool
    """Whether its turn had no more tokens."""


class RecordedRequest:
    """One request, and its answer when there is one."""

    def __init__(self, request: ChatRequest) -> None:
        self.request = request
        self._answers: SimpleQueue[HttpAnswer | None] = SimpleQueue()
        self._about = documents.about(request.model)

    def answer(self, answer: HttpAnswer | None) -> None:
        """Let whoever asked go on; nothing: the episode is over."""
        self._answers.put(answer)

    def whole(self, is_gone: Callable[[], bool]) -> Document:
        """The answer in one document."""
        spoken, is_cut = self._wait(is_gone)
        choice = documents.choice(0, spoken.message(), spoken.reason(is_stopped=not is_cut))
        return documents.whole(self._about, [choice], documents.usage(0, 0))

    def chunks(self, is_gone: Callable[[], bool]) -> Iterator[Document]:
        """The answer as a stream of one piece."""
        yield documents.chunk(self._about, 0, {"role": "assistant", "content": ""})
        spoken, is_cut = self._wait(is_gone)
        yield documents.chunk(self._about, 0, spoken.delta())
        reason = spoken.reason(is_stopped=not is_cut)
        yield documents.chunk(self._about, 0, {}, reason=reason)
        if self.request.include_usage:
            usage = {"choices": [], "usage": documents.usage(0, 0)}
            yield {**documents.chunk(self._about, 0, {}), **usage}

    def cancel(self) -> None:
        """Its turn is played all the same: what the model wrote, it wrote."""

    def _wait(self, is_gone: Callable[[], bool]) -> HttpAnswer:
        while True:
            try:
                answer = self._answers.get(timeout=LOOK_SECONDS)
            except Empty:
                if is_gone():
                    raise ClientGone from None
                continue
            if answer is None:
                raise over()
            return answer


def over() -> OpenAIError:
    """What is said to a harness that goes on asking."""
    return OpenAIError(HTTPStatus.SERVICE_UNAVAILABLE, "the episode is over")


class Recorder:
    """Takes requests in, for one episode."""

    is_alive = True

    def __init__(self, tell: Callable[[RecordedRequest], None]) -> None:
        self.metrics = Metrics()
        self._tell = tell
        self._open: list[RecordedRequest] = []
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def names(self) -> Sequence[str]:
        """The one model."""
        return (MODEL,)

    def check(self, name: str) -> None:
        """Raise ApiError where it is asked after another."""
        if name != MODEL:
            raise OpenAIError(HTTPStatus.NOT_FOUND, f"got another model, expected {MODEL}")

    def digest(self, name: str) -> str:
        """What it is trained to is nobody's affair here."""
        return ""

    def change_adapters(self, body: bytes, *, is_unloaded: bool) -> str:
        """Refused: an episode is played by one model."""
        raise OpenAIError(
            HTTPStatus.NOT_FOUND, "got another path, expected that of chat completions"
        )

    def parse(self, body: bytes) -> ChatRequest:
        """The request in a body."""
        request = chat_request.parse(body, _OTHERS_WORD)
        if request.n != 1:
            raise refused("n", f"got {request.n}, expected 1: an episode goes one way")
        if request.top_logprobs is not None:
            raise refused("logprobs", "got true, expected false: they are not recorded")
        return request

    def begin(self, request: ChatRequest) -> RecordedRequest:
        """Hand a request to the episode."""
        exchange = RecordedRequest(request)
        with self._lock:
            if self._is_over:
                raise over()
            self._open.append(exchange)
        self._tell(exchange)
        return exchange

    def close(self) -> None:
        """Answer nobody any more."""
        with self._lock:
            self._is_over = True
            for exchange in self._open:
                exchange.answer(None)


class RecordingEndpoint:
    """A recorder behind a port of this machine, and a key that opens it."""

    def __init__(self, tell: Callable[[RecordedRequest], None]) -> None:
        self._recorder = Recorder(tell)
        self.api_key = secrets.token_urlsafe(24)
        address = ("127.0.0.1", 0)
        self._server = ChatServer(address, ChatHandler, self._recorder, self.api_key, get("proxy"))
        self.base_url = f"{self._server.url}/v1"
        loop = {"poll_interval": _POLL_SECONDS}
        threading.Thread(target=self._server.serve_forever, kwargs=loop, daemon=True).start()

    def close(self) -> None:
        """Refuse what comes from now on, and free the port."""
        self._recorder.close()
        self._server.shutdown()
        self._server.server_close()
