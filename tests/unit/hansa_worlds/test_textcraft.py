"""TextCraft's rules, its own recipes, and the players of its goals."""

import hashlib
import random
from collections import Counter

import pytest

from hansa_worlds import Task
from hansa_worlds.base import SPLITS
from hansa_worlds.textcraft.book import Book, Recipe, load_own_book, read_recipes
from hansa_worlds.textcraft.planner import make_plan
from hansa_worlds.textcraft.world import TextCraft
from tests.support.playing import play

DEMO = {
    "recipes": "small",
    "distractors": 2,
    "variants": 14,
    "max_turns": 9,
    "prompt": "brief",
}


def start(goal, **options):
    world = TextCraft({"prompt": "none", **options})
    return world, world.start(Task("x", "test", (goal, "seed"))).text


def wins(world, task, choose):
    play(world, task, choose)
    return world.success


def goals(world, split):
    return {task.payload[0] for task in world.tasks(split)}


class TestRecipes:
    def test_goals_have_the_depths_of_textcraft(self):
        """Its own: 125, 291, 117 and 11 of 544; ours within four points of each share."""
        book = load_own_book(False)
        depths = Counter(book.depth[item] for item in book.recipes)
        assert sorted(depths) == [1, 2, 3, 4]
        assert len(book.recipes) >= 500
        for depth, original in {1: 125, 2: 291, 3: 117, 4: 11}.items():
            assert abs(depths[depth] / len(book.recipes) - original / 544) < 0.04

    def test_words_are_few_enough_for_a_small_model(self):
        book = load_own_book(False)
        names = [*book.recipes, *book.kinds, *book.base]
        assert len({word for name in names for word in name.split()}) <= 250

    def test_nothing_of_the_list_is_left_out(self):
        assert not load_own_book(False).skipped
        assert not load_own_book(True).skipped

    def test_a_line_is_repeated_for_each_word_and_the_small_set_has_fewer(self):
        text = "wood = oak | elm\n* 4 {wood} planks (planks): 1 {wood} log\n1 oar: 2 planks, 1 tar"
        whole = [(r.command, r.kind) for r in read_recipes(text, small=False)]
        assert whole == [
            ("craft 4 oak planks using 1 oak log", "planks"),
            ("craft 4 elm planks using 1 elm log", "planks"),
            ("craft 1 oar using 2 planks, 1 tar", ""),
        ]
        assert [(r.command, r.kind) for r in read_recipes(text, small=True)] == whole[:1]

    def test_goals_of_the_small_set_are_goals_of_the_same_split_in_the_whole(self):
        small, whole = TextCraft(DEMO), TextCraft({})
        for split in SPLITS:
            assert goals(small, split) <= goals(whole, split)

    def test_held_out_goals_of_the_small_set_need_no_word_that_training_never_writes(self):
        world = TextCraft(DEMO)

        def words(split):
            found = set()
            for task in world.tasks(split):
                seen = world.start(task)
                while not seen.done:
                    action = world.expert().action
                    found.update(action.replace(",", "").split())
                    seen = world.step(action)
            return found

        assert words("validation") | words("test") <= words("train")


class TestCircles:
    def test_the_later_of_two_recipes_that_make_each_other_is_left_out(self):
        block, ingot = Recipe("block", 1, ((9, "ingot"),)), Recipe("ingot", 9, ((1, "block"),))
        book = Book([block, ingot])
        assert list(book.recipes) == ["block"]
        assert book.base == {"ingot"}
        assert book.skipped == {"circle": 1}
        assert list(Book([ingot, block]).recipes) == ["ingot"]

    def test_a_circle_through_a_kind_is_one(self):
        book = Book(
            [
                Recipe("red wool", 1, ((1, "wool"), (1, "red dye")), "wool"),
                Recipe("blue wool", 1, ((1, "sheep"),), "wool"),
                Recipe("sheep", 1, ((1, "wool"),)),
            ]
        )
        assert sorted(book.recipes) == ["blue wool"]
        assert book.skipped == {"circle": 2}

    def test_a_thing_does_not_join_a_kind_that_an_earlier_way_of_it_needs(self):
        ways = [
            Recipe("wax", 1, ((1, "lamp"),)),
            Recipe("tin lamp", 1, ((1, "tin"),), "lamp"),
            Recipe("wax", 1, ((1, "bee"),), "lamp"),
        ]
        book = Book(ways)
        assert book.kinds == {"lamp": ("tin lamp",)}
        assert book.skipped == {"circle": 1}

    def test_what_is_made_of_itself_is_left_out(self):
        assert not Book([Recipe("map", 1, ((1, "map"), (1, "paper")))]).recipes

    def test_a_recipe_given_twice_is_shown_once(self):
        assert Book([Recipe("a", 1, ((1, "b"),))] * 2).skipped == {"twice": 1}

    def test_a_chain_longer_than_the_stack_is_measured(self):
        book = Book([Recipe(f"n{i}", 1, ((1, f"n{i + 1}"),)) for i in range(3_000)])
        assert book.depth["n0"] == 3_000


