"""A silo of a federation that merges by moments sends its own, once, whatever ends it."""

import pytest

from hansa.adapter import lora, tensor_file
from hansa.adapter import second_moments as contract
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import UPDATE, Assign, Killed, manifest, play

pytestmark = pytest.mark.slow  # whole rounds of a client


@pytest.fixture
def regmean(assign: Assign) -> Assignment:
    return assign(aggregation={"strategy": "regmean", "options": {"momentsRank": 8}})


def test_moments_are_in_the_folder_and_its_manifest(regmean: Assignment) -> None:
    store = MemoryStore()
    report = play(store, regmean)
    data = store.objects[UPDATE + bucket_keys.MOMENTS]
    entry = manifest(store).files[bucket_keys.MOMENTS]
    assert entry.size == len(data)
    assert report.bytes == sum(each.size for each in manifest(store).files.values())
    own = lora.shapes(lora.decode(store.objects[UPDATE + bucket_keys.ADAPTER]))
    layout = tensor_file.parse(data[: tensor_file.head_size(data)], len(data))
    contract.check_layout(layout, contract.input_widths(own), 8)


@pytest.mark.parametrize(
    "name", [bucket_keys.ADAPTER, bucket_keys.MOMENTS, bucket_keys.CONFIG, bucket_keys.MANIFEST]
)
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
    for each in (bucket_keys.ADAPTER, bucket_keys.MOMENTS, bucket_keys.CONFIG):
        assert store.objects[UPDATE + each] == whole.objects[UPDATE + each]


def test_other_strategies_send_none(assign: Assign) -> None:
    store = MemoryStore()
    play(store, assign())
    assert UPDATE + bucket_keys.MOMENTS not in store.objects
    assert bucket_keys.MOMENTS not in manifest(store).files
