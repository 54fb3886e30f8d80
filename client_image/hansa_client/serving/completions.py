"""Chat completions: from a request to turns of the engine, and from their tokens to documents."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from queue import Empty, SimpleQueue

from hansa_client import seeds
from hansa_client.decoding.protocol import MAX_NEW_TOKENS
from hansa_client.models.chat_template import Chat
from hansa_client.serving import adapter_request, chat_request, documents
from hansa_client.serving.answer_text import AnswerText, Piece
from hansa_client.serving.catalogue import Catalogue
from hansa_client.serving.chat_request import ChatRequest
from hansa_client.serving.documents import Document, Spoken
from hansa_client.serving.engine import Engine, PendingTurn, TurnEvent
from hansa_client.serving.errors import ClientGone, OpenAIError
from hansa_client.serving.metrics import Metrics
from hansa_worlds import Prompt

ANSWER_SECONDS = 600.0
"""The longest that anybody waits for the end of an answer."""
LOOK_SECONDS = 0.25
"""How often a waiting request looks whether its client is still there."""
_LEAST_LOGPROB = -9999.0
"""What OpenAI's API says instead of minus infinity."""


class Completions:
    """Begins completions on one engine."""

    def __init__(self, chat: Chat, engine: Engine, catalogue: Catalogue, metrics: Metrics) -> None:
        self.chat = chat
        self.engine = engine
        self.catalogue = catalogue
        self.metrics = metrics

    @property
    def names(self) -> Sequence[str]:
        """Adapters, and the base."""
        return self.catalogue.names

    @property
    def is_alive(self) -> bool:
        """Whether the engine writes."""
        return self.engine.is_alive

    def check(self, name: str) -> None:
        """Raise ApiError where there is no such adapter."""
        self.catalogue.check(name)

    def digest(self, name: str) -> str:
        """Digest of an adapter's file; empty: of the base."""
        return self.catalogue.digest(name)

    def change_adapters(self, body: bytes, *, is_unloaded: bool) -> str:
        """Load an adapter, or forget it; its name."""
        change = adapter_request.parse(body)
        if is_unloaded:
            self.catalogue.remove(change.name)
        else:
            self.catalogue.add(change.name, change.path)
        return change.name

    def parse(self, body: bytes) -> ChatRequest:
        """The request in a body."""
        return chat_request.parse(body)

    def begin(self, request: ChatRequest) -> Completion:
        """Have a request's answers written; ApiError where that cannot be."""
        adapter = self.catalogue.open(request.model)
        tokens = self.chat.conversation(Prompt(messages=request.messages, tools=request.tools))
        budget = self._budget(request, len(tokens))
        news: SimpleQueue[TurnEvent] = SimpleQueue()
        seed = random.SystemRandom().getrandbits(62) if request.seed is None else request.seed
        turns = [
            PendingTurn(
                tokens=tokens,
                budget=budget,
                uniforms=seeds.generator(seeds.derive(seed, "serve", n, "turn")).random(budget),
                adapter=adapter,
                temperature=request.temperature,
                top_p=request.top_p,
                top_logprobs=request.top_logprobs,
                stop=request.stop,
                streams=request.stream,
                choice=n,
                news=news,
            )
            for n in range(request.n)
        ]
        self.engine.submit(turns)
        return Completion(self, request, turns, news)

    def _budget(self, request: ChatRequest, prompt: int) -> int:
        """Tokens that an answer may have: what was asked for, if it fits behind the prompt."""
        room = self.engine.max_length - prompt
        asked = request.max_tokens
        if room < 1 or (asked or 0) > room:
            whole = f"messages: got {prompt} tokens" + (f" and max_tokens {asked}" if asked else "")
            raise OpenAIError(
                HTTPStatus.BAD_REQUEST,
                f"{whole}, expected at most {self.engine.max_length} together with the answer",
                param="messages",
                code="context_length_exceeded",
            )
        return asked or min(room, MAX_NEW_TOKENS)


