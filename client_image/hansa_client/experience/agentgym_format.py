"""AgentGym's format: episodes as conversations, read from files of others and written for them.

    {"item_id": "maze-6-train-3", "conversations": [
        {"from": "human", "loss": null, "value": "<the rules>"},
        {"from": "gpt", "loss": false, "value": "OK."},
        {"from": "human", "loss": null, "value": "<the first observation>"},
        {"from": "gpt", "loss": true, "value": "Thought: ...\\n\\nAction: ..."},
        {"from": "human", "loss": null, "value": "<the last observation>"}]}

A file holds one JSON array of these or one per line; we write lines. A learner trains on turns
with `loss` true alone. What is read may come from anywhere: sizes are bounded, types are checked.
"""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hansa.core.errors import PermanentError

Who = Literal["human", "gpt"]
WHO: tuple[Who, ...] = get_args(Who)

AGREED = "OK."
"""The agent's answer to the rules, which is not trained on."""

LARGEST_FILE = 512 << 20
"""Bytes of a file at most; all of it is held in memory."""
MOST_TURNS = 2_001
"""Turns of a conversation at most: a thousand actions and what was said around them."""
LONGEST_TEXT = 1_000_000
"""Characters of a turn at most."""
LONGEST_ID = 500
"""Characters of an item_id at most."""


@dataclass(frozen=True)
class ConversationTurn:
    """One turn."""

    who: Who
    """`human` is the world, `gpt` the agent."""
    text: str
    """What was said."""
    loss: bool | None = None
    """Whether a learner trains on it."""


@dataclass(frozen=True)
class Conversation:
    """One episode; its turns alternate and begin with the world's."""

    item_id: str
    """Which task was played; the same task may come more than once."""
    turns: tuple[ConversationTurn, ...]
    """All of it; at least one turn of the agent has `loss` true."""

    def merge_rules(self) -> tuple[ConversationTurn, ...]:
        """The turns as a rollout has them: rules and first observation are one, without "OK."."""
        if len(self.turns) < 3:
            return self.turns
        rules, answer, first, *rest = self.turns
        # AgentGym's agents say "Ok." to the rules, some a little more.
        if answer.loss or answer.text[:2].lower() != "ok":
            return self.turns
        return ConversationTurn("human", f"{rules.text}\n{first.text}"), *rest


def make_conversation(
    item_id: str, introduction: str, said: Sequence[str], untrained: Container[int] = ()
) -> Conversation:
    """The conversation of a played episode: observation, action, ..., last observation.

    `said` comes as a world said it, so its first text may begin with the rules; they become a turn
    of their own. An episode without rules has no such turn, and no "OK." either. `untrained` has
    the indexes in `said` of actions that are not trained on.
    """
    first, *rest = said
    head: list[ConversationTurn] = []
    if introduction and first.startswith(f"{introduction}\n"):
        head = [
            ConversationTurn("human", introduction),
            ConversationTurn("gpt", AGREED, loss=False),
        ]
        first = first[len(introduction) + 1 :]
    turns = [
        ConversationTurn("gpt", text, loss=index not in untrained)
        if index % 2
        else ConversationTurn("human", text)
        for index, text in enumerate([first, *rest])
    ]
    return Conversation(item_id, (*head, *turns))


def encode(conversation: Conversation) -> bytes:
    """One line of JSON, with its end; half a surrogate pair, which UTF-8 cannot hold, is a `?`."""
    turns = [
        {"from": each.who, "loss": each.loss, "value": each.text} for each in conversation.turns
    ]
    document = {"conversations": turns, "item_id": conversation.item_id}
    return json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"


def write(conversations: Iterable[Conversation]) -> bytes:
    """The bytes of a file: one conversation per line."""
    return b"".join(map(encode, conversations))


def read(data: bytes, where: str) -> list[Conversation]:
    """The conversations of a file; an error names the file, the entry (from 1) and the field."""
    if len(data) > LARGEST_FILE:
        raise PermanentError(
            f"{where}: got {len(data)} bytes, expected at most {LARGEST_FILE}",
            hint="keep the conversations that you train on, or split the file",
        )
    conversations = [_parse_conversation(each, at) for at, each in _parse_entries(data, where)]
    if not conversations:
        raise PermanentError(f"{where}: got no conversation, expected at least one")
    return conversations


def _parse_entries(data: bytes, where: str) -> Iterator[tuple[str, Any]]:
    """Each entry with the words that name it."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PermanentError(f"{where}: byte {error.start}: got no UTF-8") from None
    if text.lstrip()[:1] == "[":
        entries = _parse_json(text, where, "a JSON array of conversations")
        yield from ((f"{where}: entry {n}", entry) for n, entry in enumerate(entries, start=1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            at = f"{where}: line {number}"
            yield at, _parse_json(line, at, "a conversation as one JSON object")


def _parse_json(text: str, where: str, fits: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        at = f"{where}, line {line}" if line > 1 else where
        raise PermanentError(f"{at}, column {column}: got no JSON, expected {fits}") from None


def _parse_conversation(given: Any, where: str) -> Conversation:
    if not isinstance(given, dict):
        raise _reject(where, given, "an object with item_id and conversations")
    item = given.get("item_id")
    is_id = isinstance(item, str | int) and not isinstance(item, bool)
    if not is_id or not 0 < len(str(item)) <= LONGEST_ID or not _is_encodable(str(item)):
        raise _reject(f"{where}: item_id", item, "text, as webshop_6")
    turns = given.get("conversations")
    if not isinstance(turns, list) or not 2 <= len(turns) <= MOST_TURNS:
        raise _reject(f"{where}: conversations", turns, f"a list of 2 to {MOST_TURNS} turns")
    said = tuple(
        _parse_turn(turn, WHO[index % 2], f"{where}: conversations[{index}]")
        for index, turn in enumerate(turns)
    )
    if not any(turn.loss for turn in said):
        raise PermanentError(
            f"{where}: conversations: got no turn to train on, "
            "expected at least one from gpt with loss true"
        )
    return Conversation(str(item), said)


def _parse_turn(given: Any, who: Who, where: str) -> ConversationTurn:
    if not isinstance(given, dict):
        raise _reject(where, given, "an object with from, loss and value")
    speaker, text, loss = given.get("from"), given.get("value"), given.get("loss")
    if speaker != who:
        fits = f"{who} (they take turns, human first)"
        raise PermanentError(f"{where}.from: got {repr(speaker)[:20]}, expected {fits}")
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or not _is_encodable(text):
        raise _reject(f"{where}.value", text, f"valid text of at most {LONGEST_TEXT} characters")
    if loss is not None and not isinstance(loss, bool):
        raise _reject(f"{where}.loss", loss, "null, false or true")
    if who == "human" and loss:
        raise _reject(f"{where}.loss", loss, "null (nobody trains on what the world said)")
    return ConversationTurn(who, text, loss)


def _is_encodable(text: str) -> bool:
    """Whether it can be written: JSON can spell half a surrogate pair, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reject(field: str, came: object, fits: str) -> PermanentError:
    """The error; it names only the kind and size of the value, since episodes are private."""
    kind = {type(None): "nothing", str: "text", list: "a list", dict: "an object"}
    word = kind.get(type(came), repr(came)[:20])
    size = f" of {len(came)}" if isinstance(came, str | list) else ""
    return PermanentError(f"{field}: got {word}{size}, expected {fits}")
