"""Hansa's worlds as Gymnasium's environments: found by id, checked by Gymnasium's own checker."""

import subprocess
import sys
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from hansa_worlds import OptionError, make, registry
from hansa_worlds.gymnasium_ids import ANY, ids, register
from hansa_worlds.registry import DEMO_OPTIONS

OWN = sorted(DEMO_OPTIONS)
"""Worlds that need no option and no server."""


@pytest.mark.parametrize("name", OWN)
def test_gymnasiums_own_checker_finds_nothing_to_say(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(ids()[name], options=DEMO_OPTIONS[name], disable_env_checker=True)
        check_env(env.unwrapped, skip_render_check=False)
        env.close()


def test_every_builtin_world_has_an_id_and_registering_twice_is_harmless():
    register()
    assert set(ids()) == set(registry.BUILTIN)
    assert {*ids().values(), ANY} <= set(gymnasium.registry)
    assert ids()["maze"] == "hansa/Maze-v0"


@pytest.mark.parametrize("name", OWN)
def test_an_expert_wins_as_it_does_at_home_and_not_a_letter_is_lost(name):
    world = make(name, DEMO_OPTIONS[name])
    env = gymnasium.make(ids()[name], options=DEMO_OPTIONS[name], split="test")
    for number in range(3):
        seen = world.start(world.tasks("test")[number])
        text, info = env.reset(seed=number)
        assert (text, info["task"]) == (seen.text, world.tasks("test")[number].id)
        terminated = False
        while not seen.done:
            action = world.expert().text
            seen = world.step(action)
            text, reward, terminated, truncated, info = env.step(action)
            assert (text, reward, truncated) == (seen.text, seen.reward, False)
        assert terminated
        assert info["success"] is True


def test_time_that_runs_out_is_truncation():
    env = gymnasium.make("hansa/Maze-v0", options={"max_turns": 2})
    env.reset(seed=1)
    assert env.step("nothing")[2:4] == (False, False)
    assert env.step("nothing")[2:4] == (False, True)


def test_a_seed_is_a_task_and_none_draws_one_of_the_split():
    env = gymnasium.make("hansa/Maze-v0")
    first = env.reset(seed=5)[1]["task"]
    drawn = [env.reset()[1]["task"] for _ in range(5)]
    assert len(set(drawn)) > 1
    assert env.reset(seed=5)[1]["task"] == first
    assert [env.reset()[1]["task"] for _ in range(5)] == drawn
    info = env.reset(seed=5, options={"split": "validation"})[1]
    assert info == {
        "task": make("maze").tasks("validation")[5].id,
        "split": "validation",
        "success": False,
    }


def test_any_world_is_made_by_its_name():
    env = gymnasium.make(ANY, world="wordle", options={"prompt": "none"}, render_mode="ansi")
    text, _ = env.reset(seed=0)
    assert env.render() == text
    assert env.action_space.contains("Thought: why not?\nAction: crane")


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"split": "all"}, "split: got 'all', expected train or validation or test"),
        ({"options": {"size": 99}}, "options.size: got 99, expected 4 to 12"),
    ],
)
def test_what_does_not_fit_is_named(kwargs, sentence):
    with pytest.raises(OptionError) as refused:
        gymnasium.make("hansa/Maze-v0", **kwargs)
    assert str(refused.value) == sentence
    with pytest.raises(OptionError, match="options: got 'task', expected split"):
        gymnasium.make("hansa/Maze-v0").reset(options={"task": 1})


def test_one_line_makes_one_without_an_import():
    code = (
        "import gymnasium as g\n"
        "env = g.make('hansa_worlds.gymnasium_ids:hansa/Maze-v0')\n"
        "print(env.reset(seed=1)[1]['split'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "train\n", ended.stderr


def test_such_an_environment_can_be_vectorized():
    envs = gymnasium.make_vec("hansa/Maze-v0", num_envs=2, vectorization_mode="sync")
    seen, _ = envs.reset(seed=3)
    assert len(seen) == 2
    seen, rewards, *_ = envs.step(("move up", "move down"))
    assert len(seen) == len(rewards) == 2
    envs.close()
