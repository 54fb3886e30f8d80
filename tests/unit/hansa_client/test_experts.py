"""The contract knows which builtin worlds have an expert, without importing one."""

from hansa.api.worlds import BUILTIN
from hansa.manifests.demonstrations import has_expert
from hansa_worlds import World
from hansa_worlds.registry import load_world


def test_the_table_says_which_worlds_have_an_expert() -> None:
    experts = {name: world.has_expert for name, world in BUILTIN.items()}
    assert {name: load_world(name).expert is not World.expert for name in BUILTIN} == experts
    assert {name: has_expert(load_world(name)) for name in BUILTIN} == experts
