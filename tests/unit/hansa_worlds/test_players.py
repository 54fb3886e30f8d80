"""Players without a model, and the scores that they make."""

import random

import pytest

from hansa_worlds import (
    NoPlayer,
    Observation,
    Task,
    World,
    WorldError,
    make,
    registry,
)
from hansa_worlds.players import PLAYERS, has_player, play, schedule, score


class Corridor(World):
    """Walk to the right twice; it lists its moves, and has no other player."""

    name = "corridor"
    max_turns = 4

    def tasks(self, split):
        return [Task(f"{split}-{far}", split, (split, str(far))) for far in (1, 2, 3)]

    def _begin(self, task):
        self._left = int(task.payload[1])
        return "A corridor."

    def _act(self, action):
        self._left -= action == "right"
        return Observation("On.", 1.0, True) if self._left == 0 else Observation("Go.")

    def legal(self):
        return ["left", "right"]

    def group(self, task):
        return f"far-{task.payload[1]}"


@pytest.fixture
def _corridor(monkeypatch):
    """The registry knows nothing but the corridor."""
    monkeypatch.setattr(registry, "load_world", lambda name: Corridor)


@pytest.mark.parametrize("player", PLAYERS)
def test_maze_has_every_player_and_each_plays_to_the_end(player):
    world = make("maze")
    assert has_player(world, player)
    episode = play(world, world.tasks("test")[0], PLAYERS[player], random.Random(1))
    assert 1 <= episode.turns <= 15
    assert episode.success is world.success


def test_a_world_that_only_lists_its_moves_has_chance_alone():
    world = Corridor({})
    assert [player for player in PLAYERS if has_player(world, player)] == ["random", "legal"]
    world.start(world.tasks("test")[0])
    for player in ("greedy", "expert"):
        with pytest.raises(NoPlayer, match="'corridor' has no"):
            PLAYERS[player](world, random.Random(1))


def test_players_get_better_from_chance_to_the_expert():
    rates = [score("maze", {}, player, episodes=500).whole.success.value for player in PLAYERS]
    assert rates == sorted(rates)
    assert rates[-1] == 1.0


def test_a_score_is_the_same_each_time_and_another_with_another_seed():
    first = score("maze", {}, "legal", episodes=200)
    assert score("maze", {}, "legal", episodes=200) == first
    assert score("maze", {}, "legal", episodes=200, seed=8) != first


def tasks(count):
    return [Task(str(number), "test", (str(number),)) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "episodes", "repeats", "played", "distinct"),
    [
        pytest.param(25, None, True, 1000, 25, id="few tasks are played again"),
        pytest.param(30, None, True, 1020, 30, id="in whole sweeps"),
        pytest.param(25, None, False, 25, 25, id="but not by one who draws nothing"),
        pytest.param(1500, None, True, 1500, 1500, id="many tasks once"),
        pytest.param(400, 100, True, 100, 100, id="or some of them if asked"),
        pytest.param(10, 100, False, 10, 10, id="more episodes than tasks say nothing new"),
    ],
)
def test_which_tasks_are_played(count, episodes, repeats, played, distinct):
    plan = schedule(tasks(count), episodes, 7, repeats=repeats)
    assert len(plan) == len(set(plan)) == played
    assert len({task for task, _ in plan}) == distinct


def test_a_sample_of_the_tasks_is_drawn_so_that_no_rhythm_of_theirs_is_met():
    chosen = [int(task.id) for task, _ in schedule(tasks(400), 40, 7, repeats=True)]
    assert chosen == sorted(chosen)
    assert len({number % 40 for number in chosen}) > 15
    assert chosen != [int(task.id) for task, _ in schedule(tasks(400), 40, 8, repeats=True)]


def test_a_split_without_tasks_has_no_score():
    with pytest.raises(WorldError, match="split: got one without tasks"):
        schedule([], None, 7, repeats=True)


def test_an_unknown_player_is_answered_with_the_known_ones():
    with pytest.raises(WorldError, match="'oracle', expected one of random, legal, greedy, expert"):
        score("maze", {}, "oracle")


@pytest.mark.usefixtures("_corridor")
def test_scores_come_by_kind_of_task_too():
    found = score("corridor", {}, "legal", episodes=600)
    assert list(found.groups) == ["far-1", "far-2", "far-3"]
    rates = [tally.success.value for tally in found.groups.values()]
    assert rates == sorted(rates, reverse=True)
    assert sum(tally.episodes for tally in found.groups.values()) == found.whole.episodes == 600
    assert found.whole.tasks == 3


@pytest.mark.usefixtures("_corridor")
def test_repeats_of_few_tasks_do_not_make_a_score_surer_than_the_tasks_allow():
    few = score("corridor", {}, "legal", episodes=600).whole.success
    assert few.high - few.low > 0.3


def test_tasks_of_one_kind_have_no_groups(monkeypatch):
    monkeypatch.setattr("hansa_worlds.maze.world.Maze.group", World.group)
    assert score("maze", {}, "expert").groups == {}


def test_progress_is_told_episode_by_episode():
    lines = []
    score("wordle", {}, "expert", progress=lambda done, total: lines.append((done, total)))
    assert lines == [(number, 10) for number in range(1, 11)]
