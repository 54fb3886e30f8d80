"""The world keeps what Hansa expects of every world."""

import pytest
from ticket_triage import TEAM_OF

from hansa_worlds import make
from hansa_worlds.contract import CHECKS


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_tickets_keep_the_contract(check):
    check(lambda: make("tickets"))


def test_a_ticket_in_the_wrong_hands_is_sent_back():
    world = make("tickets")
    task = next(task for task in world.tasks("test") if TEAM_OF[task.payload[0]] != "billing")
    world.start(task)
    seen = world.step("Thought: Anybody will do.\n\nAction: route billing low")
    assert (seen.text, seen.done, world.success) == ("Sent back.", True, False)
