"""One line per event on standard error: readable by default, JSON with HANSA_LOG=json.

Events are stable names with fields, so that machines can count them. Secrets are shown as ***: by
the field's name, and wherever the program's own AWS secrets occur in text. Other secrets inside
the text of a harmless field are not recognized.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from hansa.core.canonical import parse_object
from hansa.core.sanitize import sanitize

ENV_LOG = "HANSA_LOG"
HIDDEN = "***"
EXPERIENCE = "HANSA_EXPERIENCE_"
"""Prefix of the AWS_* variables for a silo's private store with credentials of its own."""

Level = Literal["info", "warning", "error"]

_SECRET_WORDS = frozenset(
    {"secret", "password", "passwd", "token", "key", "credential", "credentials", "authorization"}
)
_SECRET_VARIABLES = tuple(
    f"{before}{name}"
    for before in ("", EXPERIENCE)
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
)
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_STOPPED = re.compile(r"\bstopped - (.+)$")
_PLAIN = re.compile(r"[^\s\"'=]+")
_HEAD = re.compile(r"^\d\d:\d\d:\d\d (warning|error) \S+ - ")
"""What `as_text` puts before a message."""


class Log:
    """Writes the events of one program; never raises, since a full disk must not fail a Job."""

    def __init__(self, program: str, clock: Callable[[], datetime] | None = None) -> None:
        self._program = program
        self._clock = clock or partial(datetime.now, UTC)

    def info(self, event: str, **fields: Any) -> None:
        """A step was done."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something is wrong and the program continues."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """The program ends because of this."""
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        shape = format_json if os.environ.get(ENV_LOG) == "json" else format_text
        line = shape(self._clock(), self._program, level, event, redact(fields))
        try:
            sys.stderr.write(_scrub(line) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, RuntimeError):
            return  # closed, full, or called again from a signal handler


def get(program: str) -> Log:
    """The log of a program."""
    return Log(program)


def format_json(
    time: datetime, program: str, level: Level, event: str, fields: dict[str, Any]
) -> str:
    """The event as one JSON object; its own names win over a field of the same name."""
    own = {"time": time.isoformat(timespec="milliseconds"), "level": level}
    document = {**fields, **own, "program": program, "event": event}
    return json.dumps(document, ensure_ascii=True, default=str)


def format_text(
    time: datetime, program: str, level: Level, event: str, fields: dict[str, Any]
) -> str:
    """The event as a person reads it: local time, event, message, then key=value."""
    parts = [time.astimezone().strftime("%H:%M:%S")]
    if level != "info":
        parts.append(level)
    parts.append(event)
    if "message" in fields:
        parts.append(f"- {_join_lines(fields['message'])}")
    rest = {k: v for k, v in fields.items() if k not in ("message", "hint", "traceback")}
    parts += [f"{name}={_format_value(value)}" for name, value in rest.items()]
    if fields.get("hint"):
        parts.append(f"(hint: {_join_lines(fields['hint'])})")
    if "traceback" in fields:
        parts.append("\n" + sanitize(fields["traceback"]).rstrip())
    return " ".join(parts)


def extract_message(line: str) -> str:
    """The message in an event's line; any other line without its time and level."""
    event = _parse_event(line)
    if event is None:
        return _HEAD.sub("", line, count=1)
    hint = f" (hint: {_get_text(event, 'hint')})" if _get_text(event, "hint") else ""
    traceback = _get_text(event, "traceback").strip().splitlines()
    return f"{_get_text(event, 'message') or (traceback or [_get_text(event, 'event')])[-1]}{hint}"


def find_stop_message(text: str) -> str:
    """The last message of a program that stopped, from its log; empty when there is none."""
    for line in reversed(text.splitlines()):
        match = _STOPPED.search(line)
        if match:
            return match[1]
        event = _parse_event(line) or {}
        if event.get("event") == "stopped" and _get_text(event, "message"):
            return extract_message(line)
    return ""


def _parse_event(line: str) -> dict[str, Any] | None:
    """The event of a JSON line; None for any other line."""
    fields = parse_object(line) if line.startswith("{") else None
    return fields if fields and "event" in fields else None


def _get_text(event: dict[str, Any], name: str) -> str:
    """A text field of an event; empty where it is absent or of another type."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def redact(value: Any) -> Any:
    """The same data with the values of secret names hidden, at any depth."""
    if isinstance(value, dict):
        return {k: HIDDEN if is_secret(str(k)) else redact(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in value]
    return value


def is_secret(name: str) -> bool:
    """Whether a field of this name may hold a secret; `tokens` is a count, `token` is not."""
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def _scrub(line: str) -> str:
    for variable in _SECRET_VARIABLES:
        secret = os.environ.get(variable, "")
        if len(secret) >= 8:  # shorter ones are placeholders, and would eat ordinary words
            line = line.replace(secret, HIDDEN)
    return line


def _join_lines(value: Any) -> str:
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.isprintable():
        return value
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(value, default=str)
