"""Every world, with its default and its demo options, keeps the contract of worlds."""

import pytest

from hansa_client.worlds import DEMO_OPTIONS, Observation, make, names
from hansa_client.worlds.contract import CHECKS, BrokenContract
from hansa_client.worlds.maze import Maze
from hansa_client.worlds.registry import BUILTIN

VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    **{f"{name}-default": (name, {}) for name in BUILTIN},
    **{f"{name}-demo": (name, options) for name, options in DEMO_OPTIONS.items()},
    "wordle-openings-by-secret": ("wordle", {"opening": True}),
    "webshop-another-catalogue": ("webshop", {"catalogue": 3, "results": 2}),
    "babyai-large": ("babyai", {"size": 10, "objects": 8}),
    "textcraft-without-distractors": ("textcraft", {"distractors": 0}),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize(("name", "options"), VARIANTS.values(), ids=VARIANTS.keys())
def test_world_keeps_the_contract(check, name, options):
    check(lambda: make(name, options))


@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_demo_options_leave_enough_tasks_to_measure_with(name):
    world = make(name, DEMO_OPTIONS[name])
    assert len(world.tasks("test")) >= 250
    assert len(world.tasks("validation")) >= 100
    assert len(world.tasks("train")) >= 500


def test_demo_covers_every_builtin_world():
    assert sorted(DEMO_OPTIONS) == sorted(BUILTIN)
    assert set(BUILTIN) <= set(names())


class Forgetful(Maze):
    """A maze that keeps something from one episode to the next."""

    def _act(self, action: str) -> Observation:
        self._played = getattr(self, "_played", 0) + 1
        seen = super()._act(action)
        return Observation(f"{seen.text} {self._played}", seen.reward, seen.done)


class Fragile(Maze):
    def _act(self, action: str) -> Observation:
        return super()._act(action.encode().decode())


class Hopeless(Maze):
    def expert(self) -> str:
        return self.legal()[0]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Forgetful, "start forgets the episode before"),
        (Hopeless, "expert solves its tasks"),
    ],
)
def test_contract_finds_a_broken_world(broken, check):
    with pytest.raises(BrokenContract):
        CHECKS[check](lambda: broken({"map": "generated"}))


def test_contract_finds_a_world_that_raises():
    with pytest.raises(UnicodeEncodeError):
        CHECKS["hostile text is only a wasted turn"](lambda: Fragile({}))
