"""Chat requests: the body of a `/v1/chat/completions`, validated strictly.

A field that would change the answer and is not supported is refused, never ignored.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from hansa_client.serving import chat_messages
from hansa_client.serving.errors import reject_field, reject_value

MOST_CHOICES = 128
MOST_STOPS = 16
LONGEST_STOP = 256
MOST_TOP_LOGPROBS = 20
MOST_TOKENS = 2**20
"""More than any context; what fits the model's own is checked with the prompt."""
Reader = Callable[[str, Any], dict[str, Any]]
"""Takes a field's name and value; what the request says by it."""
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
    """Most likely tokens to return with each written one; None: no logprobs."""
    stream: bool = False
    """Whether to answer token by token."""
    include_usage: bool = False
    """Whether a stream ends with the count of its tokens."""


def parse(body: bytes, ignored: Collection[str] = ()) -> ChatRequest:
    """The request in a body; an error names the field, what came and what fits.

    `ignored` are fields to skip, whatever their values.
    """
    fields = parse_object(body)
    for name in ("model", "messages"):
        if fields.get(name) is None:
            raise reject_field(name, f"got nothing, expected {_NEEDED[name]}")
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name in ignored:
            continue
        if name in _NEUTRAL:
            if value is not None and value not in _NEUTRAL[name]:
                fits = " or ".join(json.dumps(neutral) for neutral in _NEUTRAL[name])
                raise reject_value(name, value, f"which is not supported, expected {fits}")
        elif name not in _FIELDS and name not in _IGNORED:
            known = ", ".join(sorted(_FIELDS))
            raise reject_field(name[:60], f"unknown field, expected one of {known}")
        elif name in _FIELDS and value is not None:
            values |= _FIELDS[name](name, value)
    wants = values.pop("logprobs", False)
    if values.get("top_logprobs") is not None and not wants:
        raise reject_field("top_logprobs", "got it without logprobs: true")
    if wants:
        values.setdefault("top_logprobs", 0)
    if fields.get("tool_choice") == "none":
        values.pop("tools", None)
    if values.get("include_usage") and not values.get("stream"):
        raise reject_field("stream_options", "got it without stream: true")
    return ChatRequest(**values)


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object in a body."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    try:
        fields = json.loads(body.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise reject_field("the body", f"got no JSON ({why[:120]}), expected an object") from None
    if not isinstance(fields, dict):
        raise reject_field("the body", "got JSON that is not an object, expected an object")
    return fields


def _make_reader(
    fits: Callable[[Any], bool], wanted: str, name: str = "", kind: type | None = None
) -> Reader:
    """Reads a field whose value fits, under its own name or another, as a kind of number."""

    def read(field: str, value: Any) -> dict[str, Any]:
        if not fits(value):
            raise reject_value(field, value, f"expected {wanted}")
        return {name or field: kind(value) if kind else value}

    return read


def _make_integer_reader(low: int, high: int, name: str = "") -> Reader:
    wanted = f"a whole number from {low} to {high}"
    return _make_reader(lambda value: type(value) is int and low <= value <= high, wanted, name)


def _make_number_reader(fits: Callable[[float], bool], wanted: str) -> Reader:
    # By type, since True is an instance of int.
    return _make_reader(
        lambda value: type(value) in (int, float) and fits(value), f"a number {wanted}", kind=float
    )


_flag = _make_reader(lambda value: isinstance(value, bool), "true or false")


def _read_stop(field: str, value: Any) -> dict[str, Any]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > MOST_STOPS:
        raise reject_value(field, value, f"expected text, or a list of at most {MOST_STOPS} texts")
    stops = [
        chat_messages.read_text(f"stop[{i}]", text, LONGEST_STOP) for i, text in enumerate(texts)
    ]
    if not all(stops):
        raise reject_field(field, "got an empty text, expected at least a character")
    return {field: tuple(stops)}


def _read_stream_options(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() - {"include_usage", "include_obfuscation"}:
        raise reject_value(field, value, "expected a mapping with include_usage")
    wanted = value.get("include_usage")
    return _flag("include_usage", False if wanted is None else wanted)


_NEEDED = {"model": "the name of a model (see /v1/models)", "messages": "a list of messages"}
_FIELDS: dict[str, Reader] = {
    "model": lambda field, value: {field: chat_messages.read_text(field, value, 256)},
    "messages": chat_messages.read_messages,
    "tools": chat_messages.read_tools,
    "max_tokens": _make_integer_reader(1, MOST_TOKENS),
    "max_completion_tokens": _make_integer_reader(1, MOST_TOKENS, "max_tokens"),
    "temperature": _make_number_reader(lambda value: 0 <= value <= 2, "from 0 to 2"),
    "top_p": _make_number_reader(lambda value: 0 < value <= 1, "above 0 and at most 1"),
    "n": _make_integer_reader(1, MOST_CHOICES),
    "stop": _read_stop,
    "seed": _make_integer_reader(*_SEEDS),
    "logprobs": _flag,
    "top_logprobs": _make_integer_reader(0, MOST_TOP_LOGPROBS),
    "stream": _flag,
    "stream_options": _read_stream_options,
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
