"""The contract knows which builtin worlds have an expert, without importing one."""

from hansa.manifests.demonstrations import EXPERTS, has_expert
from hansa_worlds import World
from hansa_worlds.registry import BUILTIN, kind


def test_the_table_of_experts_is_that_of_the_registry() -> None:
    assert {name: kind(name).expert is not World.expert for name in BUILTIN} == EXPERTS
    assert {name: has_expert(kind(name)) for name in BUILTIN} == EXPERTS