class Completion:
    """One request under way: its answers, and how the API tells of them."""

    def __init__(
        self,
        service: Completions,
        request: ChatRequest,
        turns: Sequence[PendingTurn],
        news: SimpleQueue[TurnEvent],
    ) -> None:
        self._service = service
        self._request = request
        self._turns = turns
        self._news = news
        self._answers = [AnswerText(service.chat, request.stop) for _ in turns]
        self._begun = time.monotonic()
        self._about = documents.about(request.model)

    def whole(self, is_gone: Callable[[], bool]) -> Document:
        """All answers in one document."""
        pieces: dict[int, list[Piece]] = {index: [] for index in range(len(self._turns))}
        for index, given, _ in self._given(is_gone):
            pieces[index] += given
        choices = []
        for index, answer in enumerate(self._answers):
            spoken = Spoken.of(self._request, answer.text)
            reason = spoken.reason(is_stopped=answer.is_stopped)
            logprobs = self._logprobs(pieces[index])
            choices.append(documents.choice(index, spoken.message(), reason, logprobs))
        return documents.whole(self._about, choices, self._usage())

    def chunks(self, is_gone: Callable[[], bool]) -> Iterator[Document]:
        """The answers piece by piece; one that may call tools is a single piece."""
        for index in range(len(self._turns)):
            yield self._chunk(index, {"role": "assistant", "content": ""})
        kept: dict[int, list[Piece]] = {index: [] for index in range(len(self._turns))}
        for index, given, is_over in self._given(is_gone):
            kept[index] += given
            if self._request.tools and not is_over:
                continue
            pieces, kept[index] = kept[index], []
            text = "".join(piece.text for piece in pieces)
            spoken = Spoken.of(self._request, text)
            if text or (pieces and self._request.top_logprobs is not None):
                yield self._chunk(index, spoken.delta(), pieces)
            if is_over:
                reason = spoken.reason(is_stopped=self._answers[index].is_stopped)
                yield self._chunk(index, {}, reason=reason)
        if self._request.include_usage:
            yield {**self._chunk(0, {}), "choices": [], "usage": self._usage()}

    def cancel(self) -> None:
        """Free its slots."""
        self._service.engine.cancel(self._turns)

    def _given(self, is_gone: Callable[[], bool]) -> Iterator[tuple[int, list[Piece], bool]]:
        """Which answer grew, by what, and whether it is over, until all are."""
        left = len(self._turns)
        while left:
            news = self._next(is_gone)
            if news.has_failed:
                raise OpenAIError(
                    HTTPStatus.INTERNAL_SERVER_ERROR,
                    "the answer was broken off: the server ends, or its log says why",
                )
            left -= news.is_over
            answer = self._answers[news.choice]
            yield news.choice, answer.add(news.written, is_last=news.is_over), news.is_over
        self._count()

    def _next(self, is_gone: Callable[[], bool]) -> TurnEvent:
        while True:
            try:
                return self._news.get(timeout=LOOK_SECONDS)
            except Empty:
                if is_gone():
                    raise ClientGone from None
                if time.monotonic() - self._begun > ANSWER_SECONDS:
                    raise OpenAIError(
                        HTTPStatus.GATEWAY_TIMEOUT,
                        f"the answer took longer than {ANSWER_SECONDS:.0f} s",
                    ) from None

    def _chunk(
        self, index: int, delta: Document, given: Sequence[Piece] = (), reason: str | None = None
    ) -> Document:
        logprobs = self._logprobs(given) if given else None
        return documents.chunk(self._about, index, delta, logprobs, reason)

    def _logprobs(self, pieces: Sequence[Piece]) -> Document | None:
        if self._request.top_logprobs is None:
            return None
        texts = iter(
            self._service.chat.texts([[token] for p in pieces for token, _ in p.written.top])
        )
        content = [
            {
                **_token(piece.text, piece.written.logprob),
                "top_logprobs": [_token(next(texts), logprob) for _, logprob in piece.written.top],
            }
            for piece in pieces
        ]
        return {"content": content, "refusal": None}

    def _usage(self) -> Document:
        prompt = len(self._turns[0].tokens)
        written = sum(answer.count for answer in self._answers)
        return documents.usage(prompt, written)

    def _count(self) -> None:
        usage, metrics = self._usage(), self._service.metrics
        for kind in ("prompt", "completion"):
            metrics.tokens.labels(self._request.model, kind).inc(usage[f"{kind}_tokens"])
        metrics.seconds.observe(time.monotonic() - self._begun)


def _token(text: str, logprob: float) -> Document:
    return {
        "token": text,
        "logprob": max(logprob, _LEAST_LOGPROB),
        "bytes": list(text.encode()),
    }
