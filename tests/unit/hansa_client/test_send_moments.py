"""A silo of a federation that merges by moments sends its own, once, whatever ends it."""

from collections.abc import Callable

import pytest

from hansa import adapter, keys, tensorfile
from hansa import moments as contract
from hansa.assignment import Assignment
from tests.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import UPDATE, Killed, manifest, play

Assign = Callable[..., Assignment]


@pytest.fixture
def regmean(assign: Assign) -> Assignment:
    return assign(aggregation={"strategy": "regmean", "momentsRank": 8})


def test_moments_are_in_the_folder_and_its_manifest(regmean: Assignment) -> None:
    store = MemoryStore()
    report = play(store, regmean)
    data = store.objects[UPDATE + keys.MOMENTS]
    entry = manifest(store).files[keys.MOMENTS]
    assert entry.size == len(data)
    assert report.bytes == sum(each.size for each in manifest(store).files.values())
    own = adapter.shapes(store.objects[UPDATE + keys.ADAPTER])
    layout = tensorfile.parse(data[: tensorfile.head_size(data)], len(data))
    contract.check_layout(layout, contract.widths(own), 8)


@pytest.mark.parametrize("name", [keys.ADAPTER, keys.MOMENTS, keys.CONFIG, keys.MANIFEST])
def test_a_silo_killed_before_a_write_ends_with_the_same_bytes(
    regmean: Assignment, name: str
) -> None:
    whole, store = MemoryStore(), MemoryStore()
    play(whole, regmean)

    def kill(key: str) -> None:
        if key == UPDATE + name:
            raise Killed

    store.before_put = kill
    with pytest.raises(Killed):
        play(store, regmean)
    store.before_put = lambda key: None
    play(store, regmean)
    for each in (keys.ADAPTER, keys.MOMENTS, keys.CONFIG):
        assert store.objects[UPDATE + each] == whole.objects[UPDATE + each]


def test_other_strategies_send_none(assign: Assign) -> None:
    store = MemoryStore()
    play(store, assign())
    assert UPDATE + keys.MOMENTS not in store.objects
    assert keys.MOMENTS not in manifest(store).files
