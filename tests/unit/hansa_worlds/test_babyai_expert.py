"""BabyAI's expert: within 20 turns where it is said to be, and with a reason for every move."""

import dataclasses
import random
import re

import pytest

from hansa_worlds.babyai.levels import LEVELS, SOLVABLE
from hansa_worlds.babyai.world import BabyAI
from tests.support.playing import play
from tests.unit.hansa_worlds.babyai_room import draw, enter, target


@pytest.mark.parametrize("level", SOLVABLE)
def test_the_expert_reaches_the_goal_of_a_solvable_level(level):
    world = BabyAI({"levels": [level]})
    tasks = world.tasks("validation")[:8]
    solved = 0
    for task in tasks:
        play(world, task, lambda w: w.expert().text)
        solved += world.success
    assert solved >= len(tasks) - 1


@pytest.mark.slow
def test_the_expert_reaches_98_of_100_goals_of_the_solvable_levels():
    world = BabyAI({"levels": list(SOLVABLE)})
    tasks = world.tasks("test")[: 12 * len(SOLVABLE)]
    solved = 0
    for task in tasks:
        play(world, task, lambda w: w.expert().text)
        solved += world.success
    assert solved / len(tasks) >= 0.98


def test_given_turns_enough_the_expert_reaches_the_goal_of_every_level():
    world = BabyAI({"max_turns": 100})
    for task in world.tasks("validation")[: len(LEVELS)]:
        play(world, task, lambda w: w.expert().text)
        assert world.success, task.id


def test_a_blocked_lock_is_freed_before_the_key_is_fetched(monkeypatch):
    start = draw("# # # # # # #\n# gk . . . # .\n# . . > rb gL bx\n# . . . . # .\n# # # # # # #")
    goal = ("pick up", target(start, "blue box"), False)
    world = enter(monkeypatch, dataclasses.replace(start, goal=goal))
    said = []
    for _ in range(20):
        move = world.expert()
        said.append(move)
        if world.step(move.text).done:
            break
    assert world.success
    assert said[0] == ("The red ball is in the way, so I pick it up.", "pickup red ball 1")
    assert ("I need the green key for the locked door, so I pick it up.") in dict(said)


def test_the_expert_goes_on_from_wherever_a_player_has_come():
    world, chance = BabyAI({"max_turns": 60, "levels": [17, 22, 27]}), random.Random(3)
    for task in world.tasks("validation")[:9]:
        seen = world.start(task)
        for _ in range(6):
            if not seen.done:
                seen = world.step(chance.choice([m for m in world.legal() if m != "toggle"]))
        while not seen.done:
            seen = world.step(world.expert().text)
        assert world.success, task.id


def test_the_expert_says_a_legal_move_and_a_sentence_even_when_the_goal_is_lost():
    world, chance = BabyAI({}), random.Random(5)
    for task in world.tasks("validation")[: len(LEVELS)]:
        seen = world.start(task)
        while not seen.done:
            move = world.expert()
            assert move.action in world.legal()
            assert re.fullmatch(r"(I|The) [a-z ,A-Z]+\.", move.thought), move
            assert "the ," not in move.thought
            wild = [offer for offer in world.legal() if offer.startswith(("toggle", "pickup"))]
            seen = world.step(chance.choice([*wild, move.action]))


def test_greedy_play_is_better_than_chance_and_worse_than_the_expert():
    world, chance = BabyAI({"levels": [1, 2, 5, 9]}), random.Random(1)
    players = {
        "legal": lambda w: chance.choice(w.legal()),
        "greedy": lambda w: w.greedy(chance),
        "expert": lambda w: w.expert().action,
    }
    turns = dict.fromkeys(players, 0)
    for task in world.tasks("validation")[:80]:
        for name, player in players.items():
            play(world, task, player)
            turns[name] += world._turns
    assert turns["expert"] < turns["greedy"] < turns["legal"]
