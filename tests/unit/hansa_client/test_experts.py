"""The contract knows which builtin worlds have an expert, without importing one."""

from hansa.experts import BUILTIN_WITH_EXPERT, BUILTIN_WITHOUT_EXPERT, has_expert
from hansa_client.worlds import World
from hansa_client.worlds.registry import BUILTIN, kind


def test_the_table_of_experts_is_that_of_the_registry() -> None:
    silent = {name for name in BUILTIN if kind(name).expert is World.expert}
    assert silent == BUILTIN_WITHOUT_EXPERT
    assert set(BUILTIN) - silent == BUILTIN_WITH_EXPERT
    assert {name for name in BUILTIN if not has_expert(kind(name))} == silent
