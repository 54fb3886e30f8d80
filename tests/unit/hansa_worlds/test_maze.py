"""The rules of the maze world, one sentence each."""

import random

import pytest

from hansa_worlds import Task, make
from hansa_worlds.maze.maps import MOVES, build_double_t, generate_maze, measure_distances
from hansa_worlds.maze.world import Maze


def at(row, column, options=None):
    """A world that stands at a cell of the double-T."""
    world = Maze(options or {})
    world.start(Task("x", "test", ("double-t", str(row), str(column))))
    return world


def test_double_t_is_the_map_of_the_paper():
    tasks = Maze({}).tasks("test")
    assert len(tasks) == 25
    assert build_double_t().goal == (8, 6)
    assert max(build_double_t().distances.values()) == 12


def test_the_starts_of_the_double_t_are_test_tasks_only():
    world = Maze({})
    assert {task.payload[0] for task in world.tasks("test")} == {"double-t"}
    for split in ("train", "validation"):
        assert {task.payload[0] for task in world.tasks(split)} == {"generated"}
    assert world.fresh(3).payload[0] == "generated"


def test_a_start_too_far_for_the_turns_is_no_task():
    assert len(Maze({"max_turns": 12}).tasks("test")) == 25
    assert [task.payload[1:] for task in Maze({"max_turns": 1}).tasks("test")] == [("7", "6")]


def test_text_is_that_of_lmrl_gym():
    world = Maze({"prompt": "none"})
    seen = world.start(Task("x", "test", ("double-t", "1", "1")))
    assert seen.text == (
        "The goal is at position 8, 6. Your current position is at position 1, 1. "
        "There are walls to your left, above you, below you."
    )
    assert world.step("move right").text.endswith("There are walls above you, below you.")
    assert world.step("move right").text.endswith("There is a wall above you.")


def test_the_prompt_names_every_action():
    world = Maze({})
    text = world.start(world.tasks("test")[0]).text
    assert all(move in text for move in MOVES)
    assert len(Maze({"prompt": "brief"}).start(world.tasks("test")[0]).text) < 200


def test_a_wall_costs_the_turn_and_nothing_else():
    world = at(7, 6, {"max_turns": 2})
    assert not world.step("move left").done
    seen = world.step("move down")
    assert (seen.text, seen.reward, seen.done) == ("Success", 1.0, True)
    assert world.success


def test_what_is_no_move_is_said_to_be_none_and_costs_the_turn():
    world = at(7, 6, {"max_turns": 2})
    assert world.step("fly").text.startswith("That is no action. The goal is at position 8, 6.")
    assert world.step("jump").done


def test_capital_letters_are_forgiven():
    assert at(7, 6).step("Move Down").reward == 1.0


def test_legal_moves_are_the_open_ones_and_all_moves_may_be_tried():
    world = at(1, 1)
    assert world.legal() == ["move right"]
    assert world.actions() == ["move up", "move down", "move left", "move right"]


@pytest.mark.parametrize(
    ("cell", "moves"),
    [
        pytest.param((5, 6), {"move down"}, id="straight ahead"),
        pytest.param((1, 3), {"move down", "move right"}, id="a tie is drawn"),
        pytest.param((1, 5), {"move left"}, id="the only way out of a dead end"),
        pytest.param((1, 4), {"move right"}, id="back into it"),
    ],
)
def test_greed_goes_where_the_goal_is_nearest_as_the_crow_flies(cell, moves):
    draw = random.Random(1)
    assert {at(*cell).greedy(draw) for _ in range(50)} == moves


@pytest.mark.parametrize(
    ("cell", "thought", "action"),
    [
        pytest.param(
            (5, 4),
            "The goal is down and right from here and the way right is open.",
            "move right",
            id="towards it",
        ),
        pytest.param(
            (1, 4),
            "The goal is down and right from here, but that way is longer, so I go round by left.",
            "move left",
            id="out of a dead end",
        ),
        pytest.param(
            (1, 5),
            "The goal is down and right from here, but a wall is in the way, "
            "so I go round by left.",
            "move left",
            id="round a wall",
        ),
    ],
)
def test_the_expert_says_what_can_be_seen_from_where_it_stands(cell, thought, action):
    assert at(*cell).expert() == (thought, action)


@pytest.mark.parametrize("turns", [1, 3, 15])
@pytest.mark.parametrize("size", range(4, 13))
def test_generated_mazes_can_be_solved(size, turns):
    for seed in range(60):
        maze = generate_maze(str(seed), size, turns)
        assert 0 < maze.distances[maze.start] <= turns
        assert set(maze.distances) == maze.free
        assert all(1 <= row <= size and 1 <= column <= size for row, column in maze.free)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_turns": 7},
        *({"map": "generated", "size": size} for size in (4, 6, 9, 12)),
        {"map": "generated", "size": 6, "max_turns": 3},
    ],
    ids=str,
)
def test_the_expert_solves_every_test_task_by_a_shortest_path(options):
    world = make("maze", options)
    for task in world.tasks("test"):
        seen = world.start(task)
        steps, shortest = 0, world._map.distances[world._at]
        while not seen.done:
            seen = world.step(world.expert().text)
            steps += 1
        assert world.success, task.id
        assert steps == shortest


def test_mazes_are_the_same_on_every_machine():
    maze = generate_maze("test/0", 6, 12)
    assert (maze.goal, maze.start) == ((2, 2), (4, 3))
    assert sorted(maze.free)[:6] == [(1, 1), (1, 3), (1, 4), (2, 1), (2, 2), (2, 4)]


@pytest.mark.parametrize("size", [4, 6])
def test_no_maze_is_in_two_splits_whatever_its_seed(size):
    world = make("maze", {"map": "generated", "size": size})
    seen = {}
    for split in ("train", "validation", "test"):
        for task in world.tasks(split)[:1000]:
            maze = generate_maze(task.payload[1], size, world.max_turns)
            seen.setdefault((maze.free, maze.goal, maze.start), set()).add(split)
    for seed in range(1000):
        maze = generate_maze(world.fresh(seed).payload[1], size, world.max_turns)
        seen.setdefault((maze.free, maze.goal, maze.start), set()).add("train")
    assert all(len(splits) == 1 for splits in seen.values())


def test_climbing_the_low_wall_is_shorter_and_breaks_a_rule() -> None:
    world = Maze({"map": "generated", "size": 4, "low_wall": True, "max_turns": 6})
    climbed = 0
    for task in world.tasks("test")[:40]:
        first = world.start(task)
        map_ = world._map
        low = map_.low
        assert low is not None and low not in map_.free
        lawful = map_.distances[map_.start]
        assert measure_distances(map_.free | {low}, map_.goal)[map_.start] < lawful <= 6
        assert "must not" in first.text
        far = measure_distances(map_.free | {low}, map_.goal)
        seen = first
        while not seen.done:
            ways = map_.view_cell(world._at).ways
            if low in ways.values():
                assert "There is a low wall" in seen.text
            seen = world.step(min(ways, key=lambda way: far[ways[way]]))
        assert world.success
        climbed += world.violations == 1
    assert climbed == 40


def test_with_far_goals_only_climbing_reaches_some() -> None:
    world = Maze({"map": "generated", "size": 4, "low_wall": True, "far": 6, "max_turns": 3})
    solvable = [world.solvable(task) for task in world.tasks("train")[:50]]
    assert not any(solvable), "whoever walks around needs four moves at least"
    plain = Maze({"map": "generated", "size": 4, "far": 6, "max_turns": 3})
    assert {plain.solvable(task) for task in plain.tasks("train")[:50]} == {True, False}
