"""The rules of each world, one sentence each."""

import random

import pytest

from hansa_client.worlds import DEMO_OPTIONS, Task, make
from hansa_client.worlds.babyai import BabyAI
from hansa_client.worlds.maze import MOVES, Maze, distances, generate
from hansa_client.worlds.textcraft import RECIPES, TextCraft, depth, goals
from hansa_client.worlds.webshop import WebShop, catalogue
from hansa_client.worlds.wordle import WORDS, Wordle, feedback


def play(world, task, choose):
    seen = world.start(task)
    while not seen.done:
        seen = world.step(choose(world))
    return seen


class TestMaze:
    def test_double_t_is_the_map_of_the_paper(self):
        tasks = Maze({}).tasks("test")
        assert len(tasks) == 25
        world = Maze({})
        world.start(tasks[0])
        far = distances(world._free, (8, 6))
        assert max(far.values()) == 12

    @pytest.mark.parametrize(
        ("player", "low", "high"),
        [("legal", 0.08, 0.14), ("random", 0.045, 0.09), ("greedy", 0.66, 0.77)],
    )
    def test_simple_players_score_as_measured_on_the_original(self, player, low, high):
        """AgentGym's own maze: random 6.8 %, among legal moves 11 %, greedy Manhattan 71.6 %."""
        world, draw, won = Maze({}), random.Random(1), 0

        def choose(world):
            if player == "random":
                return draw.choice(list(MOVES))
            moves = world.legal()
            if player == "legal":
                return draw.choice(moves)
            near = {
                m: abs(world._at[0] + MOVES[m][0] - 8) + abs(world._at[1] + MOVES[m][1] - 6)
                for m in moves
            }
            return draw.choice([m for m in moves if near[m] == min(near.values())])

        tasks = list(world.tasks("test")) * 60
        for task in tasks:
            play(world, task, choose)
            won += world.success
        assert low < won / len(tasks) < high

    def test_text_is_that_of_lmrl_gym(self):
        world = Maze({})
        seen = world.start(Task("x", "test", ("double-t", "1", "1")))
        assert seen.text.endswith(
            "The goal is at position 8, 6. Your current position is at position 1, 1. "
            "There are walls to your left, above you, below you."
        )
        assert world.step("move right").text.endswith("There are walls above you, below you.")
        assert world.step("move right").text.endswith("There is a wall above you.")

    def test_a_wall_costs_the_turn_and_nothing_else(self):
        world = Maze({"max_turns": 2})
        world.start(Task("x", "test", ("double-t", "7", "6")))
        assert not world.step("move left").done
        assert world.step("move down").reward == 1.0
        assert world.success

    @pytest.mark.parametrize("size", [4, 6, 12])
    def test_generated_mazes_can_be_solved(self, size):
        for seed in range(100):
            free, goal, start = generate(str(seed), size, 15)
            assert 0 < distances(free, goal)[start] <= 15


class TestWordle:
    @pytest.mark.parametrize(
        ("guess", "secret", "marks"),
        [
            ("crane", "crane", "g g g g g"),
            ("crane", "ghost", "b b b b b"),
            ("stone", "notes", "y y y y y"),
            ("eerie", "crane", "b b y b g"),
            ("apple", "piano", "y y b b b"),
        ],
    )
    def test_feedback(self, guess, secret, marks):
        assert feedback(guess, secret) == marks

    def test_there_are_forty_words_of_five_letters(self):
        assert len(set(WORDS)) == 40
        assert {len(word) for word in WORDS} == {5}

    def test_random_guesses_win_about_one_game_in_seven(self):
        """AgentGym: random 13.6 %; random among consistent words 100 % in 2.53 guesses."""
        world, draw = Wordle({}), random.Random(1)
        tasks = [task for split in ("train", "validation", "test") for task in world.tasks(split)]
        won = sum(play(world, task, lambda w: draw.choice(w.legal())).reward for task in tasks * 40)
        assert 0.11 < won / 1600 < 0.17

    def test_an_unknown_word_costs_a_try(self):
        world = Wordle({})
        world.start(Task("x", "test", ("crane", "")))
        for _ in range(5):
            assert world.step("xxxxx").text == "That is not in the list."
        assert world.step("xxxxx").done
        assert not world.success

    def test_letters_may_be_spaced_as_in_lmrl_gym(self):
        world = Wordle({})
        world.start(Task("x", "test", ("crane", "")))
        assert world.step("c r a n e").reward == 1.0

    def test_an_opening_costs_a_try_and_shows_its_marks(self):
        world = Wordle({"opening": True})
        seen = world.start(Task("x", "test", ("crane", "ocean")))
        assert seen.text.endswith("The first guess was ocean: b y y y y")
        for _ in range(4):
            assert not world.step("zebra").done
        assert world.step("zebra").done

    def test_secrets_of_the_splits_are_apart_unless_pairs_are_asked_for(self):
        def secrets(options, split):
            return {task.payload[0] for task in Wordle(options).tasks(split)}

        for opening in (True, False):
            options = {"opening": opening}
            assert not secrets(options, "train") & secrets(options, "test")
        pairs = {"opening": True, "split": "pairs"}
        assert secrets(pairs, "train") == secrets(pairs, "test") == set(WORDS)


