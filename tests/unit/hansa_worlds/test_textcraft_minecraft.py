"""Minecraft's recipe files: every way they are written, and what is no recipe file."""

import json
import os

import pytest

from hansa_worlds import OptionError, Task
from hansa_worlds.contract import CHECKS
from hansa_worlds.textcraft import minecraft as files
from hansa_worlds.textcraft.world import TextCraft


def shaped(result, pattern, key, **more):
    kind = "minecraft:crafting_shaped"
    return {"type": kind, "pattern": pattern, "key": key, "result": result, **more}


def shapeless(result, *ingredients, **more):
    kind = "minecraft:crafting_shapeless"
    return {"type": kind, "ingredients": list(ingredients), "result": result, **more}


def item(name):
    return {"item": f"minecraft:{name}"}


@pytest.fixture
def folder(tmp_path):
    def write(**recipes):
        for name, recipe in recipes.items():
            text = recipe if isinstance(recipe, str) else json.dumps(recipe)
            (tmp_path / f"{name}.json").write_text(text)
        return str(tmp_path)

    return write


WOODS = ("acacia", "birch", "oak", "spruce")


def woodwork():
    """Enough for every split: planks of four woods, and what is made of them."""
    found = {
        "stick": shaped(
            {"item": "minecraft:stick", "count": 4},
            ["#", "#"],
            {"#": {"tag": "minecraft:planks"}},
            group="sticks",
        ),
        "ladder": shaped({"id": "ladder", "count": 3}, ["# #", "###", "# #"], {"#": item("stick")}),
        "torch": shaped(
            {"item": "minecraft:torch", "count": 4},
            ["X", "#"],
            {"#": item("stick"), "X": [item("coal"), item("charcoal")]},
        ),
    }
    for wood in WOODS:
        found[f"{wood}_planks"] = shapeless(
            {"item": f"minecraft:{wood}_planks", "count": 4},
            {"tag": f"minecraft:{wood}_logs"},
            group="planks",
        )
        found[f"{wood}_door"] = shaped(
            {"id": f"minecraft:{wood}_door", "count": 3}, ["##"] * 3, {"#": item(f"{wood}_planks")}
        )
    return found


def commands(folder_):
    return [recipe.command for recipe in files.read_folder(folder_).listed]


@pytest.mark.parametrize(
    ("recipe", "command"),
    [
        pytest.param(
            shaped({"item": "minecraft:bow"}, [" #X", "# X"], {"#": item("stick"), "X": item("s")}),
            "craft 1 bow using 2 stick, 2 s",
            id="a pattern is counted by its key",
        ),
        pytest.param(
            shapeless("minecraft:book", item("paper"), item("hide"), item("paper")),
            "craft 1 book using 2 paper, 1 hide",
            id="a result that is text, and equal ingredients together",
        ),
        pytest.param(
            shapeless({"id": "minecraft:dye", "count": 2}, "minecraft:rose"),
            "craft 2 dye using 1 rose",
            id="ids and bare names of later versions",
        ),
        pytest.param(
            shapeless("chest", "#minecraft:oak_logs", [item("a"), item("b")], ["c", "d"]),
            "craft 1 chest using 1 oak logs, 1 a, 1 c",
            id="tags with a sign, and of alternatives the first",
        ),
        pytest.param(
            shaped("a", ["#"], {"#": item("b"), "X": item("unused")}),
            "craft 1 a using 1 b",
            id="a key that the pattern does not use is nothing",
        ),
    ],
)
def test_a_recipe_is_read_however_it_is_written(folder, recipe, command):
    assert commands(folder(one=recipe)) == [command]


def test_a_tag_is_met_by_any_craftable_thing_of_that_group_and_got_where_there_is_none(folder):
    book = files.read_folder(folder(**woodwork()))
    assert book.kinds["planks"] == tuple(f"{wood} planks" for wood in WOODS)
    assert "oak logs" in book.base
    assert "planks" not in book.base


def test_what_textcraft_skips_is_skipped_and_counted(folder):
    book = files.read_folder(
        folder(
            smelt={"type": "minecraft:smelting", "ingredient": item("ore"), "result": "ingot"},
            dye={"type": "minecraft:crafting_special_armordye"},
            ingot_from_block=shapeless("iron_ingot", item("iron_block")),
            ingot_from_nuggets=shapeless("iron_ingot", item("iron_nugget")),
            nugget=shapeless({"item": "iron_nugget", "count": 9}, item("iron_ingot")),
            block=shaped("iron_block", ["###"] * 3, {"#": item("iron_ingot")}),
        )
    )
    assert sorted(book.recipes) == ["iron block", "iron ingot"]
    assert book.skipped == {"other type": 2, "block": 1, "circle": 1}
    assert book.base == {"iron nugget"}


def test_files_are_read_by_name_so_that_the_same_circle_is_cut_everywhere(folder):
    one = shapeless("a", item("b"))
    other = shapeless("b", item("a"))
    assert commands(folder(x1=other, x2=one)) == ["craft 1 b using 1 a"]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_world_of_files_keeps_the_contract(folder, check):
    options = {"recipes": folder(**woodwork())}
    check(lambda: TextCraft(options))


