"""Tools as text, for models whose template does not support them, and parsing of tool calls.

The format is that of Hermes: a call is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`,
and a result is `<tool_response>...</tool_response>` in a user turn.
"""

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


def render_plain(messages: Sequence[Message], tools: Sequence[Message]) -> tuple[str, list[str]]:
    """The system text, and the turns of user and assistant, with tools as text."""
    system = [str(message["content"]) for message in messages if message["role"] == "system"]
    if tools:
        system.append(_TOOLS + "\n".join(json.dumps(tool) for tool in tools))
    texts: list[str] = []
    for message in messages:
        if message["role"] == "system":
            continue
        is_agents = message["role"] == "assistant"
        if len(texts) % 2 == is_agents:
            texts.append(render_message(message))
        elif texts:
            texts[-1] += "\n" + render_message(message)
        else:
            texts = ["", render_message(message)]
    return "\n".join(system), texts


def render_message(message: Message) -> str:
    """A message as text."""
    content = str(message.get("content") or "")
    if message["role"] == "tool":
        return f"<tool_response>\n{content}\n</tool_response>"
    calls = []
    for function in (each["function"] for each in message.get("tool_calls") or ()):
        call = {"name": function["name"], "arguments": parse_arguments(function)}
        calls.append(f"<tool_call>\n{json.dumps(call)}\n</tool_call>")
    return "\n".join([*([content] if content or not calls else []), *calls])


def parse_arguments(function: Message) -> Any:
    """A call's arguments as data, or as text if they are not JSON."""
    try:
        return json.loads(function["arguments"])
    except ValueError:
        return function["arguments"]


def parse(text: str, before: int) -> tuple[str, list[dict[str, Any]]]:
    """The text of a model's turn, and its calls in the format of OpenAI's API.

    A turn of bare JSON with a name and arguments, as some models write it, is a call, too. Invalid
    calls stay text. Calls are numbered from `before` on.
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
    """The calls in a JSON text; empty if it is anything else."""
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