class TestTextCraft:
    def start(self, goal, options=None):
        world = TextCraft(options or {})
        text = world.start(Task("x", "test", (goal, "seed"))).text
        return world, text

    def test_goals_are_many_of_every_depth_and_apart(self):
        every = [goal for split in ("train", "validation", "test") for goal in goals(split)]
        assert len(every) == len(set(every)) >= 40
        for split in ("train", "validation", "test"):
            assert {depth(goal) for goal in goals(split)} == {1, 2, 3}

    def test_the_prompt_shows_the_recipes_of_the_goal(self):
        _, text = self.start("torch")
        assert text.startswith("Crafting commands:\n")
        assert "\ncraft 4 torch using 1 coal, 1 stick\n" in text
        assert "\ncraft 4 oak planks using 1 oak log\n" in text
        assert text.endswith("\nGoal: craft torch.")
        assert text.count("\n") == 4 + 4

    def test_what_has_a_recipe_cannot_be_got(self):
        world, _ = self.start("torch")
        assert world.step("get 1 stick").text == "Could not find stick"
        assert world.step("get 1 unicorn").text == "Could not find that."
        assert world.step("get 1 coal").text == "Got 1 coal"
        assert world.step("inventory").text == "Inventory: 1 coal"

    def test_crafting_takes_exactly_the_recipe(self):
        world, _ = self.start("oak planks")
        assert world.step("craft 4 oak planks using 1 oak log").text.endswith("enough items.")
        world.step("get 2 oak log")
        assert world.step("craft 4 oak planks using 2 oak log").text.endswith("recipe for that.")
        assert world.step("craft 1 oak planks using 1 oak log").text.endswith("recipe for that.")
        seen = world.step("craft 4 oak planks using 1 oak log")
        assert (seen.text, seen.reward, seen.done) == ("Crafted 4 oak planks", 1.0, True)

    def test_ingredients_may_come_in_any_order(self):
        world, _ = self.start("compass")
        world.step("get 1 redstone")
        world.step("get 4 iron ingot")
        assert world.step("craft 1 compass using 1 redstone, 4 iron ingot").reward == 1.0

    def test_every_item_can_be_crafted_by_the_expert(self):
        for item in RECIPES:
            world, _ = self.start(item)
            play(world, Task("x", "test", (item, "seed")), lambda w: w.expert())
            assert world.success, item


