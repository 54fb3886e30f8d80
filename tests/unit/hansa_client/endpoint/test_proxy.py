"""A silo whose own agent plays, and an endpoint: they do not go together."""

import pytest

from hansa.api.assignment import Assignment
from hansa.api.status import RoundSettings
from hansa.core.errors import PermanentError
from hansa_client.agent import Agent
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.endpoint.playing import HOW

PROXY = {"world": "proxy", "options": {"url": "http://127.0.0.1:9"}}
MIXED = {"world": "mixed", "options": {"worlds": [{"name": "own", **PROXY}]}}


@pytest.mark.parametrize("world", [PROXY, MIXED], ids=["alone", "as a part"])
def test_an_agent_of_ones_own_is_not_played_by_an_endpoint(world: dict[str, object]) -> None:
    assignment = Assignment.model_validate(
        {
            "role": "client",
            "federation": "fed",
            "seed": 7,
            "model": {},
            "adapter": {},
            "round": 1,
            "start": {},
            "settings": RoundSettings(),
            "storage": {"bucket": "shared"},
            "environments": ["own"],
            "environment": "own",
            "endpoint": {"url": "http://127.0.0.1:9", "server": "other"},
            **world,
        }
    )
    with pytest.raises(PermanentError, match=r"endpoint: got one with world proxy, expected none"):
        Agent(assignment, MemoryStore()).play([], HOW, "explore")
