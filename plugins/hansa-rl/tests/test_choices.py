"""What dpo and grpo take of the experience."""

import pytest

from hansa.api.spec import Experience
from hansa_client import learners
from hansa_client.experience.shards import Shard, ShardHeader
from hansa_client.trajectory import Episode, Turn
from hansa_rl.dpo import pair_episodes


def episode(task: str, round_: int, reward: float = 1.0, sample: int = 0) -> Episode:
    return Episode(
        task=task,
        sample=sample,
        round=round_,
        source="exploration" if round_ else "demonstration",
        seed=1,
        success=reward == 1.0,
        reward=reward,
        turns=[
            Turn(role="user", text="hello", tokens=[1]),
            Turn(role="agent", text=f"{round_}/{sample}", tokens=[2]),
        ],
    )


def shard(round_: int, *episodes: Episode) -> Shard:
    header = ShardHeader(
        program="1",
        environment="maze",
        round=round_,
        fingerprint="0" * 64,
        inputs={},
        episodes=len(episodes),
    )
    return Shard(header, list(episodes))


SHOWN = shard(0, episode("a", 0), episode("b", 0))
FIRST = shard(1, episode("a", 1), episode("a", 1, 0.0, sample=1), episode("c", 1, 0.5))
SECOND = shard(2, episode("a", 2), episode("b", 2, 0.0), episode("b", 2, 0.0, sample=1))


@pytest.mark.parametrize(
    "learner, expected",
    [
        pytest.param(
            "dpo",
            "a0/0 a1/1 a1/0 a1/1 a2/0 a1/1 b0/0 b2/0 b0/0 b2/1",
            id="a success and a failure of one task",
        ),
        pytest.param("grpo", "", id="nothing of this round told episodes apart"),
    ],
)
def test_a_learner_takes_what_it_can_learn_from(learner: str, expected: str) -> None:
    choice = learners.get_chooser(learner)([SHOWN, FIRST, SECOND], Experience(), 2)
    assert [f"{e.task}{e.turns[1].text}" for e in choice.episodes] == expected.split()


def test_every_episode_of_a_task_is_in_a_pair() -> None:
    won = [episode("a", 1, sample=n) for n in range(3)]
    lost = [episode("a", 1, 0.0, sample=n) for n in (3, 4)]
    pairs = [(good.sample, bad.sample) for good, bad in pair_episodes(won, lost)]
    assert pairs == [(0, 3), (1, 4), (2, 3)]
    assert list(pair_episodes(won, [episode("b", 1, 0.0)])) == []


def test_groups_whose_episodes_did_alike_are_skipped_and_counted() -> None:
    rewards = {"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0], "c": [1.0, 1.0], "d": [1.0, 0.5]}
    played = [
        episode(task, 1, reward, sample=n)
        for task, all_ in rewards.items()
        for n, reward in enumerate(all_)
    ]
    choice = learners.get_chooser("grpo")([SHOWN, shard(1, *played)], Experience(), 1)
    assert [e.task for e in choice.episodes] == ["a", "a", "a", "d", "d"]
    assert choice.skipped == 2
    assert choice.weights[0] > 0 > choice.weights[1] == choice.weights[2]
    assert sum(choice.weights[:3]) == pytest.approx(0)
    assert choice.weights[3:] == pytest.approx([1, -1], abs=1e-3)
