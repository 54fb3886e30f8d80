"""Chat requests: the body of a `/v1/chat/completions`, read strictly, as what is to be decoded.

A field that would change the answer and is not supported is refused, never ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from hansa_client.serving import chat_messages
from hansa_client.serving.errors import misfit, refused

MOST_CHOICES = 128
MOST_STOPS = 16
LONGEST_STOP = 256
MOST_TOP_LOGPROBS = 20
MOST_TOKENS = 2**20
"""More than any context; what fits the model's own is checked with the prompt."""
_SEEDS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """What a body asks for."""

    model: str
    """Name of an adapter, or of the base."""
    messages: tuple[dict[str, Any], ...]
    """The whole chat, with calls of tools and what they gave; the agent writes next."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tools that the agent may call."""
    max_tokens: int | None = None
    """Tokens of an answer at most; None: the server's default."""
    temperature: float = 1.0
    """Sampling temperature; 0 is greedy."""
    top_p: float = 1.0
    """Share of the probability that sampling draws from."""
    n: int = 1
    """Answers."""
    stop: tuple[str, ...] = ()
    """Texts before which an answer ends."""
    seed: int | None = None
    """Random seed; None: another one each time."""
    top_logprobs: int | None = None
    """Likeliest tokens returned beside each written one; None: no logprobs at all."""
    stream: bool = False
    """Whether to answer token by token."""
    include_usage: bool = False
    """Whether a stream ends with the count of its tokens."""


def parse(body: bytes, ignored: Collection[str] = ()) -> ChatRequest:
    """The request in a body; an error names the field, what came and what fits.

    `ignored` are fields that say nothing to whoever answers, whatever stands in them.
    """
    fields = mapping(body)
    for name in ("model", "messages"):
        if fields.get(name) is None:
            raise refused(name, f"got nothing, expected {_NEEDED[name]}")
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name in ignored:
            continue
        if name in _NEUTRAL:
            if value is not None and value not in _NEUTRAL[name]:
                raise misfit(name, value, f"which is not supported, expected {_neutral(name)}")
        elif name not in _FIELDS and name not in _IGNORED:
            known = ", ".join(sorted(_FIELDS))
            raise refused(name[:60], f"unknown field, expected one of {known}")
        elif name in _FIELDS and value is not None:
            values |= _FIELDS[name](name, value)
    wants = values.pop("logprobs", False)
    if values.get("top_logprobs") is not None and not wants:
        raise refused("top_logprobs", "got it without logprobs: true")
    if wants:
        values.setdefault("top_logprobs", 0)
    if fields.get("tool_choice") == "none":
        values.pop("tools", None)
    if values.get("include_usage") and not values.get("stream"):
        raise refused("stream_options", "got it without stream: true")
    return ChatRequest(**values)


def mapping(body: bytes) -> dict[str, Any]:
    """The JSON object in a body."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    try:
        fields = json.loads(body.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise refused("the body", f"got no JSON ({why[:120]}), expected an object") from None
    if not isinstance(fields, dict):
        raise refused("the body", "got JSON that is no object, expected an object")
    return fields


def _number(low: float, high: float) -> Callable[[str, Any], dict[str, Any]]:
    def read(field: str, value: Any) -> dict[str, Any]:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not low <= value <= high or not math.isfinite(value):
            raise misfit(field, value, f"expected a number from {low:g} to {high:g}")
        return {field: float(value)}

    return read


def _share(field: str, value: Any) -> dict[str, Any]:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not 0 < value <= 1:
        raise misfit(field, value, "expected a number above 0 and at most 1")
    return {field: float(value)}


def _whole(low: int, high: int, name: str = "") -> Callable[[str, Any], dict[str, Any]]:
    def read(field: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise misfit(field, value, f"expected a whole number from {low} to {high}")
        return {name or field: value}

    return read


def _flag(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise misfit(field, value, "expected true or false")
    return {field: value}


def _model(field: str, value: Any) -> dict[str, Any]:
    return {field: chat_messages.text(field, value, 256)}


def _stop(field: str, value: Any) -> dict[str, Any]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > MOST_STOPS:
        raise misfit(field, value, f"expected text, or a list of at most {MOST_STOPS} texts")
    stops = [chat_messages.text(f"stop[{i}]", text, LONGEST_STOP) for i, text in enumerate(texts)]
    if not all(stops):
        raise refused(field, "got an empty text, expected at least a character")
    return {field: tuple(stops)}


def _stream_options(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() - {"include_usage", "include_obfuscation"}:
        raise misfit(field, value, "expected a mapping with include_usage")
    wanted = value.get("include_usage")
    return _flag("include_usage", False if wanted is None else wanted)


def _neutral(name: str) -> str:
    return " or ".join(json.dumps(value) for value in _NEUTRAL[name])


_NEEDED = {"model": "the name of a model (see /v1/models)", "messages": "a list of messages"}
_FIELDS: dict[str, Callable[[str, Any], dict[str, Any]]] = {
    "model": _model,
    "messages": chat_messages.messages,
    "tools": chat_messages.tools,
    "max_tokens": _whole(1, MOST_TOKENS),
    "max_completion_tokens": _whole(1, MOST_TOKENS, "max_tokens"),
    "temperature": _number(0, 2),
    "top_p": _share,
    "n": _whole(1, MOST_CHOICES),
    "stop": _stop,
    "seed": _whole(*_SEEDS),
    "logprobs": _flag,
    "top_logprobs": _whole(0, MOST_TOP_LOGPROBS),
    "stream": _flag,
    "stream_options": _stream_options,
}
_IGNORED = {
    *("user", "metadata", "store", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_retention"),
}
"""Fields that say nothing about the answer's text."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
}
"""Fields that are not supported, and the values that change nothing."""
