"""BabyAI's rooms are minigrid's, and play as minigrid plays them."""

import hashlib
import random
from importlib import import_module

import numpy as np
import pytest

from hansa_worlds.babyai import levels, obstacles
from hansa_worlds.babyai.capture import capture, make_quiet
from hansa_worlds.babyai.goals import build_goal
from hansa_worlds.babyai.grid import DROP, NOBODY, PAD, Grid
from hansa_worlds.babyai.levels import LEVELS
from hansa_worlds.babyai.view import HALF, SIZE, FieldOfView

STEPS = 80
KEY_OUTSIDE = (7, 24)
"""Levels where minigrid may put the key behind its own door."""


def original(level):
    """The environment as minigrid offers it."""
    kind = getattr(import_module("minigrid.envs.babyai"), LEVELS[level].kind or LEVELS[level].name)
    return kind(**dict(LEVELS[level].arguments))


@pytest.mark.parametrize("level", [level for level in LEVELS if level not in KEY_OUTSIDE])
def test_a_seed_gives_minigrids_room(level):
    env = original(level)
    for seed in range(3):
        env.reset(seed=seed)
        assert capture(env) == levels.load_start(level, seed)


def test_rooms_are_the_same_on_every_machine():
    digest = hashlib.sha256()
    for level in LEVELS:
        for seed in range(2):
            digest.update(repr(levels.load_start(level, seed)).encode())
    assert digest.hexdigest()[:16] == "202777fecae52c39"


@pytest.mark.parametrize("level", KEY_OUTSIDE)
def test_the_key_is_never_behind_its_own_door(level):
    for seed in range(40):
        grid = Grid(levels.load_start(level, seed))
        start = grid.start
        lock = next(door for door, state in grid.doors.items() if state == "locked")
        keys = [
            cell
            for cell, thing in grid.things.items()
            if start.kinds[thing] == "key" and start.colors[thing] == start.colors[lock]
        ]
        assert obstacles.find_cheapest_way(grid, keys, lambda door, lock=lock: door != lock)


@pytest.mark.parametrize("level", LEVELS)
def test_every_step_is_minigrids(level):
    draw = random.Random(level)
    for seed in range(2):
        env = levels.make_environment(level)
        env.reset(seed=seed)
        grid = Grid(levels.load_start(level, seed))
        goal = build_goal(grid.start.goal)
        for _ in range(STEPS):
            # turning and walking more often than the rest, as walks do
            action = draw.choice([0, 1, 2, 2, 2, 3, 4, 5])
            _, reward, is_over, is_late, _ = env.step(action)
            grid.act(action)
            if action == DROP:
                goal.refresh(grid)
            status = goal.judge(grid, action)
            if is_over and level == 16 and status == "continue":
                break  # where minigrid spoils the second goal by reaching the first
            assert (status != "continue") == is_over
            assert (status == "success") == (reward > 0)
            assert_equal(env, grid)
            if is_over or is_late:
                break


def assert_equal(env, grid):
    """The agent, its hand, every cell, and what is seen."""
    cell = (int(env.agent_pos[1]) + PAD) * grid.start.width + int(env.agent_pos[0]) + PAD
    assert (grid.at, grid.face, grid.steps) == (cell, env.agent_dir, env.step_count)
    held = None if grid.held == NOBODY else grid.describe_thing(grid.held)
    carried = env.carrying and f"{env.carrying.color} {env.carrying.type}"
    assert held == carried
    for y in range(env.height):
        for x in range(env.width):
            cell = (y + PAD) * grid.start.width + x + PAD
            found = env.grid.get(x, y)
            assert _name(grid, cell) == (None if found is None else _called(found))
    seen, mask = env.gen_obs_grid()
    shown = {
        (SIZE - 1 - j, i - HALF): _called(seen.get(i, j))
        for i, j in np.argwhere(mask)
        if seen.get(i, j) is not None and seen.get(i, j).type != "wall"
    }
    shown.pop((0, 0), None)  # what is carried
    named = {(s.ahead, s.right): s.name.rpartition(" ")[0] for s in FieldOfView(grid).seen}
    assert named == shown


def _name(grid, cell):
    if grid.is_wall(cell):
        return "wall"
    return grid.describe_thing(grid.things[cell]) if cell in grid.things else None


def _called(found):
    if found.type == "wall":
        return "wall"
    if found.type != "door":
        return f"{found.color} {found.type}"
    state = "open" if found.is_open else "locked" if found.is_locked else "closed"
    return f"{found.color} {state} door"


def test_a_room_without_a_place_for_the_agent_is_made_anew():
    """minigrid's own would look for a place without end."""

    from minigrid.core.world_object import Ball
    from minigrid.envs.babyai import GoToRedBall

    class Full(GoToRedBall):
        tries = 0

        def gen_mission(self):
            self.tries += 1
            if self.tries == 1:
                for x in range(1, self.room_size - 1):
                    for y in range(1, self.room_size - 1):
                        self.grid.set(x, y, Ball("red"))
            super().gen_mission()

    env = make_quiet(Full)()
    env.reset(seed=3)
    assert env.tries == 2
