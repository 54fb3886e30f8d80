"""Demonstrations: by the world's expert or from a file, rendered as a rollout would have."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import sha256
from hansa.core import logs
from hansa.core.errors import PermanentError, WorldBroken
from hansa_client.experience import agentgym_format, demonstrations
from hansa_client.experience.agentgym_format import Conversation, ConversationTurn
from hansa_client.experience.demonstrations import DemonstrationFile
from hansa_client.experience.shards import DEMONSTRATIONS, Shards
from hansa_client.models.base_model import Base
from hansa_client.rollout import tasks
from hansa_client.rollout.episodes import Played
from hansa_client.round import check_world, play_round
from hansa_client.silo import Silo
from hansa_client.trajectory import Episode, decode, encode, render_all
from hansa_worlds import World
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.oddworlds import SECRET, OddWithExpert, offered
from tests.unit.hansa_client.rounds import Assign

TALK = Conversation(
    "maze_6",
    (
        ConversationTurn("human", "Reach the goal."),
        ConversationTurn("gpt", "OK.", loss=False),
        ConversationTurn("human", "Your current position is 3"),
        ConversationTurn("gpt", "move up", loss=True),
        ConversationTurn("human", "There are no walls near you"),
        ConversationTurn("gpt", "move left", loss=False),
        ConversationTurn("human", "There are no walls near you"),
        ConversationTurn("gpt", "move down", loss=True),
    ),
)


@pytest.fixture(autouse=True)
def worlds() -> Iterator[None]:
    with offered():
        yield


def by_expert(assignment: Assignment, base: Base, world: World | None = None) -> Played:
    world = world or tasks.make_world(assignment)
    return demonstrations.play_expert_tasks(assignment, world, base.chat, lambda tried, found: None)


def learned(episode: Episode, base: Base) -> list[int]:
    """The tokens that a learner trains on."""
    seen = render_all(episode, 1024)[0]
    return [token for token, own in zip(seen.tokens, seen.is_agent, strict=True) if own]


def tokens(base: Base, *texts: str) -> list[int]:
    return [token for action in base.chat.encode_actions(list(texts)) for token in action]


# -- the expert -----------------------------------------------------------------------------------


@pytest.mark.parametrize("thoughts", [True, False])
def test_experts_show_successes_and_their_own_tokens_are_learned(
    assign: Assign, base: Base, thoughts: bool
) -> None:
    assignment = assign(experience={"demonstrations": 3, "thoughts": thoughts})
    shown = by_expert(assignment, base).episodes
    assert [e.success for e in shown] == [True] * 3
    assert shown == by_expert(assignment, base).episodes
    for episode in shown:
        acts = [turn.text for turn in episode.turns if turn.role == "agent"]
        assert all(act.startswith("Thought: ") == thoughts for act in acts)
        assert learned(episode, base) == tokens(base, *acts)
        assert render_all(episode, 1024)[0].tokens[-1] == base.chat.end


@pytest.mark.parametrize("own", [0, 2])
def test_an_environments_own_number_of_demonstrations_goes_before_that_of_all(
    assign: Assign, base: Base, own: int
) -> None:
    assert len(by_expert(assign(demonstrations=own), base).episodes) == own
    assignment = assign(demonstrations=own)
    assert len(from_file(assignment, base, TALK, TALK, TALK, TALK)) == own
    read = demonstrations.read(assign(demonstrations=0, demonstrations_from="/none"), MemoryStore())
    assert read is None


def test_an_expert_that_fails_is_dropped_and_counted(assign: Assign, base: Base) -> None:
    lenient = {"maxBrokenEpisodes": 0.9}
    assignment = assign(experience={"demonstrations": 10}, exploration=lenient)
    shown = by_expert(assignment, base, OddWithExpert({"fails": [2, 5], "train": 12}))
    assert len(shown.episodes) == 10
    assert {str(fault).partition(":")[0] for fault in shown.broken} <= {
        "KeyError at tests/unit/hansa_client/oddworlds.py"
    }
    with pytest.raises(WorldBroken) as caught:
        by_expert(assignment, base, OddWithExpert({"fails": list(range(12)), "train": 12}))
    assert SECRET not in caught.value.message


# -- a file ---------------------------------------------------------------------------------------


def from_file(assignment: Assignment, base: Base, *talks: Conversation) -> list[Episode]:
    file = DemonstrationFile("path:x", "0" * 64, list(talks))
    return demonstrations.choose_from_file(assignment, file, base.chat).episodes


def test_only_turns_with_loss_are_learned_and_the_prompt_is_one_with_the_first_observation(
    assign: Assign, base: Base
) -> None:
    [episode] = from_file(assign(), base, TALK)
    assert episode.turns[0].text == "Reach the goal.\nYour current position is 3"
    assert learned(episode, base) == tokens(base, "move up", "move down")
    whole = render_all(episode, 1024)[0].tokens
    for part in tokens(base, "move left"):
        assert part in whole
    assert "OK." not in [turn.text for turn in episode.turns]
    assert episode.success
    assert episode.task == "maze_6"
    assert decode(encode(episode), "x") == episode


def test_what_an_expert_wrote_to_a_file_is_learned_as_if_it_had_been_played_here(
    assign: Assign, base: Base
) -> None:
    assignment = assign(options={"map": "generated", "size": 6, "prompt": "full"})
    world = tasks.make_world(assignment)
    shown = by_expert(assignment, base).episodes
    talks = [
        agentgym_format.make_conversation(
            e.task, world.introduction(), [turn.text for turn in e.turns]
        )
        for e in shown
    ]
    again = from_file(assignment, base, *agentgym_format.read(agentgym_format.write(talks), "x"))
    rendered = {e.task: render_all(e, 1024)[0] for e in shown}
    assert {e.task: render_all(e, 1024)[0] for e in again} == rendered


def test_of_a_long_file_so_many_are_taken_as_are_wanted(assign: Assign, base: Base) -> None:
    talks = [Conversation(f"maze_{n}", TALK.turns) for n in range(50)]
    few = [e.task for e in from_file(assign(), base, *talks)]
    more = [e.task for e in from_file(assign(experience={"demonstrations": 9}), base, *talks)]
    assert len(few) == 3
    assert more[:3] == few != ["maze_0", "maze_1", "maze_2"]


def written(path: Path, *talks: Conversation) -> Path:
    path.write_bytes(agentgym_format.write(talks or [TALK]))
    return path


def play(assignment: Assignment, store: MemoryStore) -> Silo:
    silo = Silo(assignment, store, store, logs.get("client"))
    play_round(silo)
    return silo


@pytest.mark.parametrize("prefix", ["", "path:"])
def test_a_file_becomes_shard_0_with_its_digest_and_is_read_once(
    assign: Assign, tmp_path: Path, prefix: str
) -> None:
    path = written(tmp_path / "shown.jsonl")
    fields: dict[str, Any] = {"evaluate": False, "exploration": {"tasksPerRound": 0}}
    assignment = assign(demonstrations_from=f"{prefix}{path}", **fields)
    store = MemoryStore()
    play(assignment, store)
    shard = Shards(store, assignment).find(DEMONSTRATIONS)
    assert shard
    assert [e.task for e in shard.episodes] == ["maze_6"]
    assert shard.header.inputs["demonstrationsSha256"] == sha256(path.read_bytes())
    path.unlink()
    check_world(Silo(assignment, store, store, logs.get("client")))


def test_a_world_without_an_expert_learns_from_a_file(assign: Assign, tmp_path: Path) -> None:
    path = written(tmp_path / "shown.jsonl")
    assignment = assign(
        world="odd", options={}, demonstrations_from=str(path), exploration={"maxNewTokens": 4}
    )
    play(assignment, MemoryStore())


@pytest.mark.parametrize(
    "source, private",
    [
        pytest.param("s3://bucket/demos/a.jsonl", None, id="the federation's bucket"),
        pytest.param("s3://mine/demos/a.jsonl", {"bucket": "mine", "prefix": "p"}, id="its own"),
    ],
)
def test_an_object_is_read_from_the_store_that_has_the_experience(
    assign: Assign, source: str, private: dict[str, str] | None
) -> None:
    store = MemoryStore()
    store.objects["demos/a.jsonl"] = agentgym_format.write([TALK])
    assignment = assign(demonstrations_from=source, experience_storage=private)
    file = demonstrations.read(assignment, store)
    assert file
    assert file.conversations == [TALK]


def test_no_file_is_read_when_no_demonstrations_are_wanted(assign: Assign) -> None:
    assignment = assign(demonstrations_from="/nowhere", experience={"demonstrations": 0})
    assert demonstrations.read(assignment, MemoryStore()) is None


@pytest.mark.parametrize(
    "fields, message",
    [
        pytest.param(
            {"demonstrations_from": "/no/such/file"},
            r"spec.environments\[maze\].demonstrationsFrom: got /no/such/file, which cannot be "
            r"read \(No such file",
            id="no such file",
        ),
        pytest.param(
            {"demonstrations_from": "/tmp"},
            r"spec.environments\[maze\].demonstrationsFrom: got /tmp, which cannot be read \(Is a",
            id="a folder",
        ),
        pytest.param(
            {"demonstrations_from": "s3://bucket/none"},
            r"spec.environments\[maze\].demonstrationsFrom: got s3://bucket/none, which does not",
            id="no such object",
        ),
        pytest.param(
            {
                "demonstrations_from": "/none",
                "experience": {"demonstrations": 1, "demonstrationsFrom": "/none"},
            },
            "spec.experience.demonstrationsFrom: got /none",
            id="the federation's own field",
        ),
    ],
)
def test_a_file_that_is_not_there_is_told_before_anything_is_loaded(
    assign: Assign, fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError("the model is being loaded")

    monkeypatch.setattr("hansa_client.silo.Agent", never)
    with pytest.raises(PermanentError, match=f"^{message}"):
        play(assign(**fields), MemoryStore())


@pytest.mark.parametrize(
    "data, message",
    [
        pytest.param(b"", "got no conversation", id="empty"),
        pytest.param(b"\xff\xfe", "got no UTF-8", id="bytes"),
        pytest.param(b"{", "line 1, column 2: got no JSON", id="half"),
        pytest.param(b"[" * 100_000, "got no JSON", id="deep"),
        pytest.param(b'{"item_id": "a"}', "line 1: conversations: got nothing", id="no turns"),
        pytest.param(
            json.dumps(
                {
                    "item_id": "a",
                    "conversations": [
                        {"from": "human", "loss": None, "value": SECRET},
                        {"from": "gpt", "loss": "yes", "value": SECRET},
                    ],
                }
            ).encode(),
            r"line 1: conversations\[1\].loss: got text of 3, expected",
            id="loss",
        ),
    ],
)
def test_a_hostile_file_is_one_sentence_with_file_entry_and_field(
    assign: Assign, tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    assignment = assign(demonstrations_from=str(path))
    where = rf"spec.environments\[maze\].demonstrationsFrom: {path}.*"
    with pytest.raises(PermanentError, match=f"^{where}{message}") as caught:
        demonstrations.read(assignment, MemoryStore())
    assert SECRET not in caught.value.message


def test_an_object_that_is_too_large_is_not_fetched(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    store.objects["a"] = b"x" * 100
    monkeypatch.setattr(demonstrations, "LARGEST_FILE", 99)
    with pytest.raises(PermanentError, match="with 100 bytes, expected at most 99"):
        demonstrations.read(assign(demonstrations_from="s3://bucket/a"), store)
