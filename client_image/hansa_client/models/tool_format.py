"""Tools in text: how a chat with tools is told to a model whose template knows none, and read back.

The format is that of Hermes: a call is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`,
what a tool gave is `<tool_response>...</tool_response>` in a turn of the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_TOOLS = """You may call tools. To call one, write
<tool_call>
{"name": "<the tool's name>", "arguments": {<its arguments>}}
</tool_call>
These are the tools:
"""
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)

Message = Mapping[str, Any]


def plain(messages: Sequence[Message], tools: Sequence[Message]) -> tuple[str, list[str]]:
    """The system's text, and what user and assistant said in turn, with tools as text."""
    system = [str(message["content"]) for message in messages if message["role"] == "system"]
    if tools:
        system.append(_TOOLS + "\n".join(json.dumps(tool) for tool in tools))
    texts: list[str] = []
    for message in messages:
        if message["role"] == "system":
            continue
        is_agents = message["role"] == "assistant"
        if len(texts) % 2 == is_agents:
            texts.append(said(message))
        elif texts:
            texts[-1] += "\n" + said(message)
        else:
            texts = ["", said(message)]
    return "\n".join(system), texts


def said(message: Message) -> str:
    """A message as text."""
    content = str(message.get("content") or "")
    if message["role"] == "tool":
        return f"<tool_response>\n{content}\n</tool_response>"
    calls = [_call(each["function"]) for each in message.get("tool_calls") or ()]
    return "\n".join([*([content] if content or not calls else []), *calls])


def _call(function: Message) -> str:
    call = {"name": function["name"], "arguments": arguments(function)}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


def arguments(function: Message) -> Any:
    """A call's arguments as data; text that is no JSON stays text."""
    try:
        return json.loads(function["arguments"])
    except ValueError:
        return function["arguments"]


def parse(text: str, before: int) -> tuple[str, list[dict[str, Any]]]:
    """What a model's turn says beside its calls, and the calls as OpenAI's API has them.

    A turn that is nothing but JSON with a name and arguments, which some models write, is a call,
    too. What is no call stays text. Calls are numbered from `before` on.
    """
    written: list[tuple[str, Any]] = []

    def take(match: re.Match[str]) -> str:
        calls = _read(match[1])
        written.extend(calls)
        return "" if calls else match[0]

    rest = _CALL.sub(take, text)
    if not written and (bare := _read(text)):
        written, rest = bare, ""
    return rest.strip(), [
        {
            "id": f"call_{before + at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(given)},
        }
        for at, (name, given) in enumerate(written)
    ]


def _read(text: str) -> list[tuple[str, Any]]:
    """The calls in a JSON text; none where it is anything else."""
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return []
    calls = []
    for each in data if isinstance(data, list) else [data]:
        given = each.get("arguments", each.get("parameters")) if isinstance(each, dict) else None
        if not isinstance(given, dict) or not isinstance(name := each.get("name"), str):
            return []
        calls.append((name.encode(errors="replace").decode(), given))
    return calls


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
