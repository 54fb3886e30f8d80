"""What each learner takes of the experience, and what the experience's own rules leave it."""

import pytest

from hansa.api.spec import Experience
from hansa_client import figures, learners
from hansa_client.experience.selection import is_fresh
from hansa_client.experience.shards import Shard, ShardHeader
from hansa_client.learners import reward_weighted
from hansa_client.trajectory import Episode, Turn


def episode(
    task: str, round_: int, reward: float = 1.0, said: str = "", sample: int = 0
) -> Episode:
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
            Turn(role="agent", text=said or f"{round_}/{sample}", tokens=[2]),
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


def chosen(learner: str, *shards: Shard, **rules: object) -> list[str]:
    choice = learners.get_chooser(learner)(shards, Experience.model_validate(rules), 2)
    return [f"{e.task}{e.turns[1].text}" for e in choice.episodes]


SHOWN = shard(0, episode("a", 0), episode("b", 0))
FIRST = shard(1, episode("a", 1), episode("a", 1, 0.0, sample=1), episode("c", 1, 0.5))
SECOND = shard(2, episode("a", 2), episode("b", 2, 0.0), episode("b", 2, 0.0, sample=1))


@pytest.mark.parametrize(
    "learner, expected",
    [
        pytest.param("success-sft", "a0/0 b0/0 a1/0 a2/0", id="successes"),
        pytest.param("reward-weighted", "a0/0 b0/0 a1/0 c1/0 a2/0", id="what earned something"),
    ],
)
def test_a_learner_takes_what_it_can_learn_from(learner: str, expected: str) -> None:
    assert chosen(learner, SHOWN, FIRST, SECOND) == expected.split()


def test_a_trajectory_counts_as_its_reward_and_a_success_without_one_counts_whole() -> None:
    choice = learners.get_chooser("reward-weighted")([FIRST], Experience(), 1)
    assert choice.weights == [1.0, 0.5]
    assert reward_weighted.weigh(episode("a", 0).model_copy(update={"reward": 0.0})) == 1.0
    assert reward_weighted.weigh(episode("a", 1, -1.0)) == 0.0


def test_an_example_without_a_token_to_learn_goes_with_its_pair_and_weight() -> None:
    mute = episode("a", 1, 0.0)
    mute.turns[1] = Turn(role="agent", text="x", tokens=[2], trained=False)
    choice = learners.Choice(
        episodes=[episode("a", 1), mute, episode("b", 1), episode("b", 1)],
        weights=[1.0, 2.0, 3.0, 4.0],
        together=2,
    )
    sequences, weights, _ = choice.render(99)
    assert (len(sequences), weights) == (2, [3.0, 4.0])


@pytest.mark.parametrize(
    "rules, expected",
    [
        pytest.param({"perTask": 9}, "a0/0 b0/0 a1/0 a2/0", id="room for all that differ"),
        pytest.param({"perTask": 2}, "b0/0 a1/0 a2/0", id="demonstrations go before explored ones"),
        pytest.param({"perTask": 1}, "b0/0 a2/0", id="the newest of each task"),
    ],
)
def test_a_task_has_so_many_trajectories_at_most(rules: dict[str, object], expected: str) -> None:
    assert chosen("success-sft", SHOWN, FIRST, SECOND, **rules) == expected.split()


def test_equal_trajectories_of_a_task_count_once_and_of_two_tasks_twice() -> None:
    same = [episode(task, round_, said="x") for round_ in (0, 1, 2) for task in ("a", "b")]
    shards = [shard(n, *(e for e in same if e.round == n)) for n in (0, 1, 2)]
    assert chosen("success-sft", *shards) == ["ax", "bx"] * 3
    assert chosen("success-sft", *shards, perTask=5) == ["ax", "bx"]


def test_older_rounds_leave_fewer_trajectories_and_none_comes_back() -> None:
    many = [episode(f"t{n}", 1) for n in range(400)]
    left = [{e.task for e in many if is_fresh(e, age, 0.5)} for age in range(4)]
    assert left[0] == {e.task for e in many}
    assert left[3] < left[2] < left[1] < left[0]
    assert 160 < len(left[1]) < 240
    assert 70 < len(left[2]) < 130
    assert all(is_fresh(e, 9, 1.0) for e in many)
    shards = [shard(0, *(episode(f"t{n}", 0) for n in range(9))), shard(1, *many)]
    kept = chosen("success-sft", *shards, recency=0.5)
    assert len(kept) == 9 + len(left[1])  # demonstrations do not age


@pytest.mark.parametrize(
    "tasks, expected",
    [
        pytest.param({}, {}, id="nothing played"),
        pytest.param({"a": [1, 1]}, {}, id="each task once"),
        pytest.param({"a": [1, 2], "b": [0, 2]}, {"1": 0.25, "2": 0.5}, id="twice"),
        pytest.param({"a": [1, 4]}, {"1": 0.25, "2": 0.5, "4": 1.0}, id="four times"),
        pytest.param({"a": [2, 3], "b": [0, 1]}, {"1": 1 / 3, "2": 1.0}, id="some broke"),
    ],
)
def test_pass_at_k_is_the_chance_of_one_success_in_k(
    tasks: dict[str, list[int]], expected: dict[str, float]
) -> None:
    assert figures.compute_pass_at(tasks) == pytest.approx(expected, abs=1e-5)


def test_success_is_told_by_kind_of_task_where_there_are_kinds() -> None:
    kinds = {"a": "easy", "b": "hard", "c": ""}
    assert figures.tally_by_kind(SECOND.episodes, kinds) == {"easy": [1, 1], "hard": [0, 2]}
    assert figures.tally_by_kind(FIRST.episodes, {}) == {}
