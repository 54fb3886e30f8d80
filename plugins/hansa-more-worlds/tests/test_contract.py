"""The worlds of others keep the contract of worlds, each played in its own package."""

import shutil

import pytest

from hansa_worlds import contract, make
from hansa_worlds.contract import CHECKS
from tests.support import foreign

NEEDS_JAVA = pytest.mark.skipif(
    shutil.which("java") is None, reason="needs the program java, which runs ScienceWorld"
)
VARIANTS = [
    pytest.param("reasoning-gym", {}, id="reasoning-gym"),
    pytest.param(
        "textworld", {"level": 3, "max_turns": 5}, id="textworld", marks=foreign.NEEDS_TEXTWORLD
    ),
]
MORE = [
    pytest.param(
        "reasoning-gym",
        {"families": ["mini_sudoku", "countdown", "n_queens"], "prompt": "none"},
        id="reasoning-gym-of-several-lines",
    ),
    pytest.param(
        "textworld",
        {"game": "coin-collector", "level": 2, "goal": "none", "max_turns": 4, "prompt": "brief"},
        id="textworld-without-a-goal",
        marks=foreign.NEEDS_TEXTWORLD,
    ),
]
SIMULATED = {"tasks": ["lifespan-longest-lived", "find-plant"], "max_turns": 16}


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A game takes a second to make; a fault of a world shows in its first episodes."""
    foreign.use()
    monkeypatch.setattr(contract, "EPISODES", 2)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_world_keeps_the_contract(check, name, options):
    check(lambda: make(name, options))


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize(("name", "options"), MORE)
def test_world_keeps_the_contract_with_other_options(check, name, options):
    check(lambda: make(name, options))


@NEEDS_JAVA
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_scienceworld_keeps_the_contract(check, monkeypatch):
    monkeypatch.setattr(contract, "EPISODES", 1)
    check(lambda: make("scienceworld", SIMULATED))
