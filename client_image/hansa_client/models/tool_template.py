"""Rendering a chat with tools by the model's own template, if that supports tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hansa_client.models.tool_format import Message, parse_arguments

_TOOL = "hansa_marker_tool"
_ANSWER = "HansaAnswerText"
_ACTION = "HansaActionText"
_PROBE = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {}},
    },
}


def knows_tools(tokenizer: Any) -> bool:
    """Whether a template renders tools, and the result of a call."""
    call = {"id": "call_0", "type": "function", "function": {"name": _TOOL, "arguments": "{}"}}
    messages: list[Message] = [
        {"role": "user", "content": "A question."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": _ANSWER},
    ]
    text = render(tokenizer, messages, [_PROBE], str)
    return text is not None and text.count(_TOOL) == 2 and text.count(_ANSWER) == 1


def render(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Message],
    clean: Callable[[str], str],
) -> str | None:
    """The chat up to where the agent writes next; None where the template fails."""
    try:
        text: str = tokenizer.apply_chat_template(
            [_clean_value(message, clean) for message in messages],
            tools=[_clean_value(tool, clean) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=True,
        )
    except Exception:  # a template may raise anything
        return None
    return text


def render_continuation(
    tokenizer: Any,
    messages: Sequence[Message],
    known: int,
    tools: Sequence[Message],
    clean: Callable[[str], str],
) -> str | None:
    """The text behind the agent's last turn; None where the template fails."""
    marked = [*messages[: known - 1], {"role": "assistant", "content": _ACTION}, *messages[known:]]
    text = render(tokenizer, marked, tools, clean)
    if text is None or text.count(_ACTION) != 1:
        return None
    return text.split(_ACTION)[1]


def _clean_value(value: Any, clean: Callable[[str], str]) -> Any:
    """The same with all texts cleaned, and arguments of calls as data."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        if isinstance(value.get("arguments"), str) and "name" in value:
            value = {**value, "arguments": parse_arguments(value)}
        return {clean(name): _clean_value(each, clean) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_value(each, clean) for each in value]
    return value
