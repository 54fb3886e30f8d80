"""Any environment with Gymnasium's methods and text on both sides is a world."""

import importlib.metadata
import sys

import pytest

from hansa_worlds import NoPlayer, OptionError, WorldError, make
from hansa_worlds.contract import CHECKS
from tests.support.gym_envs import Needy, Numbered

SMALL = {"train": [20, 60], "validation": [10, 20], "test": [0, 10], "max_turns": 5}
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]

VARIANTS = {
    "text": {"env": "tests.support.gym_envs:Higher"},
    "numbered": {
        "env": "tests.support.gym_envs:Numbered",
        "text_field": "text",
        "actions": NUMBERS,
    },
    "with arguments": {"env": "tests.support.gym_envs:Higher", "kwargs": {"tries": 3}},
}


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    """What the owner of a machine sets."""
    monkeypatch.setenv("HANSA_WORLD_MODULES", "tests")


def world_of(env="tests.support.gym_envs:Higher", **options):
    return make("gymnasium", {"env": env, "prompt": "none", **SMALL, **options})


def begun(*env, **options):
    """One in its first episode."""
    world = world_of(*env, **options)
    world.start(world.tasks("train")[0])
    return world


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_an_environment_keeps_the_contract(check, options):
    check(lambda: make("gymnasium", {**options, **SMALL}))


def registered():
    """An environment of Gymnasium's own kind, under an id."""
    gymnasium = pytest.importorskip("gymnasium")
    space = {"action_space": gymnasium.spaces.Discrete(9)}
    kind = type("Registered", (Numbered, gymnasium.Env), space)
    if "HansaHigher-v0" not in gymnasium.registry:
        gymnasium.register("HansaHigher-v0", kind)
    return "HansaHigher-v0"


def test_an_id_of_gymnasium_is_made_by_it():
    world = world_of(registered(), text_field="text", actions=NUMBERS)
    assert world.start(world.tasks("train")[0]).text == "Guess a number from 1 to 9."
    assert world.step("one").text in ("Right.", "Higher.")


@pytest.mark.parametrize("kwargs", [{}, {"path": "/yours"}, {"tries": 2, "max_episode_steps": 9}])
def test_an_id_brings_arguments_of_its_own_and_takes_yours_over_them(kwargs):
    gymnasium = pytest.importorskip("gymnasium")
    if "HansaNeedy-v0" not in gymnasium.registry:
        kind = type("RegisteredNeedy", (Needy, gymnasium.Env), {})
        gymnasium.register("HansaNeedy-v0", kind, kwargs={"path": "/its"})
    world = begun("HansaNeedy-v0", kwargs=kwargs)
    made = world._env.unwrapped
    assert (made.path, made.tries) == (kwargs.get("path", "/its"), kwargs.get("tries", 5))
    with pytest.raises(OptionError, match="got trys, expected path, tries"):
        world_of("HansaNeedy-v0", kwargs={"trys": 2})


@pytest.mark.parametrize("names", [[], NUMBERS[:4]])
def test_numbered_actions_need_a_name_each(names):
    with pytest.raises(OptionError, match=f"got {len(names)} names, expected 9, one for each"):
        begun(registered(), text_field="text", actions=names)


def test_success_is_an_end_by_the_environment_with_reward():
    world = begun()
    for guess in range(1, 10):
        if world.step(f"Thought: well.\nAction: {guess}").done:
            break
    number = world._env.number
    assert world.success is (number <= 5)


def test_time_that_ran_out_is_no_success_even_with_reward():
    world = begun(kwargs={"tries": 1})
    seen = world.step("0")
    assert (seen.done, seen.reward, world.success) == (True, 0.5, False)


def test_success_can_ask_for_more_reward():
    world = begun(success=2.0)
    world.step(str(world._env.number))
    assert not world.success


def test_what_the_environment_raises_breaks_the_episode_and_the_next_has_a_new_one():
    world = begun()
    first = world._env
    with pytest.raises(RuntimeError):
        world.step("raise")
    assert first.closed
    assert world.step("1").done
    assert not world.success
    assert world.start(world.tasks("train")[0]).text
    assert world._env is not first


def test_an_action_outside_the_text_space_is_a_wasted_turn():
    gymnasium = pytest.importorskip("gymnasium")
    world = begun()
    world._env.action_space = gymnasium.spaces.Text(3, charset="0123456789")
    assert world.step("four").text == "That is no action here."
    assert world._env.left == 5
    assert world.step("4").text in ("Right.", "Higher.", "Lower.")


def test_unknown_names_are_answered_with_the_known_ones():
    world = begun("tests.support.gym_envs:Numbered", text_field="text", actions=NUMBERS)
    assert world.step("zero").text == f"That is no action here. Actions: {', '.join(NUMBERS)}."
    assert world.legal() == NUMBERS
    with pytest.raises(NoPlayer):
        world_of().legal()


def test_observations_that_are_no_text_name_the_option():
    with pytest.raises(OptionError, match=r"whose observation is a dict, .* options\.text_field"):
        begun("tests.support.gym_envs:Numbered", actions=NUMBERS)


