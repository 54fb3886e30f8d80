"""What of an explored success is not learned from: actions that led back to an earlier state."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hansa.api.assignment import Assignment
from hansa.core import logs
from hansa_client.experience import circles
from hansa_client.experience.shards import Shard, ShardHeader
from hansa_client.silo import Silo
from hansa_client.trajectory import Episode, Turn
from hansa_worlds import Task, World, make
from tests.support.memory_store import MemoryStore

WORLDS = ("babyai", "maze", "textcraft", "webshop", "wordle")
BACK = {"move up": "move down", "move down": "move up"} | {
    "move left": "move right",
    "move right": "move left",
}


def played(observations: Sequence[str], **fields: Any) -> Episode:
    """An episode with an action between any two observations, and one after the last."""
    turns = [
        turn
        for number, text in enumerate(observations)
        for turn in (
            Turn(role="user", text=text, tokens=[1]),
            Turn(role="agent", text=str(number), tokens=[2]),
        )
    ]
    given = {"task": "t", "round": 1, "source": "exploration", "seed": 0, "success": True, **fields}
    return Episode(turns=turns, **given)


def trained(episode: Episode) -> list[str]:
    """Actions that are learned from."""
    return [t.text for t in episode.turns if t.role == "agent" and t.trained is None]


def skipped(episode: Episode, *, shows_state: bool = True) -> Episode:
    header = ShardHeader(
        program="", environment="e", round=1, fingerprint="0" * 64, inputs={}, episodes=1
    )
    (shard,) = circles.mark_circles([Shard(header, [episode])], lambda _: shows_state)
    return shard.episodes[0]


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        ("abc", "012"),
        ("aba", "2"),
        ("aab", "12"),
        ("abcbd", "034"),
        ("abcabd", "345"),
        ("abacad", "45"),
        ("abcbcd", "0345"),
    ],
)
def test_actions_between_two_equal_observations_are_not_trained(
    observations: str, expected: str
) -> None:
    assert "".join(trained(skipped(played(observations)))) == expected


def test_a_return_to_the_first_observation_is_seen_behind_the_rules() -> None:
    episode = played(["The rules.\nyou are at 1", "you are at 2", "you are at 1", "you are at 3"])
    assert trained(skipped(episode)) == ["2", "3"]


def test_a_first_observation_that_only_ends_alike_is_another() -> None:
    assert trained(skipped(played(["you are at 11", "1", "2"]))) == ["0", "1", "2"]


def test_a_last_observation_that_nobody_answered_ends_no_circle() -> None:
    episode = played("ab")
    turns = [*episode.turns, Turn(role="user", text="a")]
    assert trained(skipped(episode.model_copy(update={"turns": turns}))) == ["0", "1"]


@pytest.mark.parametrize(
    "fields", [{"source": "demonstration", "round": 0}, {"success": False}], ids=str
)
def test_demonstrations_and_failures_are_left_as_they_are(fields: dict[str, Any]) -> None:
    episode = played("aba", **fields)
    assert skipped(episode) == episode


def test_nothing_is_a_circle_where_observations_do_not_show_the_state() -> None:
    episode = played("aba")
    assert skipped(episode, shows_state=False) == episode


def test_what_was_marked_already_stays_so() -> None:
    episode = played("abc")
    turns = [turn.model_copy(update={"trained": False}) for turn in episode.turns]
    assert trained(skipped(episode.model_copy(update={"turns": turns}))) == []


def walked(world: World, task: Task, moves: Iterable[str] | None = None) -> Episode:
    """An episode of a real world: the given moves, then the expert's."""
    rest = list(moves or ())
    turns = [Turn(role="user", text=world.start(task).text, tokens=[1])]
    is_done = False
    while not is_done:
        action = rest.pop(0) if rest else world.expert().action
        answer = world.step(action)
        turns.append(Turn(role="agent", text=action, tokens=[2]))
        turns.append(Turn(role="user", text=answer.text))
        is_done = answer.done
    episode = played("a")
    return episode.model_copy(update={"turns": turns, "success": world.success})


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_that_a_worlds_expert_does_is_a_circle(name: str) -> None:
    """It takes no step in vain, and repeats itself where that gets it further."""
    world = make(name, {})
    episodes = [walked(world, task) for task in world.tasks("train")[:40]]
    assert any(episode.success for episode in episodes)
    for episode in episodes:
        assert skipped(episode, shows_state=world.shows_state) == episode


