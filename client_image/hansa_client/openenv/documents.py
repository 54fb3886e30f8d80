"""What OpenEnv's clients read and write: messages, errors and schemas as plain data."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from hansa import __version__
from hansa_worlds import World
from hansa_worlds.base import SPLITS

Document = dict[str, Any]

LONGEST_MESSAGE = 100_000
"""Characters of an action; a world looks at far fewer."""
LONGEST_ID = 255
_TEXT = {"type": "string"}
_METADATA = {"type": "object", "additionalProperties": True}


class Refused(Exception):
    """A message that is not carried out: a code of OpenEnv's, and why."""

    def __init__(self, code: str, message: str, **more: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more

    def document(self) -> Document:
        """As a WebSocket's client reads it."""
        return {
            "type": "error",
            "data": {"message": self.message, "code": self.code, **self.more},
        }


def invalid(field: str, kind: str, sentence: str) -> Refused:
    """A message with a wrong field; `kind` is pydantic's word, which clients of OpenEnv know."""
    error = {"type": kind, "loc": [field], "msg": sentence}
    return Refused("VALIDATION_ERROR", f"{field}: {sentence}", errors=[error])


def parse(body: bytes | str) -> Document:
    """The JSON object in a message or a body."""
    try:
        value = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused("INVALID_JSON", "the message: expected JSON") from None
    if not isinstance(value, dict):
        raise Refused("INVALID_JSON", "the message: expected a JSON object")
    return value


def check_known(given: Document, known: tuple[str, ...]) -> None:
    """Refuse what nobody asked for: a mistyped field must not pass."""
    for name in given:
        if name not in known:
            raise invalid(name[:40], "extra_forbidden", f"unknown, expected {', '.join(known)}")


def message_in(action: object) -> str:
    """The text of an action."""
    if not isinstance(action, dict):
        raise invalid("action", "dict_type", 'expected {"message": text}')
    check_known(action, ("message", "metadata"))
    if "message" not in action:
        raise invalid("message", "missing", "got nothing, expected text")
    text = action["message"]
    if not isinstance(text, str) or len(text) > LONGEST_MESSAGE:
        raise invalid(
            "message", "string_type", f"expected text of at most {LONGEST_MESSAGE} characters"
        )
    return text


def text_in(given: Document, field: str, most: int) -> str | None:
    """An optional short text."""
    value = given.get(field)
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= most):
        raise invalid(field, "string_type", f"expected text of at most {most} characters")
    return value


def seed_in(given: Document) -> int | None:
    """An optional seed."""
    value = given.get("seed")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise invalid("seed", "int_type", "expected a whole number of at least 0")
    return value


def about(world: World, name: str) -> Document:
    """The answer to /metadata."""
    return {
        "name": name,
        "description": world.brief or f"Hansa's world {name}",
        "readme_content": world.rules or None,
        "version": __version__,
        "author": "Hansa",
        "documentation_url": None,
    }


def schemas() -> Document:
    """The answer to /schema."""
    return {
        "action": {
            "title": "WorldAction",
            "type": "object",
            "properties": {"message": _TEXT, "metadata": _METADATA},
            "required": ["message"],
            "additionalProperties": False,
        },
        "observation": {
            "title": "WorldObservation",
            "type": "object",
            "properties": {
                "text": _TEXT,
                "done": {"type": "boolean"},
                "reward": {"type": "number"},
                "metadata": _METADATA,
            },
            "additionalProperties": False,
        },
        "state": {
            "title": "WorldState",
            "type": "object",
            "properties": {
                "episode_id": _TEXT,
                "step_count": {"type": "integer", "minimum": 0},
                "world": _TEXT,
                "task": _TEXT,
                "split": {"enum": [*SPLITS]},
                "done": {"type": "boolean"},
                "success": {"type": "boolean"},
            },
        },
    }


def openapi(name: str) -> Document:
    """The answer to /openapi.json: which paths there are, under OpenEnv's version of them."""
    paths = {
        "get": ("/health", "/metadata", "/schema", "/state"),
        "post": ("/reset", "/step", "/mcp"),
    }
    answers = {"200": {"description": "Answered"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Hansa's world {name}", "version": "1.0.0"},
        "paths": {
            path: {method: {"responses": answers}}
            for method, some in paths.items()
            for path in some
        },
    }


def rpc_refusal(body: bytes) -> Document:
    """The answer to /mcp: worlds have no tools, and a client that looks for some is told so."""
    try:
        given = parse(body or b"{}")
    except Refused:
        given = {}
    asks = isinstance(given.get("method"), str)
    why = (-32601, "a world has no tools") if asks else (-32600, "method: expected text")
    number = given.get("id")
    known = number if isinstance(number, int | str) and len(str(number)[:101]) <= 100 else None
    return {"jsonrpc": "2.0", "id": known, "error": {"code": why[0], "message": why[1]}}


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
