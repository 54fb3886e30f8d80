"""One line per event on standard error: readable by default, JSON with HANSA_LOG=json.

Events are stable names with fields, never formatted prose, so that a machine can count what a
person reads. Secrets are shown as ***: by the field's name, and wherever the program's own AWS
secrets turn up in a text. Other secrets inside the text of a harmless field are not recognized.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from hansa.core.sanitize import visible

ENV_LOG = "HANSA_LOG"
HIDDEN = "***"
EXPERIENCE = "HANSA_EXPERIENCE_"
"""Before the AWS_* variables of a silo's private store, where that has an identity of its own."""

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


def _now() -> datetime:
    return datetime.now(UTC)


class Log:
    """Writes the events of one program; never raises, since a full disk must not end a Job."""

    def __init__(self, program: str, clock: Callable[[], datetime] = _now) -> None:
        self._program = program
        self._clock = clock

    def info(self, event: str, **fields: Any) -> None:
        """A step was done."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something is wrong and the program goes on."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """The program ends because of this."""
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        shape = as_json if os.environ.get(ENV_LOG) == "json" else as_text
        line = shape(self._clock(), self._program, level, event, redacted(fields))
        try:
            sys.stderr.write(_scrubbed(line) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, RuntimeError):
            return  # closed, full, or called again from a signal handler


def get(program: str) -> Log:
    """The log of a program."""
    return Log(program)


def as_json(time: datetime, program: str, level: Level, event: str, fields: dict[str, Any]) -> str:
    """The event as one JSON object; its own names win over a field of the same name."""
    own = {"time": time.isoformat(timespec="milliseconds"), "level": level}
    document = {**fields, **own, "program": program, "event": event}
    return json.dumps(document, ensure_ascii=True, default=str)


def as_text(time: datetime, program: str, level: Level, event: str, fields: dict[str, Any]) -> str:
    """The event as a person reads it: local time, event, message, then key=value."""
    parts = [time.astimezone().strftime("%H:%M:%S")]
    if level != "info":
        parts.append(level)
    parts.append(event)
    if "message" in fields:
        parts.append(f"- {_one_line(fields['message'])}")
    rest = {k: v for k, v in fields.items() if k not in ("message", "hint", "traceback")}
    parts += [f"{name}={_shown(value)}" for name, value in rest.items()]
    if fields.get("hint"):
        parts.append(f"(hint: {_one_line(fields['hint'])})")
    if "traceback" in fields:
        parts.append("\n" + visible(fields["traceback"]).rstrip())
    return " ".join(parts)


def sentence(line: str) -> str:
    """What an event's line says, in the program's own words; any other line as it is."""
    event = _event(line)
    if event is None:
        return _HEAD.sub("", line, count=1)
    hint = f" (hint: {_text(event, 'hint')})" if _text(event, "hint") else ""
    traceback = _text(event, "traceback").strip().splitlines()
    return f"{_text(event, 'message') or (traceback or [_text(event, 'event')])[-1]}{hint}"


def stopped_with(text: str) -> str:
    """The sentence that a program stopped with, from the end of its log; empty when it has none."""
    for line in reversed(text.splitlines()):
        match = _STOPPED.search(line)
        if match:
            return match[1]
        event = _event(line) or {}
        if event.get("event") == "stopped" and _text(event, "message"):
            return sentence(line)
    return ""


def _event(line: str) -> dict[str, Any] | None:
    """The event of a JSON line; nothing for any other line, whatever it is made of."""
    if not line.startswith("{"):
        return None
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and "event" in fields else None


def _text(event: dict[str, Any], name: str) -> str:
    """A field of an event that is text; of another kind it is not one of ours."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def redacted(value: Any) -> Any:
    """The same data with whatever a secret's name announces hidden, at any depth."""
    if isinstance(value, dict):
        return {k: HIDDEN if is_secret(str(k)) else redacted(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return value


def is_secret(name: str) -> bool:
    """Whether a field of this name may hold a secret; `tokens` is a count, `token` is not."""
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def _scrubbed(line: str) -> str:
    for variable in _SECRET_VARIABLES:
        secret = os.environ.get(variable, "")
        if len(secret) >= 8:  # shorter ones are placeholders, and would eat ordinary words
            line = line.replace(secret, HIDDEN)
    return line


def _one_line(value: Any) -> str:
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.isprintable():
        return value
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(value, default=str)
