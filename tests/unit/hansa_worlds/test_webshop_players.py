"""Who shops in the webshop world, and how well."""

import random

import pytest

from hansa_worlds.base import parse_action
from hansa_worlds.webshop.world import WebShop

SMALL = {"products": 60, "attributes": 2, "choices": 1, "results": 4, "text": "short"}
SHOPS = {
    "default": {},
    "small": {**SMALL, "max_turns": 7},
    "another": {"catalogue": 7, "products": 300},
}


def share(world, tasks, choose):
    """Share of the tasks that a player solves."""
    won = 0
    for task in tasks:
        seen = world.start(task)
        while not seen.done:
            seen = world.step(choose(world))
        won += world.success
    return won / len(tasks)


@pytest.mark.parametrize("options", SHOPS.values(), ids=SHOPS.keys())
def test_the_expert_buys_what_was_asked_for_every_time(options):
    world = WebShop(options)
    assert share(world, world.tasks("test"), lambda world: world.expert().text) == 1.0


@pytest.mark.parametrize("options", SHOPS.values(), ids=SHOPS.keys())
def test_random_play_hardly_ever_succeeds_and_greedy_play_sometimes(options):
    world, draw = WebShop(options), random.Random(1)
    tasks = world.tasks("test")[:300]
    assert share(world, tasks, lambda world: draw.choice(world.legal())) < 0.05
    assert share(world, tasks[:100], lambda world: draw.choice(world.actions())) < 0.05
    assert 0.4 < share(world, tasks, lambda world: world.greedy(draw)) < 0.95


@pytest.mark.parametrize("options", [{}, SMALL], ids=["full", "short"])
def test_the_expert_goes_on_from_wherever_another_left_off(options):
    world, draw = WebShop({**options, "max_turns": 40}), random.Random(2)
    rescued = 0
    for task in world.tasks("validation")[:60]:
        seen = world.start(task)
        for _ in range(draw.randrange(20)):
            moves = [move for move in world.legal() if move != "click[buy now]"]
            seen = world.step(draw.choice([*moves, "search[tea]", "nothing"]))
        while not seen.done:
            seen = world.step(world.expert().text)
        rescued += world.success
    assert rescued == 60


def test_with_no_turn_to_spare_the_expert_opens_the_right_product_at_once():
    world = WebShop({**SMALL, "max_turns": 4})
    assert share(world, world.tasks("test"), lambda world: world.expert().text) == 1.0


def test_with_turns_to_spare_the_expert_opens_what_looks_right():
    """It must not teach to guess from the results page which colors a product comes in."""
    world = WebShop({**SMALL, "max_turns": 20})
    left = 0
    for task in world.tasks("test"):
        seen = world.start(task)
        while not seen.done:
            move = world.expert()
            if world.found and not world.product and "may fit" in move.thought:
                right = [key for key in world.list_page() if looks_right(world, key)]
                fresh = [key for key in right if key not in world.visited]
                assert move.action == f"click[{fresh[0]}]"
            left += "does not come in" in move.thought
            seen = world.step(move.text)
        assert world.success
    assert left > 20


def looks_right(world, key):
    """Whether the line of the results page meets the wish."""
    product, goal = world.shop.products[key], world.goal
    met = set(goal.attributes) <= set(product.attributes) and product.kind == goal.target.kind
    return met and product.dollars <= goal.most_cents // 100


def test_the_expert_reads_on_where_the_title_leaves_something_open():
    world = WebShop({})
    read = 0
    for task in world.tasks("test")[:50]:
        seen = world.start(task)
        while not seen.done:
            move = world.expert()
            if move.action == "click[features]":
                read += 1
                missing = move.thought.removeprefix("The title does not say ").split(",")[0]
                assert missing in world.goal.attributes
                assert missing not in world.product.title
            seen = world.step(move.text)
    assert read > 25


def test_every_legal_action_changes_the_page_or_buys():
    world, draw = WebShop({"prompt": "none"}), random.Random(3)
    for task in world.tasks("train")[:40]:
        seen = world.start(task)
        while not seen.done:
            for action in world.legal():
                assert parse_action(action) == action
                kept, page = dict(vars(world)), seen.text
                after = world.step(action)
                is_choice = world.product is not None and not world.detail
                assert after.done or after.text != page or is_choice
                vars(world).clear()
                vars(world).update(kept)
            seen = world.step(draw.choice(world.legal()))
