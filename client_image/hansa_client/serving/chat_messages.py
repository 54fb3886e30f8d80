"""Messages and tools of a chat request, read strictly, as plain data that a template renders."""

import json
import re
from typing import Any

from hansa_client.serving.errors import reject_field, reject_value

MOST_MESSAGES = 2048
MOST_TOOLS = 128
MOST_CALLS = 128
LONGEST_TEXT = 2**22
DEEPEST = 32
"""Levels of a tool's JSON Schema."""
_ROLES = ("system", "developer", "user", "assistant", "tool")
_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)


def read_text(field: str, value: Any, longest: int = LONGEST_TEXT) -> str:
    """A field's text; an error where it is none, or no Unicode."""
    if not isinstance(value, str):
        raise reject_value(field, value, "expected text")
    if len(value) > longest:
        raise reject_field(field, f"got {len(value)} characters, expected at most {longest}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise reject_field(field, "got half of a surrogate pair, expected Unicode text") from None
    return value


def read_messages(field: str, value: Any) -> dict[str, Any]:
    """The messages, system ones first and as one; user and assistant take turns.

    A user's messages in a row become one: many templates render no other conversation. Behind an
    assistant that called tools, what these gave is the user's turn, and a user may add to it.
    """
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_MESSAGES:
        raise reject_value(field, value, f"expected a list of 1 to {MOST_MESSAGES} messages")
    system: list[str] = []
    chat: list[dict[str, Any]] = []
    for index, message in enumerate(value):
        where = f"messages[{index}]"
        read = _read_message(where, message)
        if read["role"] == "system" and not chat:
            system.append(read["content"])
            continue
        if chat and read["role"] == chat[-1]["role"] == "user":
            chat[-1]["content"] += f"\n{read['content']}"
            continue
        fits = _find_next_roles(chat)
        if read["role"] not in fits:
            expected = " or ".join(fits if chat else ("system", *fits))
            raise reject_value(
                f"{where}.role", read["role"], f"expected {expected} there: they take turns"
            )
        chat.append(read)
    if not chat or chat[-1]["role"] == "assistant":
        raise reject_field(field, "got an assistant's message at the end, expected a user's")
    opening = [{"role": "system", "content": "\n".join(system)}] if any(system) else []
    return {field: (*opening, *chat)}


def _find_next_roles(chat: list[dict[str, Any]]) -> tuple[str, ...]:
    """Roles that the next message may have."""
    last = chat[-1] if chat else {"role": "assistant"}
    if last["role"] == "tool":
        return ("tool", "user", "assistant")
    if last["role"] == "user":
        return ("assistant",)
    return ("tool", "user") if last.get("tool_calls") else ("user",)


def _read_message(where: str, message: Any) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise reject_value(where, message, "expected a mapping with role and content")
    role = message.get("role")
    if role not in _ROLES:
        raise reject_value(f"{where}.role", role, "expected system, user, assistant or tool")
    known = {"role", "content", "name", *_MORE.get(role, ())}
    given = {name for name, part in message.items() if part not in (None, [], "")}
    for name in sorted(given - known):
        raise reject_field(f"{where}.{name[:60]}", "is not supported, expected role and content")
    read: dict[str, Any] = {"role": "system" if role == "developer" else role}
    if role == "assistant" and message.get("tool_calls"):
        read["tool_calls"] = _read_calls(f"{where}.tool_calls", message["tool_calls"])
    content = message.get("content")
    is_absent = content is None and "tool_calls" in read
    read["content"] = "" if is_absent else _read_content(f"{where}.content", content)
    if role == "tool":
        read["tool_call_id"] = read_text(f"{where}.tool_call_id", message.get("tool_call_id"), 256)
    return read


def _read_content(where: str, content: Any) -> str:
    if not isinstance(content, list):
        return read_text(where, content)
    parts = []
    for index, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            kind = part.get("type") if isinstance(part, dict) else part
            raise reject_value(
                f"{where}[{index}].type", kind, "expected text: nothing else is supported"
            )
        parts.append(read_text(f"{where}[{index}].text", part.get("text")))
    return "".join(parts)


def _read_calls(where: str, calls: Any) -> list[dict[str, Any]]:
    if not isinstance(calls, list) or len(calls) > MOST_CALLS:
        raise reject_value(where, calls, f"expected a list of at most {MOST_CALLS} calls")
    return [_read_call(f"{where}[{index}]", call) for index, call in enumerate(calls)]


def _read_call(where: str, call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise reject_value(where, call, "expected a mapping with id and function")
    return {
        "id": read_text(f"{where}.id", call.get("id"), 256),
        "type": "function",
        "function": {
            "name": read_text(f"{where}.function.name", function.get("name"), 256),
            "arguments": read_text(f"{where}.function.arguments", function.get("arguments")),
        },
    }


def read_tools(field: str, value: Any) -> dict[str, Any]:
    """Tools that may be called: functions with a name and, as JSON Schema, their parameters."""
    if not isinstance(value, list) or len(value) > MOST_TOOLS:
        raise reject_value(field, value, f"expected a list of at most {MOST_TOOLS} tools")
    return {field: tuple(_read_tool(f"tools[{index}]", tool) for index, tool in enumerate(value))}


def _read_tool(where: str, tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or tool.get("type") != "function":
        raise reject_value(where, tool, "expected a mapping with type: function and function")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise reject_value(f"{where}.function.name", name, "expected letters, digits, _, . and -")
    parameters = function.get("parameters")
    if parameters is not None and not (isinstance(parameters, dict) and _is_shallow(parameters)):
        raise reject_value(
            f"{where}.function.parameters",
            parameters,
            f"expected a JSON Schema of at most {DEEPEST} levels",
        )
    read = {
        "name": name,
        "description": read_text(
            f"{where}.function.description", function.get("description") or ""
        ),
        "parameters": parameters or {"type": "object", "properties": {}},
    }
    read_text(f"{where}.function", json.dumps(read, ensure_ascii=False))  # its names and texts, too
    return {"type": "function", "function": read}


def _is_shallow(value: Any, left: int = DEEPEST) -> bool:
    """Whether data has at most `left` levels: deeper ones would exhaust the JSON encoder."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return left > 0 and all(_is_shallow(each, left - 1) for each in inner)
    return True


_MORE: dict[str, tuple[str, ...]] = {
    "assistant": ("tool_calls", "refusal", "annotations", "audio", "function_call"),
    "tool": ("tool_call_id",),
}
"""Fields that a role may have beside role, content and name."""
