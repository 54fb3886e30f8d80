"""The example's programs play: the test answers them as a model would."""

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hansa_worlds import Observation, World, make
from tests.support.sources import ROOT

EXAMPLE = ROOT / "examples/07-own-agent"


def started(program: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[World, Observation]:
    command = [sys.executable, str(program)]
    monkeypatch.setenv("HANSA_WORLD_COMMANDS", " ".join(command))
    world = make("proxy", {"command": command})
    return world, world.start(world.tasks("test")[3])


def call(name: str, **arguments: str) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_the_cart_drives_to_its_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    world, seen = started(EXAMPLE / "cart.py", monkeypatch)
    with closing(world):
        while not seen.done:
            there, here = seen.text.split("The goal is at position ")[1].split(
                ". Your current position is at position "
            )
            (up, left), (row, column) = (
                [int(part) for part in text.split(". There")[0].split(", ")]
                for text in (there, here)
            )
            move = (
                "up" if up < row else "down" if up > row else "left" if left < column else "right"
            )
            seen = world.step(f"Thought: There it is.\n\nAction: move {move}")
        assert world.success


def test_the_desk_routes_a_ticket_by_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    world, seen = started(EXAMPLE / "desk.py", monkeypatch)
    with closing(world):
        topic = seen.text.rstrip(".").split()[-1]
        assert seen.prompt and len(seen.prompt.tools) == 2
        seen = world.step("I do not know.")
        assert seen.text == "Call a tool." and seen.prompt and seen.prompt.known == 3
        seen = world.step(call("find_team", topic=topic))
        team = seen.text.splitlines()[1]
        assert seen.prompt and seen.prompt.known == 5, "a call is repeated as it was written"
        assert world.step(call("route", team=team)).done and world.success
