"""The agentgym world keeps the contract of worlds over HTTP, in every dialect of AgentGym."""

import pytest

from hansa_worlds import contract, make
from hansa_worlds.agentgym.dialects import DIALECTS
from hansa_worlds.contract import CHECKS
from tests.support.agentgym_games import GAMES
from tests.support.agentgym_server import serving

ALIKE = {"academia", "movie", "sheet", "todo"}
"""Dialects that differ from weather's by the number of their tasks only."""


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch):
    """Each turn is a request; a fault of a dialect shows in the first episodes."""
    monkeypatch.setattr(contract, "EPISODES", 3)


def test_every_dialect_has_a_server_to_try_it_on():
    assert sorted(DIALECTS) == sorted(GAMES)


@pytest.mark.slow
@pytest.mark.parametrize("environment", sorted(DIALECTS.keys() - ALIKE))
def test_every_dialect_keeps_the_contract(environment):
    with serving(environment) as server:
        options = {"url": server.url, "environment": environment, "start_timeout_seconds": 5}
        for check in CHECKS.values():
            check(lambda: make("agentgym", {**options, "max_turns": 6}))
        assert server.connections == 1
