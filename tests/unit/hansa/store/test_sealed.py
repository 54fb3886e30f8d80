"""The exchange as a silo writes it, where updates are sealed."""

from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.status import RoundSettings
from hansa.core.errors import NotFound, PermanentError, Precondition
from hansa.crypto import sealing
from hansa.store.base import ObjectStore, put_once
from hansa.store.sealed import open_sealing_store
from tests.support.memory_store import MemoryStore
from tests.support.sealed_stores import KEY, Killed, assignment

FOLDER = bucket_keys.update_folder("fed", "maze", 3)
OWN = "mine/experience/maze/updates/00003/"
ADAPTER, MOMENTS, MANIFEST = (
    FOLDER + n for n in (bucket_keys.ADAPTER, bucket_keys.MOMENTS, bucket_keys.MANIFEST)
)


class Silo:
    """A silo's two stores, and the exchange as its client sees it."""

    def __init__(self) -> None:
        self.shared, self.private = MemoryStore(), MemoryStore()
        self.exchange: ObjectStore = open_sealing_store(self.shared, self.private, assignment())

    def opened(self, key: str) -> bytes:
        return sealing.unseal([KEY], key, self.shared.objects[key])

    def send(self, adapter: bytes = b"adapter", moments: bytes = b"moments") -> bytes:
        stored = put_once(self.exchange, ADAPTER, adapter)
        put_once(self.exchange, MOMENTS, moments)
        put_once(self.exchange, FOLDER + bucket_keys.CONFIG, b"{}")
        put_once(self.exchange, MANIFEST, b"{...}")
        return stored


def test_files_with_values_leave_sealed_and_documents_as_they_are() -> None:
    silo = Silo()
    silo.send()
    assert (silo.opened(ADAPTER), silo.opened(MOMENTS)) == (b"adapter", b"moments")
    assert silo.shared.objects[FOLDER + bucket_keys.CONFIG] == b"{}"
    assert silo.shared.objects[MANIFEST] == b"{...}"
    assert silo.shared.written[-1] == MANIFEST
    assert silo.private.objects == {
        OWN + bucket_keys.ADAPTER: b"adapter",
        OWN + bucket_keys.MOMENTS: b"moments",
    }


def test_nothing_leaves_before_the_manifest_does() -> None:
    silo = Silo()
    put_once(silo.exchange, ADAPTER, b"adapter")
    assert silo.shared.objects == {}


def test_the_silo_reads_what_it_sent(tmp_path: Path) -> None:
    silo = Silo()
    silo.send()
    assert silo.exchange.get(ADAPTER) == b"adapter"
    assert silo.exchange.get_range(ADAPTER, 1, 3) == b"dap"
    assert silo.exchange.size(ADAPTER) == 7
    silo.exchange.download(ADAPTER, tmp_path / "file", 7)
    assert (tmp_path / "file").read_bytes() == b"adapter"


@pytest.mark.parametrize("number", range(6))
def test_a_kill_before_any_write_costs_nothing_and_the_first_bytes_count(number: int) -> None:
    silo, left = Silo(), [number]

    def kill(key: str) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1

    silo.shared.before_put = silo.private.before_put = kill
    with pytest.raises(Killed):
        silo.send(b"first", b"first too")
    silo.shared.before_put = silo.private.before_put = lambda key: None
    expected = b"second" if number == 0 else b"first"
    assert silo.send(b"second") == expected
    assert silo.opened(ADAPTER) == expected
    assert silo.shared.objects[MANIFEST] == b"{...}"


def test_a_twin_goes_on_with_the_first_ones_bytes() -> None:
    silo = Silo()
    silo.send(b"first")
    assert silo.send(b"twin") == b"first"
    assert silo.opened(ADAPTER) == b"first"


def test_an_update_of_a_round_before_sealing_is_read_as_it_lies_there(tmp_path: Path) -> None:
    silo = Silo()
    silo.shared.objects[ADAPTER] = b"open"
    assert silo.exchange.get(ADAPTER) == b"open"
    silo.exchange.download(ADAPTER, tmp_path / "file", 4)
    assert (tmp_path / "file").read_bytes() == b"open"


def test_a_sealed_update_whose_content_is_gone_is_missing() -> None:
    silo = Silo()
    silo.send()
    silo.private.objects.clear()
    with pytest.raises(NotFound, match="no longer in the private store"):
        silo.exchange.get(ADAPTER)


def test_other_objects_are_written_once_as_ever() -> None:
    silo = Silo()
    key = bucket_keys.evaluation("fed", "maze", 3)
    silo.exchange.put_if_absent(key, b"1")
    with pytest.raises(Precondition):
        silo.exchange.put_if_absent(key, b"2")
    assert silo.exchange.get(key) == silo.shared.objects[key] == b"1"
    assert list(silo.exchange.list("fed/")) == [key]


def test_a_silo_without_a_private_store_sends_nothing() -> None:
    with pytest.raises(PermanentError, match=r"sealTo: got a key, and this silo has no experience"):
        open_sealing_store(MemoryStore(), MemoryStore(), assignment(experience_storage=None))


def test_without_a_key_the_exchange_is_the_store_itself() -> None:
    shared = MemoryStore()
    assert open_sealing_store(shared, MemoryStore(), assignment(settings=RoundSettings())) is shared
