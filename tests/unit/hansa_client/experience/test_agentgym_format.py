"""AgentGym's conversation format: what is written can be read, what is wrong is named."""

import json
from typing import Any

import pytest

from hansa.core.errors import PermanentError
from hansa_client.experience import agentgym_format
from hansa_client.experience.agentgym_format import Conversation, ConversationTurn
from hansa_worlds import make

RULES = "The rules."
SAID = ["The rules.\nYou see a door.", "open door", "It is open.", "go", "You are out."]


def turn(who: str, value: Any, loss: Any = None) -> dict[str, Any]:
    return {"from": who, "loss": loss, "value": value}


GOOD = {
    "item_id": "webshop_6",
    "conversations": [
        turn("human", "Rules"),
        turn("gpt", "OK.", False),
        turn("human", "Search"),
        turn("gpt", "Thought: why\n\nAction: search[red]", True),
    ],
}


def changed(place: int, **fields: Any) -> dict[str, Any]:
    turns = [dict(each) for each in GOOD["conversations"]]
    turns[place] = {**turns[place], **{("from" if k == "who" else k): v for k, v in fields.items()}}
    return {**GOOD, "conversations": turns}


def test_an_episode_becomes_rules_agreement_and_turns() -> None:
    made = agentgym_format.make_conversation("door-1", RULES, SAID)
    assert made.turns == (
        ConversationTurn("human", "The rules."),
        ConversationTurn("gpt", "OK.", loss=False),
        ConversationTurn("human", "You see a door."),
        ConversationTurn("gpt", "open door", loss=True),
        ConversationTurn("human", "It is open."),
        ConversationTurn("gpt", "go", loss=True),
        ConversationTurn("human", "You are out."),
    )


@pytest.mark.parametrize("introduction", ["", "Other rules."])
def test_an_episode_without_those_rules_has_no_turn_for_them(introduction: str) -> None:
    made = agentgym_format.make_conversation("door-1", introduction, SAID)
    assert made.turns[0] == ConversationTurn("human", SAID[0])
    assert made.turns[1] == ConversationTurn("gpt", "open door", loss=True)
    assert made.merge_rules() == made.turns


def test_played_is_what_a_rollout_of_the_episode_has() -> None:
    made = agentgym_format.make_conversation("door-1", RULES, SAID)
    assert [each.text for each in made.merge_rules()] == SAID
    assert [each.loss for each in made.merge_rules()] == [None, True, None, True, None]


@pytest.mark.parametrize(
    "answer, kept",
    [
        pytest.param("OK. I'll do my best.", False, id="an agreement"),
        pytest.param("Ok.", False, id="a short one"),
        pytest.param("open door", True, id="an action that nobody is to learn"),
    ],
)
def test_only_an_agreement_is_left_out_of_what_was_played(answer: str, kept: bool) -> None:
    read = agentgym_format.read(json.dumps(changed(1, value=answer)).encode(), "f")[0]
    assert (answer in [each.text for each in read.merge_rules()]) is kept


def test_what_is_written_is_read_again() -> None:
    some = [
        agentgym_format.make_conversation("a", RULES, SAID),
        agentgym_format.make_conversation("b\nß🙂", "", ["line\nfeed \u2028 \x00", "«act»", "end"]),
    ]
    data = agentgym_format.write(some)
    assert data.count(b"\n") == 2
    assert agentgym_format.read(data, "file") == some


def test_half_a_surrogate_pair_is_written_as_a_question_mark() -> None:
    data = agentgym_format.write(
        [
            Conversation(
                "a", (ConversationTurn("human", "x\ud800"), ConversationTurn("gpt", "y", True))
            )
        ]
    )
    assert agentgym_format.read(data, "file")[0].turns[0].text == "x?"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(json.dumps([GOOD, GOOD]).encode(), id="an array"),
        pytest.param(json.dumps([GOOD, GOOD], indent=2).encode(), id="an array over many lines"),
        pytest.param(b"\xef\xbb\xbf \n" + json.dumps([GOOD, GOOD]).encode(), id="a mark before it"),
        pytest.param(f"{json.dumps(GOOD)}\r\n\n{json.dumps(GOOD)}".encode(), id="lines"),
    ],
)
def test_an_array_and_lines_are_read(data: bytes) -> None:
    first, second = agentgym_format.read(data, "file")
    assert first == second
    assert first.item_id == "webshop_6"
    assert first.turns[3] == ConversationTurn(
        "gpt", "Thought: why\n\nAction: search[red]", loss=True
    )
    assert [each.text for each in first.merge_rules()] == ["Rules\nSearch", first.turns[3].text]


def test_a_number_is_an_id_too() -> None:
    assert agentgym_format.read(json.dumps({**GOOD, "item_id": 6}).encode(), "f")[0].item_id == "6"


