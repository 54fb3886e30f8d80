"""Options, action parsing and finding worlds by name: what all worlds share."""

from importlib.metadata import EntryPoint

import pytest

from hansa.api.worlds import WORLDS
from hansa.core import entry_points
from hansa_worlds import OptionError, WorldError, make, names, registry
from hansa_worlds.base import Options, Task, TaskList, parse_action, rng, share


@pytest.mark.parametrize(
    ("text", "action"),
    [
        pytest.param("move up", "move up", id="a bare action"),
        pytest.param("  move \t up\n", "move up", id="white space is forgiven"),
        pytest.param("Thought: so.\nAction: move up", "move up", id="after a thought"),
        pytest.param("Action:move up\nand more", "move up", id="up to the end of its line"),
        pytest.param("Action:\n\n  move up", "move up", id="on the line below"),
        pytest.param("Action: a\nAction: b", None, id="two actions are none"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_parse_action(text, action):
    assert parse_action(text) == action


def test_an_action_is_cut_where_no_world_has_one_so_long():
    assert len(parse_action("a" * 10**6) or "") == 1_000


def test_all_mistakes_in_the_options_are_said_at_once():
    with pytest.raises(OptionError) as refused:
        make("maze", {"size": 99, "sise": 6, "prompt": "long", "mab": 1})
    assert str(refused.value) == (
        "options.prompt: got 'long', expected full or brief or none; "
        "options.size: got 99, expected 4 to 12; "
        "options.mab, options.sise: unknown, expected far, low_wall, map, max_turns, prompt, size"
    )


def test_a_world_that_forgets_to_finish_is_not_made_with_a_wrong_option(monkeypatch):
    class Forgetful(registry.load_world("maze")):
        def __init__(self, options):
            self.size = self._read(options).integer("size", 10, 4, 12)

    monkeypatch.setattr(registry, "load_world", lambda name: Forgetful)
    with pytest.raises(OptionError, match=r"options\.size: got 99, expected 4 to 12"):
        make("forgetful", {"size": 99})


def test_a_whole_number_written_as_a_float_is_a_whole_number():
    assert Options({"size": 6.0}).integer("size", 1, 1, 9) == 6


def test_an_unknown_world_is_answered_with_the_known_ones():
    with pytest.raises(
        WorldError, match="'mars', expected one of agentgym, babyai, gymnasium, maze"
    ):
        make("mars")
    with pytest.raises(WorldError, match=r"'mazee', expected one of .*; did you mean maze\?"):
        make("mazee")


def test_a_package_offers_a_world_by_entry_point(monkeypatch):
    point = EntryPoint("walk", "hansa_worlds.maze.world:Maze", WORLDS.group)
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [point])
    assert "walk" in names()
    assert make("walk").name == "maze"


def test_a_package_cannot_replace_a_builtin_world(monkeypatch):
    point = EntryPoint("maze", "hansa_worlds.wordle.world:Wordle", WORLDS.group)
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [point])
    assert make("maze").name == "maze"


def test_an_entry_point_that_is_no_world_is_refused(monkeypatch):
    point = EntryPoint("odd", "builtins:dict", WORLDS.group)
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [point])
    with pytest.raises(WorldError, match=r"expected a class below hansa_worlds\.World"):
        make("odd")


def test_task_list_is_a_sequence():
    tasks = TaskList(5, lambda index: Task(str(index), "train", (str(index),)))
    assert [task.id for task in tasks] == ["0", "1", "2", "3", "4"]
    assert tasks[-1].id == "4"
    assert [task.id for task in tasks[1:3]] == ["1", "2"]
    with pytest.raises(IndexError):
        tasks[5]


def test_shares_are_disjoint_and_whole():
    items = [str(number) for number in range(40)]
    parts = [share(items, split, "x") for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [24, 6, 10]
    assert sorted(item for part in parts for item in part) == sorted(items)


def test_seeds_are_text_and_stay_what_they_are():
    assert rng("maze", 6, "test/0").random() == rng("maze/6/test/0").random()
    assert rng("hansa", 7).randrange(10**6) == 575252


def test_a_step_before_the_start_is_an_ended_episode():
    assert make("maze").step("move up").done


def test_an_action_that_raises_ends_the_episode(monkeypatch):
    world = make("maze", {})
    task = world.tasks("test")[0]
    world.start(task)
    with monkeypatch.context() as patch:
        patch.setattr(type(world), "_act", lambda _world, _action: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.step("move up")
    assert world.step("move up").text == "The episode is over."
    assert not world.start(task).done
    assert world.step("move up").text != "The episode is over."
