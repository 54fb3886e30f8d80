"""A world whose package or program is missing says so in one sentence, where it is first named."""

from types import SimpleNamespace

import pytest

from hansa.core.errors import InputError
from hansa.manifests.load import build, check_worlds
from hansa_more_worlds import packages
from hansa_worlds import WorldError, make
from hansa_worlds.listing import describe_safely

WORLDS = ("reasoning-gym", "scienceworld", "textworld")
SENTENCE = (
    "world: got '{0}', but the package is not installed here,"
    " expected pip install 'hansa-more-worlds[{0}]'"
)


@pytest.fixture(autouse=True)
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_without_its_package_names_the_extra(world: str) -> None:
    with pytest.raises(WorldError) as refused:
        make(world)
    assert str(refused.value) == SENTENCE.format(world)


@pytest.mark.parametrize("world", WORLDS)
def test_hansa_validate_names_the_environment_and_the_extra(world: str) -> None:
    federation = build(
        {
            "apiVersion": "hansa.dev/v1alpha1",
            "kind": "Federation",
            "metadata": {"name": "one"},
            "spec": {
                "environments": [{"name": "a", "world": "maze"}, {"name": "b", "world": world}]
            },
        }
    )
    with pytest.raises(InputError) as refused:
        check_worlds(federation)
    assert refused.value.message == f"spec.environments[1].{SENTENCE.format(world)}"


@pytest.mark.parametrize("world", WORLDS)
def test_the_list_of_worlds_says_what_is_missing(world: str) -> None:
    assert describe_safely(world, {})["trouble"] == SENTENCE.format(world)


@pytest.mark.parametrize("world", WORLDS)
def test_wrong_options_are_said_before_what_is_missing(world: str) -> None:
    with pytest.raises(
        WorldError, match=r"^options\.max_turns: got 0, expected 1 to 1000; options.x"
    ):
        make(world, {"max_turns": 0, "x": 1})


def test_a_machine_without_java_is_told_which_package_has_it(monkeypatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setattr(packages.shutil, "which", lambda program: None)
    with pytest.raises(WorldError) as refused:
        make("scienceworld")
    assert str(refused.value) == (
        "world: got 'scienceworld', which needs the program java, and there is none here, expected"
        " one (on Debian: apt-get install default-jre-headless)"
    )


def test_a_package_that_cannot_be_imported_says_why(monkeypatch) -> None:
    with pytest.raises(WorldError, match=r"but No module named 'no_such_module', expected pip"):
        packages.load("textworld", "no_such_module")
