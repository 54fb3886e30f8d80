"""The rules of each world, one sentence each."""

import random

import pytest

from hansa_worlds import DEMO_OPTIONS, make
from tests.support.playing import play


@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_random_play_leaves_room_to_evolve_and_the_expert_shows_where_to(name):
    world, draw = make(name, DEMO_OPTIONS[name]), random.Random(1)
    tasks = world.tasks("validation")[:100]
    lucky = wise = 0
    for task in tasks:
        play(world, task, lambda w: draw.choice(w.legal()))
        lucky += world.success
        play(world, task, lambda w: w.expert().action)
        wise += world.success
    assert lucky / len(tasks) < 0.35
    assert wise / len(tasks) >= 0.95
