"""Reading a server's answers: every field is checked, since it goes into training."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hansa.core.http import HttpError
from hansa.core.text import shorten
from hansa_worlds.agentgym.dialects import Dialect
from hansa_worlds.remote.wire import clean, format_error, read_reward

MOST_MOVES = 1_000
MOST_WORDS = 1_000

_LISTED = re.compile(r"Available actions: \[(.*)\]\s*$", re.DOTALL)
_QUOTED = re.compile(r'"([^"\n]+)"')

SessionId = int | str
T = TypeVar("T")


@dataclass(frozen=True)
class StepResult:
    """The result of a turn."""

    text: str
    reward: float = 0.0
    done: bool = False
    moves: list[str] = field(default_factory=list)
    """Actions that the server lists; empty where it lists none."""


def find_error(answer: object) -> str | None:
    """The error in an answer with status 200, in one short line, or None."""
    if isinstance(answer, Mapping) and "error" in answer:
        return format_error(str(answer["error"]))
    return None


def parse_session(answer: object, dialect: Dialect) -> SessionId:
    """The session that /create opened: a number, or a field of an object."""
    found = answer.get(dialect.session) if isinstance(answer, Mapping) else answer
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    if isinstance(found, str) and re.fullmatch(r"[\w.-]{1,100}", found):
        return found
    raise HttpError("answer", f"no session in {dialect.session!r}")


def parse_first(answer: object, dialect: Dialect) -> StepResult:
    """The first observation, wherever the answer to /reset or /observation has it."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if isinstance(answer, str):
        return StepResult(clean(answer), moves=_parse_moves(answer, {}, dialect))
    if not isinstance(answer, Mapping):
        raise HttpError("answer", "no observation")
    text = _read_text(answer, dialect.text)
    if dialect.failed and text == dialect.failed:
        raise HttpError("answer", "an error")
    seen = f"{_read_text(answer, dialect.opening)}\n{text}" if dialect.opening in answer else text
    return StepResult(clean(seen), moves=_parse_moves(text, answer, dialect))


def parse_turn(answer: object, dialect: Dialect) -> StepResult:
    """The observation, reward and end of a turn."""
    if not isinstance(answer, Mapping):
        raise HttpError("answer", "no turn")
    text = _read_text(answer, dialect.text)
    reward = read_reward(answer.get(dialect.reward), dialect.reward) / dialect.full_reward
    done = True in {_read_field(answer, name, bool, "true or false") for name in dialect.done}
    return StepResult(clean(text), reward, done, _parse_moves(text, answer, dialect))


def parse_words(answer: object) -> tuple[str, ...]:
    """The words to guess from."""
    if not isinstance(answer, list) or not all(isinstance(word, str) for word in answer):
        raise HttpError("answer", "no list of words")
    words = (shorten(clean(word), 100) for word in answer[:MOST_WORDS])
    return tuple(dict.fromkeys(word for word in words if word))


def _read_text(answer: Mapping[object, object], name: str) -> str:
    return _read_field(answer, name, str, "text")


def _read_field(answer: Mapping[object, object], name: str, kind: type[T], what: str) -> T:
    found = answer.get(name)
    if not isinstance(found, kind):
        raise HttpError("answer", f"no {what} in {name!r}")
    return found


def _parse_moves(text: str, answer: Mapping[object, object], dialect: Dialect) -> list[str]:
    if dialect.moves_in_text:
        listed = _LISTED.search(text)
        found: object = _QUOTED.findall(listed.group(1)) if listed else []
    else:
        found = answer.get(dialect.moves_field) if dialect.moves_field else []
    if not isinstance(found, list):
        raise HttpError("answer", f"no list in {dialect.moves_field!r}")
    moves = (" ".join(clean(move).split()) for move in found[:MOST_MOVES] if isinstance(move, str))
    return list(dict.fromkeys(move for move in moves if move))
