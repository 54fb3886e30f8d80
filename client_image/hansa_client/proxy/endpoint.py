"""The recording endpoint: a harness's requests wait here until the episode has their answers."""

import math
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from queue import SimpleQueue

from hansa.core.logs import get
from hansa_client.serving import chat_request, documents, wire
from hansa_client.serving.chat_request import ChatRequest
from hansa_client.serving.documents import AnswerMessage, Document
from hansa_client.serving.errors import OpenAIError, reject_field
from hansa_client.serving.handler import ChatHandler
from hansa_client.serving.metrics import Metrics
from hansa_client.serving.server import ChatServer, Service

MODEL = "agent"
"""The model's name; requests may use any other."""
_POLL_SECONDS = 0.02
_UNUSED = ("tool_choice", "response_format", "reasoning_effort", "parallel_tool_calls")
"""Fields without effect here: the model is trained on whatever it answers to the chat."""


class RecordedRequest:
    """One request, and its answer when there is one."""

    def __init__(self, request: ChatRequest) -> None:
        self.request = request
        self._answers: SimpleQueue[tuple[AnswerMessage | None, bool]] = SimpleQueue()
        self._about = documents.make_header(request.model)

    def answer(self, spoken: AnswerMessage | None, *, is_cut: bool = False) -> None:
        """Answer the request, cut at the limit of tokens or not; None: the episode is over."""
        self._answers.put((spoken, is_cut))

    def make_document(self, is_gone: Callable[[], bool]) -> Document:
        """The answer in one document."""
        spoken, is_cut = self._wait(is_gone)
        reason = spoken.find_finish_reason(is_stopped=not is_cut)
        choice = documents.make_choice(0, spoken.to_message(), reason)
        return documents.make_completion(self._about, [choice], documents.make_usage(0, 0))

    def make_chunks(self, is_gone: Callable[[], bool]) -> Iterator[Document]:
        """The answer as a stream of one piece."""
        yield documents.make_chunk(self._about, 0, {"role": "assistant", "content": ""})
        spoken, is_cut = self._wait(is_gone)
        yield documents.make_chunk(self._about, 0, spoken.to_delta())
        reason = spoken.find_finish_reason(is_stopped=not is_cut)
        yield documents.make_chunk(self._about, 0, {}, reason=reason)
        if self.request.include_usage:
            usage = {"choices": [], "usage": documents.make_usage(0, 0)}
            yield {**documents.make_chunk(self._about, 0, {}), **usage}

    def cancel(self) -> None:
        """Nothing to free: the turn is recorded even when its client has disconnected."""

    def _wait(self, is_gone: Callable[[], bool]) -> tuple[AnswerMessage, bool]:
        spoken, is_cut = wire.wait_for(self._answers, is_gone, until=math.inf)
        if spoken is None:
            raise make_over_error()
        return spoken, is_cut


def make_over_error() -> OpenAIError:
    """What a harness gets that sends requests after the end."""
    return OpenAIError(HTTPStatus.SERVICE_UNAVAILABLE, "the episode is over")


class Recorder(Service):
    """Takes requests in, for one episode."""

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

    def parse(self, body: bytes) -> ChatRequest:
        """The request in a body."""
        request = chat_request.parse(body, _UNUSED)
        if request.n != 1:
            raise reject_field("n", f"got {request.n}, expected 1: an episode goes one way")
        if request.top_logprobs is not None:
            raise reject_field("logprobs", "got true, expected false: they are not recorded")
        return request

    def begin(self, request: ChatRequest) -> RecordedRequest:
        """Hand a request to the episode."""
        exchange = RecordedRequest(request)
        with self._lock:
            if self._is_over:
                raise make_over_error()
            self._open.append(exchange)
        self._tell(exchange)
        return exchange

    def close(self) -> None:
        """Refuse all requests from now on, and those that wait."""
        with self._lock:
            self._is_over = True
            for exchange in self._open:
                exchange.answer(None)


class RecordingEndpoint:
    """A recorder behind a local port, and the API key for it."""

    def __init__(self, tell: Callable[[RecordedRequest], None]) -> None:
        self._recorder = Recorder(tell)
        self.api_key = secrets.token_urlsafe(24)
        address = ("127.0.0.1", 0)
        self._server = ChatServer(address, ChatHandler, self._recorder, self.api_key, get("proxy"))
        self.base_url = f"{self._server.url}/v1"
        loop = {"poll_interval": _POLL_SECONDS}
        threading.Thread(target=self._server.serve_forever, kwargs=loop, daemon=True).start()

    def close(self) -> None:
        """Refuse further requests, and free the port."""
        self._recorder.close()
        self._server.shutdown()
        self._server.server_close()