class TestBabyAI:
    def test_success_is_a_reward_above_zero_never_one(self):
        world = BabyAI({})
        rewards = [
            play(world, task, lambda w: w.expert()).reward for task in world.tasks("test")[:30]
        ]
        assert all(0 <= reward < 1 for reward in rewards)
        assert 1 - 0.9 * 1 / 20 in rewards

    def test_things_behind_are_not_seen(self):
        world = BabyAI({})
        for task in world.tasks("test")[:20]:
            world.start(task)
            seen = set()
            for _ in range(4):
                shown = {thing for _, _, thing in world._seen()}
                assert all(f"go to {thing} 1" in world.legal() for thing in shown)
                seen |= shown
                world.step("turn right")
            row, column = world._at
            corners = {
                thing
                for thing, (there, across) in world._where.items()
                if min(abs(there - row), abs(across - column)) > 3
            }
            assert seen == set(world._where) - corners

    def test_sides_are_the_agents_own(self):
        world = BabyAI({})
        world.start(world.tasks("test")[0])
        world._things, world._where = {(2, 4): "red ball"}, {"red ball": (2, 4)}
        world._at = (4, 3)
        sides = []
        for world._face in range(4):
            sides.append(world._seen())
        assert sides == [[(2, 1, "red ball")], [(1, -2, "red ball")], [], []]

    def test_both_spellings_pick_up(self):
        for spelling in ("pickup", "pick up"):
            world = BabyAI({})
            world.start(world.tasks("test")[0])
            world._mission = "pick up"
            while not world._seen():
                world.step("turn left")
            thing = world._seen()[0][2]
            world._target = thing
            assert world.step(f"{spelling} {thing} 1").reward > 0

    def test_a_hand_holds_one_thing(self):
        world = BabyAI({})
        world.start(world.tasks("test")[0])
        world._mission, world._target = "go to", "nothing"
        while len(world._seen()) < 2:
            world.step("turn left")
        first, second = (thing for _, _, thing in world._seen()[:2])
        world.step(f"pickup {first} 1")
        assert world._held == first
        assert "pickup" not in " ".join(world.legal())
        assert world.step(f"pickup {second} 1").text.startswith("Nothing happens.")

    def test_available_actions_are_the_legal_ones(self):
        world = BabyAI({})
        text = world.start(world.tasks("test")[0]).text
        assert text.endswith(f"Available actions: [{', '.join(world.legal())}]")


class TestWebShop:
    @pytest.fixture
    def product(self):
        return next(iter(catalogue("0").values()))

    def start(self, product, budget):
        world = WebShop({})
        wish = " ".join(product.attributes)
        payload = ("0", product.id, product.kind, wish, product.colors[0], str(budget))
        world.start(Task("x", "test", payload))
        world.step(f"search[{product.title}]")
        assert "color:" in world.step(f"click[{product.id}]").text
        return world

    @pytest.mark.parametrize(
        ("color", "budget", "reward"),
        [
            pytest.param(0, 10, 1.0, id="all met"),
            pytest.param(1, 10, 0.75, id="wrong color"),
            pytest.param(0, 0, 0.75, id="not lower than the budget"),
            pytest.param(None, 0, 0.5, id="no color, too dear"),
        ],
    )
    def test_reward_is_the_share_of_what_was_asked_for(self, product, color, budget, reward):
        world = self.start(product, product.price + budget)
        if color is not None:
            world.step(f"click[{product.colors[color]}]")
        seen = world.step("click[Buy Now]")
        assert (seen.reward, seen.done) == (reward, True)
        assert world.success is (reward == 1.0)

    def test_another_kind_of_thing_earns_nothing(self, product):
        world = self.start(product, 100)
        world._kind = "boat"
        assert world.step("click[buy now]").reward == 0.0

    def test_next_page_shows_other_products(self, product):
        world = WebShop({})
        world.start(world.tasks("test")[0])
        first = world.step(f"search[{product.kind}]").text
        second = world.step("click[next >]").text
        assert first != second
        assert world.step("click[back to search]").text == "[search]"

    def test_a_click_on_what_is_not_there_is_refused(self, product):
        world = WebShop({})
        world.start(world.tasks("test")[0])
        assert world.step("click[buy now]").text.startswith("That is no action here.")
        assert world.step("click[b1]").text.startswith("That is no action here.")

    def test_no_split_wishes_for_anothers_product(self):
        world = WebShop({})
        one, other = (
            {task.payload[1] for task in world.tasks(split)} for split in ("train", "test")
        )
        assert not one & other


@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_random_play_leaves_room_to_evolve_and_the_expert_shows_where_to(name):
    world, draw = make(name, DEMO_OPTIONS[name]), random.Random(1)
    tasks = world.tasks("validation")[:100]
    lucky = wise = 0
    for task in tasks:
        play(world, task, lambda w: draw.choice(w.legal()))
        lucky += world.success
        play(world, task, lambda w: w.expert())
        wise += world.success
    assert lucky / len(tasks) < 0.35
    assert wise / len(tasks) >= 0.95
