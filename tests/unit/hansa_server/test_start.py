"""The start adapter comes beside the updates: none waits for it before it must, none hides it."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import StartAdapter
from hansa.core.errors import Corrupt
from hansa.store.base import Watch
from hansa_server import folder
from tests.support.merging import options_of
from tests.unit.hansa_server.rounds import ENVIRONMENTS, PREFIX, RANK, Round, full_round, tensors

START = bucket_keys.global_folder(PREFIX, 1) + bucket_keys.ADAPTER


def later(strategy: str = "mean") -> Round:
    """A round that starts from the adapter that another one has stored."""
    settings = {"strategy": strategy, "options": options_of(strategy, max_rank=2 * RANK)}
    before = full_round(aggregation=settings)
    start = StartAdapter(round=1, sha256=before.aggregate().adapter)
    return full_round(number=2, start=start, store=before.store, aggregation=settings)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However a round ends: no file of it, and no thread."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = threading.active_count()
    yield
    assert not list(tmp_path.iterdir())
    assert threading.active_count() == before


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("strategy", ["mean", "flora"])
def test_updates_come_and_leave_the_folder_while_the_start_is_on_its_way(strategy, monkeypatch):
    undisturbed, round_ = later(strategy), later(strategy)
    download, copied = round_.store.download, list[Path]()

    def slow(key: str, path: Path, size: int, watch: Watch | None = None) -> str:
        if key == START:
            until(lambda: bool(copied) and not any(file.exists() for file in copied))
        got = download(key, path, size, watch)
        if "updates/" in key:
            copied.append(path)
        return got

    monkeypatch.setattr(round_.store, "download", slow)
    assert round_.aggregate() == undisturbed.aggregate()
    assert len(copied) == len(ENVIRONMENTS)


@pytest.mark.parametrize("strategy", ["mean", "flora"])
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda head: head[:5], id="cut"),
        pytest.param(lambda head: head.replace(b"lora_A", b"lora_X", 1), id="another name"),
        pytest.param(lambda head: head.replace(b"[0,", b"[8,", 1), id="another place"),
    ],
)
def test_a_head_that_breaks_on_the_way_is_learned_from_the_whole_file(spoil, strategy, monkeypatch):
    undisturbed, round_ = later(strategy), later(strategy)
    whole = round_.store.get_range

    def broken(key: str, start: int, length: int) -> bytes:
        return spoil(whole(key, start, length)) if key == START else whole(key, start, length)

    monkeypatch.setattr(round_.store, "get_range", broken)
    assert round_.aggregate() == undisturbed.aggregate()


def test_a_start_that_cannot_be_made_ends_the_round_with_its_own_error(monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(folder, "make_start", fail)
    round_ = full_round()
    with pytest.raises(OSError, match="no space left"):
        round_.aggregate()
    assert not round_.store.written


@pytest.mark.parametrize(
    "data, sentence",
    [
        pytest.param(None, "expected the adapter the round starts from", id="none"),
        pytest.param(b"", "got sha256", id="no bytes"),
        pytest.param(lora.encode(tensors(5)), "got sha256", id="another adapter"),
    ],
)
@pytest.mark.parametrize("refused", [False, True], ids=["sound updates", "no updates"])
def test_a_start_that_is_not_the_one_named_ends_the_round_whatever_the_updates_are(
    data, sentence, refused
):
    round_ = later()
    del round_.store.objects[START]
    if data is not None:
        round_.store.objects[START] = data
    for name in ENVIRONMENTS if refused else ():
        del round_.store.objects[round_.key(name, bucket_keys.ADAPTER)]
    with pytest.raises(Corrupt, match=sentence):
        round_.aggregate()
    assert round_.global_key(bucket_keys.MANIFEST) not in round_.store.objects


def test_a_start_that_is_no_adapter_ends_the_round_as_such():
    round_ = Round(
        number=2, start=StartAdapter(round=1, sha256=bucket_documents.sha256(b"no adapter"))
    )
    round_.store.objects[START] = b"no adapter"
    round_.send("maze", tensors(1))
    with pytest.raises(lora.AdapterError):
        round_.aggregate()