@pytest.mark.parametrize(
    "entry, message",
    [
        pytest.param(7, "got 7, expected an object with item_id", id="no object"),
        pytest.param({**GOOD, "item_id": None}, "item_id: got nothing, expected text", id="no id"),
        pytest.param({**GOOD, "item_id": ""}, "item_id: got text of 0", id="empty id"),
        pytest.param({**GOOD, "item_id": True}, "item_id: got True", id="a truth as id"),
        pytest.param({**GOOD, "item_id": "\ud800"}, "item_id: got text of 1", id="half an id"),
        pytest.param(
            {"item_id": "a"}, "conversations: got nothing, expected a list", id="no turns"
        ),
        pytest.param({**GOOD, "conversations": []}, "conversations: got a list of 0", id="empty"),
        pytest.param(
            {**GOOD, "conversations": GOOD["conversations"] * 600},
            "conversations: got a list of 2400, expected a list of 2 to 2001",
            id="too many turns",
        ),
        pytest.param(
            {**GOOD, "conversations": ["a", "b"]}, "conversations[0]: got text of 1", id="bare text"
        ),
        pytest.param(
            changed(1, who="human"), "conversations[1].from: got 'human', expected gpt", id="order"
        ),
        pytest.param(changed(0, who="system"), "conversations[0].from: got 'system'", id="speaker"),
        pytest.param(changed(3, value=None), "conversations[3].value: got nothing", id="no text"),
        pytest.param(changed(3, value="\ud800"), "conversations[3].value: got text", id="half"),
        pytest.param(
            changed(3, value="x" * 1_000_001), "value: got text of 1000001, expected", id="long"
        ),
        pytest.param(
            changed(3, loss=1), "conversations[3].loss: got 1, expected null", id="loss 1"
        ),
        pytest.param(changed(3, loss="true"), "conversations[3].loss: got text", id="loss as text"),
        pytest.param(changed(2, loss=True), "conversations[2].loss: got True", id="world's words"),
        pytest.param(changed(3, loss=None), "conversations: got no turn to train on", id="nothing"),
    ],
)
def test_the_entry_and_the_field_are_named(entry: Any, message: str) -> None:
    lines = f"{json.dumps(GOOD)}\n{json.dumps(entry)}\n".encode()
    with pytest.raises(PermanentError) as found:
        agentgym_format.read(lines, "shown.jsonl")
    assert str(found.value).startswith("shown.jsonl: line 2: ")
    assert message in str(found.value)
    with pytest.raises(PermanentError) as found:
        agentgym_format.read(json.dumps([GOOD, GOOD, entry]).encode(), "shown.json")
    assert str(found.value).startswith("shown.json: entry 3: ")
    assert message in str(found.value)


@pytest.mark.parametrize(
    "data, message",
    [
        pytest.param(b"", "f: got no conversation, expected at least one", id="nothing"),
        pytest.param(b" \n\n", "f: got no conversation", id="blank lines"),
        pytest.param(b"[]", "f: got no conversation", id="an empty array"),
        pytest.param(b"\xff\xfe", "f: byte 0: got no UTF-8", id="bytes"),
        pytest.param(b"[{]", "f, column 3: got no JSON, expected a JSON array", id="broken array"),
        pytest.param(b"[\n{]", "f, line 2, column 2: got no JSON", id="broken later"),
        pytest.param(b"hello", "f: line 1, column 1: got no JSON", id="prose"),
        pytest.param(b"[" * 100_000, "f, column 1: got no JSON", id="nested without end"),
        pytest.param(b'{"item_id": 1' + b"0" * 5_000 + b"}", "f: line 1", id="an endless number"),
    ],
)
def test_a_file_that_is_none_is_named(data: bytes, message: str) -> None:
    with pytest.raises(PermanentError) as found:
        agentgym_format.read(data, "f")
    assert str(found.value).startswith(message)


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentgym_format, "LARGEST_FILE", 10)
    with pytest.raises(PermanentError, match="f: got 11 bytes, expected at most 10"):
        agentgym_format.read(b"x" * 11, "f")


def test_what_was_said_is_not_repeated_in_an_error() -> None:
    entry = {**GOOD, "conversations": [turn("human", "a secret"), "another secret"]}
    with pytest.raises(PermanentError) as found:
        agentgym_format.read(json.dumps(entry).encode(), "f")
    assert "secret" not in str(found.value)


def test_the_rules_of_a_world_are_found_in_what_it_says_first() -> None:
    world = make("maze", {})
    first = world.start(world.tasks("test")[0]).text
    made = agentgym_format.make_conversation(
        "maze-1", world.introduction(), [first, "move up", "..."]
    )
    assert made.turns[0].text == world.introduction()
    assert f"{made.turns[0].text}\n{made.turns[2].text}" == first