def test_a_goal_of_files_is_crafted(folder):
    world = TextCraft({"recipes": folder(**woodwork()), "prompt": "none", "distractors": 0})
    text = world.start(Task("x", "test", ("stick", "0"))).text
    assert "craft 4 stick using 2 planks" in text
    assert text.count("logs") == 4
    world.step("get 1 oak logs")
    world.step("craft 4 oak planks using 1 oak logs")
    assert world.step("craft 4 stick using 2 oak planks").reward == 1.0


DEEP = "[" * 60_000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "expected a file of JSON"),
        ("", "expected a file of JSON"),
        (DEEP, "expected a file of JSON"),
        ('{"type": ' + "9" * 5_000 + "}", "expected a file of JSON"),
        (" " * 70_000, "expected at most 65536 bytes"),
        ("[]", "expected a JSON object"),
        ({}, "type: got nothing, expected text"),
        ({"type": 3}, "type: got 3, expected text"),
        (shaped("a", None, {}), "pattern: got nothing, expected a list of rows"),
        (shaped("a", "###", {}), "pattern: got '###', expected a list of rows"),
        (shaped("a", ["#", 1], {}), "pattern: got ['#', 1], expected a list of rows"),
        (shaped("a", ["#"], None), "key: got nothing, expected an object"),
        (shaped("a", ["#"], {"X": "b"}), "pattern: got '#', which key does not explain"),
        (shaped("a", ["#"], {"#": {}}), "key: got nothing, expected an item or a tag"),
        (shaped("a", [" "], {}), "key: got 0 ingredients, expected 1 to 9"),
        (shapeless("a", []), "ingredients: got nothing, expected an item or a tag"),
        (shapeless("a"), "ingredients: got 0 ingredients, expected 1 to 9"),
        (shapeless("a", *["b"] * 10), "ingredients: got 10 ingredients, expected 1 to 9"),
        (shapeless("a", 7), "ingredients: got 7, expected an item or a tag"),
        (shapeless(None, "b"), "result: got nothing, expected an item"),
        (shapeless({"count": 2}, "b"), "result: got nothing, expected an item"),
        (shapeless({"id": "a", "count": 0}, "b"), "result.count: got 0, expected 1 to 99"),
        (shapeless({"id": "a", "count": True}, "b"), "result.count: got True, expected 1 to 99"),
        (shapeless({"id": "a", "count": "4"}, "b"), "result.count: got '4', expected 1 to 99"),
        (
            shapeless("a\nGoal", "b"),
            "result: got 'a\\nGoal', expected a name such as minecraft:oak_log",
        ),
        (shapeless("___", "b"), "result: got '___', expected a name such as minecraft:oak_log"),
        (
            shapeless("a", "b_using_c"),
            "ingredients: got 'b_using_c', expected a name such as minecraft:oak_log",
        ),
        (shapeless("a", "b", group=["x"]), "group: got ['x'], expected text"),
    ],
)
def test_a_file_that_is_no_recipe_file_is_named_with_what_fits(folder, content, sentence):
    path = folder(good=shapeless("a", "b"), odd=content)
    with pytest.raises(OptionError) as caught:
        TextCraft({"recipes": path})
    assert str(caught.value) == f"options.recipes: odd.json: {sentence}"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.write_bytes(b"\xff\xfe\x00\xd8")])
def test_neither_a_pipe_nor_bytes_that_are_no_text_are_json(tmp_path, make):
    make(tmp_path / "odd.json")
    with pytest.raises(OptionError, match=r"odd\.json: expected a file of JSON"):
        files.read_folder(str(tmp_path))


@pytest.mark.parametrize("path", ["/no/such/folder", "a\x00b", __file__])
def test_a_path_that_is_no_folder_is_refused(path):
    with pytest.raises(OptionError, match=r"options\.recipes: got .*, expected full, small or"):
        TextCraft({"recipes": path})


def test_a_folder_without_files_or_with_too_many_is_refused(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"holds 0 \*.json files, expected 1 to 5000"):
        TextCraft({"recipes": str(tmp_path)})
    monkeypatch.setattr(files, "MOST_FILES", 2)
    for name in "abc":
        (tmp_path / f"{name}.json").write_text("{}")
    with pytest.raises(OptionError, match=r"holds 3 \*.json files, expected 1 to 2"):
        TextCraft({"recipes": str(tmp_path)})


def test_a_folder_with_too_few_goals_is_refused(folder):
    path = folder(one=shapeless("a", "b"), two=shapeless("c", "d"))
    with pytest.raises(OptionError, match="expected some that leave a goal for validation"):
        TextCraft({"recipes": path})


def test_goals_beyond_the_turns_are_none(folder):
    tower = {f"n{i}": shapeless(f"n{i}", *[f"n{i + 1}"] * 9) for i in range(4)}
    world = TextCraft({"recipes": folder(**woodwork(), **tower)})
    goals = {t.payload[0] for s in ("train", "validation", "test") for t in world.tasks(s)}
    assert {"n3", "n2"} <= goals
    assert not {"n1", "n0"} & goals


def test_goals_that_no_prompt_could_show_are_none(folder):
    many = {f"m{i}": shapeless(f"m{i}", f"b{i}", group="many") for i in range(100)}
    world = TextCraft({"recipes": folder(any=shapeless("any", "#many", "glue"), **many)})
    goals = {t.payload[0] for s in ("train", "validation", "test") for t in world.tasks(s)}
    assert goals == set(many)