@pytest.mark.parametrize("answer", ["text", ("text",), ("text", 1, 2)])
def test_a_reset_of_another_shape_is_refused(answer):
    with pytest.raises(WorldError, match="reset gives no pair"):
        begun("tests.support.gym_envs:Wrong", kwargs={"reset": answer})


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (("text", 1.0, True, {}), "step gives no observation, reward"),
        (("text", "much", True, False, {}), "a reward that is not a number"),
        (("text", float("nan"), True, False, {}), "a reward that is not a number"),
        (("text", None, True, False, {}), "a reward that is not a number"),
    ],
)
def test_a_step_of_another_shape_is_refused(step, reason):
    world = begun("tests.support.gym_envs:Wrong", kwargs={"step": step})
    with pytest.raises(WorldError, match=reason):
        world.step("1")
    assert world.step("1").done


def test_rules_can_be_given():
    world = make("gymnasium", {"env": "tests.support.gym_envs:Higher", "rules": "Guess.", **SMALL})
    assert world.start(world.tasks("test")[0]).text.startswith("Guess.\nGuess a number")


# -- what options may name -------------------------------------------------------------------------


def hidden(name):
    return {"worlds": [{"name": "a", "world": "gymnasium", "options": {"env": name}}]}


@pytest.mark.attack(
    by="the author of a Federation",
    does="names `subprocess:Popen` as an option of a world, also as a part of `mixed`",
    result="refused before anything is imported",
)
@pytest.mark.parametrize(
    "name",
    [
        "subprocess:Popen",
        "os:system",
        "this:Nothing",
        "this:Nothing-v0",
        "this.tests:Env",
        "testsuite:Env",
        ":Env",
        ".gym_envs:Higher",
    ],
)
def test_an_option_imports_and_calls_nothing_that_the_owner_has_not_allowed(name, monkeypatch):
    for world, options in (("gymnasium", {"env": name}), ("mixed", hidden(name))):
        monkeypatch.delitem(sys.modules, "this", raising=False)
        with pytest.raises(OptionError) as refused:
            make(world, {**options, **({"kwargs": {"args": "id"}} if world != "mixed" else {})})
        assert f"options.env: got {name!r}, expected a class or id of a module in" in str(
            refused.value
        )
        assert "HANSA_WORLD_MODULES (now tests)" in str(refused.value)
        assert "this" not in sys.modules


def test_without_a_list_no_module_is_allowed(monkeypatch):
    monkeypatch.delenv("HANSA_WORLD_MODULES")
    with pytest.raises(OptionError, match=r"HANSA_WORLD_MODULES \(now nothing\)"):
        world_of()


@pytest.mark.attack(
    by="the author of a Federation",
    does="names a function of an allowed module",
    result="refused: only classes with `reset` and `step` are called",
)
def test_a_function_of_an_allowed_module_is_not_called(monkeypatch):
    monkeypatch.setenv("HANSA_WORLD_MODULES", "subprocess, tests.support.gym_envs")
    for name in ("subprocess:run", "subprocess:Popen"):
        with pytest.raises(OptionError, match="which is no class with reset and step"):
            world_of(name)
    assert world_of().start(world_of().tasks("train")[0]).text


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("tests.support.gym_envs:Higher", True),
        ("tests.support.gym_envs", True),
        ("tests.support.gym_envs:Numbered", False),
        ("tests.support.gym_envs.more", False),
    ],
)
def test_a_package_offers_classes_and_modules_by_entry_point(value, fits, monkeypatch):
    point = importlib.metadata.EntryPoint("mine", value, "hansa.environments")
    points = importlib.metadata.EntryPoints([point])
    monkeypatch.delenv("HANSA_WORLD_MODULES")
    monkeypatch.setattr(
        "hansa_worlds.gymnasium.entry_points", lambda group: points.select(group=group)
    )
    if fits:
        assert world_of().tasks("train")
        return
    with pytest.raises(OptionError, match=r"by entry point hansa\.environments"):
        world_of()


def test_an_id_is_allowed_where_the_module_of_its_class_is(monkeypatch):
    name = registered()
    monkeypatch.setenv("HANSA_WORLD_MODULES", "tests.support.gym_envs")
    for spelled in (name, f"tests.support.gym_envs:{name}"):  # its class is one of this file's
        with pytest.raises(OptionError, match="expected a class or id of a module"):
            world_of(spelled, text_field="text", actions=NUMBERS)
    with pytest.raises(OptionError, match="expected a class or id of a module"):
        world_of("CartPole-v1", actions=["left", "right"])
    monkeypatch.setenv("HANSA_WORLD_MODULES", f"tests.support.gym_envs,{__name__}")
    for spelled in (name, f"tests.support.gym_envs:{name}"):
        world = world_of(spelled, text_field="text", actions=NUMBERS)
        assert world.start(world.tasks("train")[0]).text == "Guess a number from 1 to 9."


def test_an_id_that_a_function_makes_is_refused():
    gymnasium = pytest.importorskip("gymnasium")
    if "HansaMade-v0" not in gymnasium.registry:
        gymnasium.register("HansaMade-v0", "tests.support.gym_envs:made")
    with pytest.raises(OptionError, match="which is no class with reset and step"):
        world_of("HansaMade-v0")