class TestText:
    def test_the_prompt_shows_the_recipes_of_the_goal_among_distractors(self):
        _, text = start("oak sign", distractors=4)
        lines = text.split("\n")
        assert lines[0] == "Crafting commands:"
        assert "craft 2 oak sign using 3 oak planks, 1 stick" in lines
        assert "craft 4 stick using 2 planks" in lines
        assert sum(line.endswith(" log") and " planks " in line for line in lines) >= 8
        assert lines[-2:] == ["", "Goal: craft oak sign."]
        assert len(lines) == 1 + (2 + 8) + 4 + 2

    def test_every_way_to_make_a_thing_is_shown(self):
        _, text = start("rope", distractors=0)
        assert "craft 1 rope using 3 vine\n" in text
        assert "craft 1 rope using 2 hemp\n" in text

    def test_rules_come_first_and_may_be_brief_or_left_out(self):
        task = Task("x", "test", ("rope", "seed"))
        full = TextCraft({"max_turns": 7}).start(task).text
        assert "within 7 turns" in full
        assert "\nCrafting commands:\n" in full
        assert TextCraft({"prompt": "brief"}).start(task).text.startswith("Craft the goal")

    def test_seeds_change_the_distractors_and_never_the_recipes(self):
        world = TextCraft({"prompt": "none"})
        one, other = (
            set(world.start(Task("x", "test", ("oak door", seed))).text.split("\n"))
            for seed in "ab"
        )
        assert one != other
        assert "craft 2 oak door using 6 oak planks, 2 hinge" in one & other


class TestActions:
    def test_what_has_a_recipe_cannot_be_got(self):
        world, _ = start("torch")
        assert world.step("get 1 stick").text == "Could not find stick"
        assert world.step("get 1 planks").text == "Could not find planks"
        assert world.step("get 1 unicorn").text == "Could not find that."
        assert world.step("get 0 coal").text == "Could not execute that."
        assert world.step("get 1 coal").text == "Got 1 coal"

    def test_the_inventory_is_told_sorted(self):
        world, _ = start("torch")
        assert world.step("inventory").text == "Inventory: You are not carrying anything."
        world.step("get 2 oak log")
        world.step("get 1 coal")
        assert world.step("inventory").text == "Inventory: [coal] (1) [oak log] (2)"

    def test_crafting_takes_exactly_the_ingredients(self):
        world, _ = start("oak planks")
        lacking = world.step("craft 4 oak planks using 1 oak log")
        assert lacking.text == "Could not find enough items to craft oak planks"
        world.step("get 2 oak log")
        for wrong in ("2 oak log", "1 oak log, 1 coal", "1 birch log"):
            seen = world.step(f"craft 4 oak planks using {wrong}")
            assert seen.text == "Could not find such a recipe for oak planks"
        seen = world.step("craft 4 oak planks using 1 oak log")
        assert (seen.text, seen.reward, seen.done) == ("Crafted 4 oak planks", 1.0, True)

    @pytest.mark.parametrize("amount", ["1 ", "", "999 "])
    def test_the_amount_made_is_the_recipes_whatever_was_written(self, amount):
        """As in TextCraft, which compares the ingredients only."""
        world, _ = start("oak sign")
        world.step("get 1 oak log")
        seen = world.step(f"craft {amount}oak planks using 1 oak log")
        assert seen.text == "Crafted 4 oak planks"

    def test_ingredients_may_come_in_any_order(self):
        world, _ = start("stew")
        for action in ("get 1 carrot", "get 1 potato", "get 2 meat"):
            world.step(action)
        assert world.step("craft 1 stew using 1 carrot, 1 potato, 2 meat").reward == 1.0

    def test_a_kind_is_met_by_any_one_of_its_things_and_not_by_a_mixture(self):
        world, _ = start("ladder")
        world.step("get 1 oak log")
        world.step("craft 4 oak planks using 1 oak log")
        assert "Could not" in world.step("craft 4 stick using 2 planks").text
        assert "Could not" in world.step("craft 4 stick using 1 oak planks, 1 birch planks").text
        assert world.step("craft 4 stick using 2 oak planks").text == "Crafted 4 stick"
        assert world.step("inventory").text == "Inventory: [oak planks] (2) [stick] (4)"

    def test_recipes_that_the_prompt_does_not_show_work_too(self):
        world, text = start("oak planks", distractors=0)
        assert "mortar" not in text
        for action in ("get 1 sand", "get 1 lime"):
            world.step(action)
        assert world.step("craft 1 mortar using 1 sand, 1 lime").text == "Crafted 1 mortar"

    def test_one_thing_for_two_ingredients_is_counted_for_both(self):
        world, _ = start("oak planks")
        book = Book(
            [Recipe("raft", 1, ((2, "planks"), (1, "oak planks"))), *load_own_book(False).listed]
        )
        world._shelf = type(world._shelf)(book, {})
        world._bag = {"oak planks": 2}
        action = "craft 1 raft using 2 oak planks, 1 oak planks"
        assert world.step(action).text == "Could not find enough items to craft raft"
        world._bag = {"oak planks": 3}
        assert world.step(action).text == "Crafted 1 raft"
        assert world._bag == {"raft": 1}


