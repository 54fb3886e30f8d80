"""README.md explains every option, and what it says of families, manifests and tests is true."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from hansa.api.spec import Environment
from hansa_more_worlds.reasoning_gym import REFUSED
from hansa_worlds import OptionError, make

HERE = Path(__file__).parent
PAGE = (HERE.parent / "README.md").read_text()
WORLDS = ("reasoning-gym", "scienceworld", "textworld")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("world", WORLDS)
def test_every_option_of_a_world_is_explained(world: str) -> None:
    with pytest.raises(OptionError) as refused:
        make(world, {"no-such-option": 1})
    known = set(str(refused.value).partition("expected ")[2].split(", "))
    general = {"max_turns", "prompt"}  # docs/worlds.md has those of all worlds
    assert {name for name in known - general if f"`{name}`" not in section(world)} == set()


def test_the_number_of_families_of_reasoning_gym_is_that_of_the_package() -> None:
    assert f"{106 - len(REFUSED)} of the package's 106 families" in section("reasoning-gym")


def test_the_manifest_names_every_world() -> None:
    lines = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0])
    made = [Environment.model_validate(entry) for entry in lines["spec"]["environments"]]
    assert sorted(each.world for each in made) == sorted(WORLDS)


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`tests/(\w+\.py)::(\w+)`", PAGE)
    assert len(named) == 3
    for file, name in named:
        tree = ast.parse((HERE / file).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