@pytest.mark.parametrize("name", ["textcraft", "webshop", "wordle"])
def test_equal_observations_with_progress_between_do_occur(name: str) -> None:
    """Or the test above would show nothing for these worlds."""
    world = make(name, {})
    tasks = world.tasks("train")[:200]
    marked = [circles.mark_episode(walked(world, task)) for task in tasks]
    assert any(turn.trained is False for episode in marked for turn in episode.turns)


@pytest.mark.parametrize("prompt", ["full", "brief", "none"])
def test_a_step_back_and_forth_in_a_maze_is_not_learned_from(prompt: str) -> None:
    world = make("maze", {"map": "generated", "size": 6, "prompt": prompt, "max_turns": 30})
    assert world.shows_state
    for task in world.tasks("train")[:20]:
        world.start(task)
        way = world.expert().action
        straight = walked(world, task)
        detour = walked(world, task, [way, BACK[way]])
        assert detour.success
        assert len(trained(detour)) == len(trained(straight)) + 2
        assert trained(skipped(detour)) == trained(straight)


def test_walking_into_a_wall_is_not_learned_from() -> None:
    world = make("maze", {"map": "generated", "size": 6, "max_turns": 30})
    beside_a_wall = 0
    for task in world.tasks("train")[:20]:
        walls = [way for way in BACK if _stays(world, task, way)]
        if not walls:
            continue
        beside_a_wall += 1
        blocked = walked(world, task, [walls[0]])
        assert trained(skipped(blocked)) == trained(walked(world, task))
    assert beside_a_wall > 5


def _stays(world: World, task: Task, way: str) -> bool:
    first = world.start(task).text
    return first.endswith(world.step(way).text)


def test_a_shard_keeps_its_header_and_order() -> None:
    header = ShardHeader(
        program="", environment="e", round=1, fingerprint="0" * 64, inputs={}, episodes=2
    )
    shard = Shard(header, [played("aba"), played("ab", success=False)])
    (made,) = circles.mark_circles([shard], lambda _: True)
    assert made == replace(
        shard, episodes=[circles.mark_episode(played("aba")), played("ab", success=False)]
    )


def learned(assignment: Assignment, episode: Episode) -> int:
    """Tokens of the agent that a silo's lesson has of an episode."""
    header = ShardHeader(
        program="", environment="e", round=1, fingerprint="0" * 64, inputs={}, episodes=1
    )
    silo = Silo(assignment, MemoryStore(), MemoryStore(), logs.get("client"))
    base = SimpleNamespace(cap_length=lambda length: length)
    agent: Any = SimpleNamespace(base=base, start={}, frozen={})
    (sequence,) = silo.make_training_set(agent, [Shard(header, [episode])], 1).sequences
    return sum(sequence.is_agent)


@pytest.mark.parametrize(
    ("world", "rule", "tokens"),
    [("maze", "skip", 1), ("maze", "keep", 3), ("wordle", "skip", 3)],
)
def test_a_silos_lesson_leaves_circles_out_where_the_spec_says_so(
    assign: Callable[..., Assignment], world: str, rule: str, tokens: int
) -> None:
    assignment = assign(world=world, options={}, experience={"circles": rule})
    assert learned(assignment, played("aba")) == tokens


def test_of_several_worlds_in_a_silo_each_is_asked(assign: Callable[..., Assignment]) -> None:
    parts = [{"name": f"my-{name}", "world": name} for name in ("maze", "wordle")]
    assignment = assign(world="mixed", options={"worlds": parts}, experience={"circles": "skip"})
    assert learned(assignment, played("aba", task="my-maze/t")) == 1
    assert learned(assignment, played("aba", task="my-wordle/t")) == 3