class TestSplits:
    def test_each_depth_is_shared_out_and_a_quarter_is_for_the_test(self):
        world, book = TextCraft({}), load_own_book(False)
        sizes = {split: len(world.tasks(split)) for split in SPLITS}
        assert sizes["test"] >= sum(sizes.values()) / 4
        assert sizes["validation"] >= sum(sizes.values()) / 8
        for split in SPLITS:
            assert {book.depth[goal] for goal in goals(world, split)} == {1, 2, 3, 4}

    def test_no_goal_is_in_two_splits_whatever_the_options(self):
        whole = {split: goals(TextCraft({}), split) for split in SPLITS}
        assert sum(map(len, whole.values())) == len(set().union(*whole.values()))
        for options in ({"depths": [2, 3]}, {"max_turns": 5}, {"variants": 3}, DEMO):
            for split in SPLITS:
                assert goals(TextCraft(options), split) <= whole[split]

    def test_the_first_tasks_of_a_split_are_of_mixed_depths(self):
        book = load_own_book(False)
        for split in SPLITS:
            first = TextCraft({}).tasks(split)[:20]
            assert len({book.depth[task.payload[0]] for task in first}) >= 3

    def test_fresh_tasks_are_of_train_goals(self):
        world = TextCraft({})
        assert {world.fresh(seed).payload[0] for seed in range(300)} <= goals(world, "train")

    def test_tasks_and_texts_are_the_same_on_every_machine(self):
        """Change a recipe or a seed, and every published score is of another world."""
        digest = hashlib.sha256()
        for options in ({}, DEMO):
            world = TextCraft(options)
            for split in SPLITS:
                for task in world.tasks(split):
                    digest.update(f"{task.id} {world.start(task).text}\n".encode())
        assert digest.hexdigest()[:16] == "5419026e2824dc68"


class TestPlayers:
    @pytest.mark.parametrize("options", [{}, DEMO], ids=["default", "demo"])
    def test_the_expert_solves_every_task_in_the_turns_it_plans(self, options):
        world = TextCraft(options)
        for split in SPLITS:
            for task in world.tasks(split):
                names = load_own_book(options is DEMO).list_names_down(task.payload[0])
                assert wins(world, task, lambda w: w.expert().text), task.id
                assert world._turns == make_plan(load_own_book(options is DEMO), names, {}).turns

    def test_random_legal_play_stays_under_15_percent(self):
        world, draw = TextCraft({}), random.Random(1)
        tasks = list(world.tasks("test")) * 4
        won = sum(wins(world, task, lambda w: draw.choice(w.legal())) for task in tasks)
        assert won / len(tasks) < 0.15

    def test_greedy_play_lies_between_chance_and_the_expert(self):
        world, draw = TextCraft({}), random.Random(1)
        tasks = world.tasks("test")
        won = sum(wins(world, task, lambda w: w.greedy(draw)) for task in tasks)
        assert 0.3 < won / len(tasks) < 0.8

    def test_every_legal_action_does_something(self):
        world, draw = TextCraft({"variants": 1}), random.Random(1)
        for task in world.tasks("test")[:40]:
            seen = world.start(task)
            while not seen.done:
                seen = world.step(draw.choice(world.legal()))
                assert seen.text.startswith(("Got", "Crafted", "Inventory"))

    def test_a_random_player_may_name_anything_that_the_prompt_names(self):
        world, text = start("oak sign", distractors=2)
        assert set(world.legal()) <= set(world.actions())
        for action in world.actions():
            for part in action.split(" using ")[-1].split(", "):
                assert part.partition(" ")[2].removeprefix("1 ") in text or action == "inventory"

    def test_the_expert_says_why(self):
        world, _ = start("ladder")
        said = []
        while not world._done:
            said.append(world.expert())
            world.step(said[-1].action)
        assert [move.action for move in said] == [
            "get 1 acacia log",
            "craft 4 acacia planks using 1 acacia log",
            "craft 4 stick using 2 acacia planks",
            "craft 4 stick using 2 acacia planks",
            "craft 1 ladder using 5 stick",
        ]
        assert said[1].thought.endswith("and it serves as planks for stick.")
        assert said[-1].thought == "I have all that ladder needs, so I craft the goal."

    def test_the_expert_uses_what_is_there(self):
        world, _ = start("ladder")
        for action in ("get 1 oak log", "craft 4 oak planks using 1 oak log"):
            world.step(action)
        assert world.expert().action == "craft 4 stick using 2 oak planks"

    def test_players_may_be_asked_after_the_end(self):
        world, _ = start("rope")
        while not world._done:
            world.step(world.expert().action)
        assert world.expert().action == "get 3 vine"
        assert world.legal()
        assert world.greedy(random.Random(1))
