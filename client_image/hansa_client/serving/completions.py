"""Chat completions: from a request to turns of the engine, and from their tokens to documents."""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from queue import SimpleQueue

from hansa_client import seeds
from hansa_client.decoding.protocol import MAX_NEW_TOKENS
from hansa_client.models.chat_template import Chat
from hansa_client.serving import documents, wire
from hansa_client.serving.answer_text import AnswerText, Piece
from hansa_client.serving.batch_decoder import RowRequest
from hansa_client.serving.catalogue import Catalogue, parse_change
from hansa_client.serving.chat_request import ChatRequest
from hansa_client.serving.documents import AnswerMessage, Document
from hansa_client.serving.engine import Engine, PendingTurn, TurnEvent
from hansa_client.serving.errors import OpenAIError
from hansa_client.serving.metrics import Metrics
from hansa_client.serving.server import Service
from hansa_worlds import Prompt

_TOKEN_CHARACTERS = 64
"""Characters of a token on average, at most: more than any text has."""
_MOST_LOGPROBS = 2**19
_LEAST_LOGPROB = -9999.0
"""What OpenAI's API says instead of minus infinity."""


class Completions(Service):
    """Starts completions on one engine."""

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
        """Whether the engine's thread runs."""
        return self.engine.is_alive

    def digest(self, name: str) -> str:
        """Digest of an adapter's file; empty: of the base."""
        return self.catalogue.digest(name)

    def change_adapters(self, body: bytes, *, is_unloaded: bool) -> str:
        """Load or unload an adapter; its name."""
        name, path = parse_change(body)
        if is_unloaded:
            self.catalogue.remove(name)
        else:
            self.catalogue.add(name, path)
        return name

    def begin(self, request: ChatRequest) -> "Completion":
        """Queue a request's answers; OpenAIError for a long prompt or an unknown model."""
        adapter = self.catalogue.open(request.model)
        self._check_size(request)
        tokens = self.chat.encode_conversation(
            Prompt(messages=request.messages, tools=request.tools)
        )
        budget = self._compute_budget(request, len(tokens))
        _check_logprobs(request, budget)
        news: SimpleQueue[TurnEvent] = SimpleQueue()
        seed = random.SystemRandom().getrandbits(62) if request.seed is None else request.seed
        turns = [
            PendingTurn(
                request=RowRequest(
                    row=0,  # the engine chooses it
                    is_first=True,
                    tokens=tokens,
                    budget=budget,
                    uniforms=seeds.make_generator(seeds.derive(seed, "serve", n, "turn")).random(
                        budget
                    ),
                    adapter=adapter,
                    temperature=request.temperature,
                    top_p=request.top_p,
                    top_logprobs=request.top_logprobs,
                    stop=request.stop,
                ),
                streams=request.stream,
                choice=n,
                news=news,
            )
            for n in range(request.n)
        ]
        self.engine.submit(turns)
        return Completion(self, request, turns, news)

    def _check_size(self, request: ChatRequest) -> None:
        """Refuse a chat that cannot fit before its tokens are counted, which takes longer."""
        characters = len(json.dumps([*request.messages, *request.tools], ensure_ascii=False))
        most = _TOKEN_CHARACTERS * self.engine.max_length
        if characters > most:
            raise OpenAIError(
                HTTPStatus.BAD_REQUEST,
                f"messages: got {characters} characters, expected at most {most}, with which "
                f"{self.engine.max_length} tokens were {_TOKEN_CHARACTERS} characters long",
                param="messages",
                code="context_length_exceeded",
            )

    def _compute_budget(self, request: ChatRequest, prompt: int) -> int:
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


def _check_logprobs(request: ChatRequest, budget: int) -> None:
    """Bound the memory of an answer in which each token comes with others."""
    entries = request.n * budget * (1 + (request.top_logprobs or 0))
    if request.top_logprobs is not None and entries > _MOST_LOGPROBS:
        raise OpenAIError(
            HTTPStatus.BAD_REQUEST,
            f"top_logprobs: got {request.top_logprobs} for {request.n} answers of at most {budget} "
            f"tokens, expected at most {_MOST_LOGPROBS} logprobs in all",
            param="top_logprobs",
        )


