"""The scores that others measured in AgentGym's maze and wordle come out of ours.

Each is checked twice: played, within two standard errors of the published figure, and worked out
exactly over all luck there is, which shows how far the published figure itself is from the truth.
"""

import math
from functools import cache

import pytest

from hansa_worlds import make
from hansa_worlds.base import SPLITS, rng
from hansa_worlds.maze.maps import MOVES, build_double_t
from hansa_worlds.players import PLAYERS, play, score
from hansa_worlds.wordle.lists import WORDS
from hansa_worlds.wordle.search import mark_guess
from hansa_worlds.wordle.world import TRIES

MAZE = {"random": 0.068, "legal": 0.11, "greedy": 0.716}
"""Published: success within 15 steps, over 25 starts."""
WORDLE_RANDOM, WORDLE_GUESSES = 0.136, 2.53
"""Published: random guesses; mean guesses of a random player among the words that fit."""

EPISODES = 2_000


def standard_error(rate, episodes):
    return math.sqrt(rate * (1 - rate) / episodes)


@pytest.mark.parametrize(("player", "published"), MAZE.items())
def test_maze_scores_as_published(player, published):
    measured = score("maze", {}, player, episodes=EPISODES).whole
    assert measured.episodes == EPISODES
    two = 2 * standard_error(published, EPISODES)
    assert abs(measured.success.value - published) <= two


def next_cells(cell, player):
    """Where a player may be after a move, each equally likely."""
    ways = build_double_t().view_cell(cell).ways
    if player == "random":
        return [ways.get(move, cell) for move in MOVES]
    if player == "legal":
        return list(ways.values())
    nearest = min(map(build_double_t().measure_manhattan, ways.values()))
    return [
        there for there in ways.values() if build_double_t().measure_manhattan(there) == nearest
    ]


def chance_to_arrive(player, turns):
    """By the chain of cells: from every start alike, within the turns."""
    maze = build_double_t()
    chance = {cell: float(cell == maze.goal) for cell in maze.free}
    for _ in range(turns):
        before = chance
        chance = {maze.goal: 1.0}
        for cell in maze.free - {maze.goal}:
            ends = next_cells(cell, player)
            chance[cell] = sum(before[end] for end in ends) / len(ends)
    starts = sorted(maze.free - {maze.goal})
    return sum(chance[cell] for cell in starts) / len(starts)


@pytest.mark.parametrize(
    ("player", "exact"), [("random", 0.0701), ("legal", 0.1050), ("greedy", 0.72)]
)
def test_maze_scores_can_be_worked_out_exactly(player, exact):
    assert chance_to_arrive(player, 15) == pytest.approx(exact, abs=5e-5)
    assert abs(exact - MAZE[player]) <= 2 * standard_error(exact, EPISODES)
    measured = score("maze", {}, player, episodes=10 * EPISODES).whole.success.value
    assert abs(measured - exact) <= 2 * standard_error(exact, 10 * EPISODES)


def games(player, count):
    """Turns and success of games over all forty secrets, which the splits share out."""
    world = make("wordle")
    tasks = [task for split in SPLITS for task in world.tasks(split)]
    assert len(tasks) == 40
    for number in range(count):
        task = tasks[number % len(tasks)]
        yield play(world, task, PLAYERS[player], rng("figures", player, number))


def test_wordle_random_guesses_win_as_often_as_published():
    won = sum(game.success for game in games("random", EPISODES)) / EPISODES
    assert abs(won - WORDLE_RANDOM) <= 2 * standard_error(WORDLE_RANDOM, EPISODES)
    exact = 1 - (1 - 1 / len(WORDS)) ** TRIES
    assert exact == pytest.approx(0.1409, abs=5e-5)
    assert abs(exact - WORDLE_RANDOM) <= 2 * standard_error(exact, EPISODES)


def test_wordle_random_words_that_fit_always_win_in_as_many_guesses_as_published():
    played = list(games("greedy", EPISODES))
    assert all(game.success for game in played)
    mean = sum(game.turns for game in played) / EPISODES
    spread = math.sqrt(sum((game.turns - mean) ** 2 for game in played) / EPISODES)
    assert abs(mean - WORDLE_GUESSES) <= 2 * spread / math.sqrt(EPISODES)


@cache
def guesses(fitting):
    """How many of the secrets are found at the first, second, ... guess, in the mean over luck."""
    found = [0.0] * 12
    for guess in fitting:
        parts = {}
        for secret in fitting:
            parts.setdefault(mark_guess(guess, secret), []).append(secret)
        for part in parts.values():
            if part == [guess]:
                found[0] += 1 / len(fitting)
                continue
            for later, count in enumerate(guesses(tuple(part))[:-1], 1):
                found[later] += count / len(fitting)
    return tuple(found)


def test_wordle_guesses_can_be_worked_out_exactly():
    shares = [count / len(WORDS) for count in guesses(WORDS)]
    assert sum(shares) == pytest.approx(1)
    assert sum(shares[TRIES:]) == 0  # whatever the luck, six tries are enough
    mean = sum(number * share for number, share in enumerate(shares, 1))
    assert mean == pytest.approx(2.5332, abs=5e-5)
    assert round(mean, 2) == WORDLE_GUESSES


@pytest.mark.parametrize("name", ["maze", "wordle", "textcraft", "webshop"])
def test_chance_alone_stays_under_fifteen_percent(name):
    assert score(name, {}, "random", episodes=200).whole.success.value < 0.15


@pytest.mark.parametrize("name", ["maze", "wordle", "textcraft"])
def test_the_expert_solves_the_whole_evaluation_split(name):
    measured = score(name, {}, "expert").whole
    assert measured.successes == measured.episodes == len(make(name).tasks("test"))
