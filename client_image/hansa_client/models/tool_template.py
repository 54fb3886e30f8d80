"""A chat with tools as the model's own template renders it, where that knows tools at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hansa_client.models.tool_format import Message, arguments

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
    """Whether a template shows the tools that it is given, and what a tool answered."""
    call = {"id": "call_0", "type": "function", "function": {"name": _TOOL, "arguments": "{}"}}
    messages: list[Message] = [
        {"role": "user", "content": "A question."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": _ANSWER},
    ]
    text = rendered(tokenizer, messages, [_PROBE], str)
    return text is not None and text.count(_TOOL) == 2 and text.count(_ANSWER) == 1


def rendered(
    tokenizer: Any,
    messages: Sequence[Message],
    tools: Sequence[Message],
    clean: Callable[[str], str],
) -> str | None:
    """The chat up to where the agent writes next; None where the template cannot say it."""
    try:
        text: str = tokenizer.apply_chat_template(
            [_cleaned(message, clean) for message in messages],
            tools=[_cleaned(tool, clean) for tool in tools] or None,
            tokenize=False,
            add_generation_prompt=True,
        )
    except Exception:  # a template is a program of its own: jinja raises what it likes
        return None
    return text


def continued(
    tokenizer: Any,
    messages: Sequence[Message],
    known: int,
    tools: Sequence[Message],
    clean: Callable[[str], str],
) -> str | None:
    """What the template writes behind the agent's last turn; None where it cannot say it."""
    marked = [*messages[: known - 1], {"role": "assistant", "content": _ACTION}, *messages[known:]]
    text = rendered(tokenizer, marked, tools, clean)
    if text is None or text.count(_ACTION) != 1:
        return None
    return text.split(_ACTION)[1]


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """The same, with no text in it that forges the end of a turn; arguments of calls as data."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        if isinstance(value.get("arguments"), str) and "name" in value:
            value = {**value, "arguments": arguments(value)}
        return {clean(name): _cleaned(each, clean) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each, clean) for each in value]
    return value