class Completion:
    """One request under way: its answers, and the documents that the API returns for them."""

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
        self._about = documents.make_header(request.model)

    def make_document(self, is_gone: Callable[[], bool]) -> Document:
        """All answers in one document."""
        pieces: dict[int, list[Piece]] = {index: [] for index in range(len(self._turns))}
        for index, given, _ in self._receive(is_gone):
            pieces[index] += given
        choices = []
        for index, answer in enumerate(self._answers):
            spoken = AnswerMessage.parse(self._request, answer.text)
            reason = spoken.find_finish_reason(is_stopped=answer.is_stopped)
            logprobs = self._format_logprobs(pieces[index])
            choices.append(documents.make_choice(index, spoken.to_message(), reason, logprobs))
        return documents.make_completion(self._about, choices, self._count_usage())

    def make_chunks(self, is_gone: Callable[[], bool]) -> Iterator[Document]:
        """The answers piece by piece; one that may call tools is a single piece."""
        for index in range(len(self._turns)):
            yield self._make_chunk(index, {"role": "assistant", "content": ""})
        kept: dict[int, list[Piece]] = {index: [] for index in range(len(self._turns))}
        for index, given, is_over in self._receive(is_gone):
            kept[index] += given
            if self._request.tools and not is_over:
                continue
            pieces, kept[index] = kept[index], []
            text = "".join(piece.text for piece in pieces)
            spoken = AnswerMessage.parse(self._request, text)
            if text or (pieces and self._request.top_logprobs is not None):
                yield self._make_chunk(index, spoken.to_delta(), pieces)
            if is_over:
                reason = spoken.find_finish_reason(is_stopped=self._answers[index].is_stopped)
                yield self._make_chunk(index, {}, reason=reason)
        if self._request.include_usage:
            yield {**self._make_chunk(0, {}), "choices": [], "usage": self._count_usage()}

    def cancel(self) -> None:
        """Free the request's slots."""
        self._service.engine.cancel(self._turns)

    def _receive(self, is_gone: Callable[[], bool]) -> Iterator[tuple[int, list[Piece], bool]]:
        """Which answer grew, by what, and whether it is complete, until all are."""
        left = len(self._turns)
        while left:
            news = wire.wait_for(self._news, is_gone, self._begun + wire.ANSWER_SECONDS)
            if news.has_failed:
                raise OpenAIError(
                    HTTPStatus.INTERNAL_SERVER_ERROR,
                    "the answer was cut off: the server is shutting down, or its log says why",
                )
            left -= news.is_over
            answer = self._answers[news.choice]
            yield news.choice, answer.add(news.written, is_last=news.is_over), news.is_over
        self._record_metrics()

    def _make_chunk(
        self, index: int, delta: Document, given: Sequence[Piece] = (), reason: str | None = None
    ) -> Document:
        logprobs = self._format_logprobs(given) if given else None
        return documents.make_chunk(self._about, index, delta, logprobs, reason)

    def _format_logprobs(self, pieces: Sequence[Piece]) -> Document | None:
        if self._request.top_logprobs is None:
            return None
        texts = iter(
            self._service.chat.decode_all([[token] for p in pieces for token, _ in p.written.top])
        )
        content = [
            {
                **_format_token(piece.text, piece.written.logprob),
                "top_logprobs": [
                    _format_token(next(texts), logprob) for _, logprob in piece.written.top
                ],
            }
            for piece in pieces
        ]
        return {"content": content, "refusal": None}

    def _count_usage(self) -> Document:
        prompt = len(self._turns[0].request.tokens)
        written = sum(answer.count for answer in self._answers)
        return documents.make_usage(prompt, written)

    def _record_metrics(self) -> None:
        usage, metrics = self._count_usage(), self._service.metrics
        for kind in ("prompt", "completion"):
            metrics.tokens.labels(self._request.model, kind).inc(usage[f"{kind}_tokens"])
        metrics.seconds.observe(time.monotonic() - self._begun)


def _format_token(text: str, logprob: float) -> Document:
    return {
        "token": text,
        "logprob": max(logprob, _LEAST_LOGPROB),
        "bytes": list(text.encode()),
    }
