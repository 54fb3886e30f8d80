"""The watches: each kind of object is noted in the index, and its owner gets a pass."""

import asyncio
from typing import Any

import kopf
import pytest

from hansa.api import constants
from hansa_operator import handlers
from hansa_operator.index import Index, Key
from hansa_operator.workqueue import WorkQueue

OWN = Key("team", "demo")


def named(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": name, "uid": name, "labels": labels}}


CHILD = named("child", **{constants.LABEL_FEDERATION: OWN.name})


@pytest.mark.parametrize(
    "watch, shown, key, noted",
    [
        pytest.param("federations", named("demo"), OWN, "owner", id="a federation"),
        pytest.param(
            "federationmembers",
            named("demo"),
            Key("team", "demo", constants.MEMBER_KIND),
            "owner",
            id="a member",
        ),
        pytest.param("jobs", CHILD, OWN, "jobs", id="a Job by its label"),
        pytest.param("pods", CHILD, OWN, "pods", id="a Pod by its label"),
    ],
)
def test_what_a_watch_shows_is_noted_until_it_is_deleted(watch, shown, key, noted) -> None:
    registry, index = kopf.OperatorRegistry(), Index()

    async def show() -> Key:
        queue = WorkQueue()
        handlers.register(registry, index, queue)
        note = {each.id: each.fn for each in registry._watching.get_all_handlers()}[watch]
        await note(event={"type": "ADDED", "object": shown})
        assert getattr(index.get(key), noted)
        await note(event={"type": "DELETED", "object": shown})
        return await queue.get()

    assert asyncio.run(show()) == key
    assert not getattr(index.get(key), noted)
