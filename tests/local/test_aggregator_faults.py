"""An aggregator whose store fails while updates come: only whole, verified ones are merged."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Timer

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import AggregatorReport
from hansa.api.spec import S3
from hansa.core.errors import Unreachable
from hansa.core.logs import Log
from hansa.store.base import Watch
from hansa.store.s3 import S3Store
from hansa_server.gate import MAX_MANIFEST
from hansa_server.round import aggregate
from tests.support.faults import FaultyProxy, Kind
from tests.unit.hansa_server.rounds import PREFIX, Round, full_round

Through = Callable[..., S3Store]
UPDATE = f"maze/00001/{bucket_keys.ADAPTER}"


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go; nothing else writes there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def sent(store: S3Store, fresh_prefix: str) -> Round:
    """A round whose updates lie in the real store."""
    round_ = full_round()
    send(round_, store, fresh_prefix)
    return round_


def send(round_: Round, store: S3Store, prefix: str) -> None:
    for key, data in round_.store.objects.items():
        store.put_if_absent(key.replace(PREFIX, prefix, 1), data)


def run(
    round_: Round, reader: S3Store, prefix: str, fail: Callable[[], None], patch: pytest.MonkeyPatch
) -> AggregatorReport:
    """Aggregate; `fail` is called before the first copy of that update, after heads are read."""
    download, armed = reader.download, []

    def watched(key: str, path: Path, size: int, watch: Watch | None = None) -> str:
        if key.endswith(UPDATE) and not armed:
            armed.append(key)
            fail()
        return download(key, path, size, watch)

    patch.setattr(reader, "download", watched)
    assignment = round_.assignment(storage=S3(bucket=reader.s3.bucket, prefix=prefix))
    return aggregate(assignment, reader, Log("server"), lambda: 0.0)


@pytest.mark.parametrize("kind", ["cut-response", "corrupt-response", "reset", "503"])
def test_an_update_that_breaks_on_the_way_is_fetched_again(
    kind: Kind, proxy, through: Through, sent: Round, fresh_prefix: str, scratch: Path, monkeypatch
) -> None:
    report = run(
        sent,
        through(patience_seconds=20),
        fresh_prefix,
        lambda: proxy.fail(kind, times=1, contains=UPDATE),
        monkeypatch,
    )
    assert len(proxy.failed) == 1
    assert (report.refused, report.adapter) == ([], full_round().aggregate().adapter)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("kind", ["cut-response", "corrupt-response", "reset", "503"])
def test_a_manifest_that_breaks_on_the_way_is_read_again(
    kind: Kind, proxy, through: Through, sent: Round, fresh_prefix: str, monkeypatch
) -> None:
    reader = through(patience_seconds=20)
    proxy.fail(kind, times=1, contains=f"maze/00001/{bucket_keys.MANIFEST}")
    report = run(sent, reader, fresh_prefix, lambda: None, monkeypatch)
    assert len(proxy.failed) == 1
    assert (report.refused, report.adapter) == ([], full_round().aggregate().adapter)


@pytest.mark.parametrize(
    "data, reason",
    [
        pytest.param(None, "manifest-missing", id="none"),
        pytest.param(b"", "manifest-malformed", id="no bytes"),
        pytest.param(b" " * (MAX_MANIFEST + 1), "manifest-malformed", id="too many bytes"),
    ],
)
def test_a_member_without_a_fit_manifest_in_a_real_store_is_refused(
    data: bytes | None, reason: str, store: S3Store, fresh_prefix: str, monkeypatch
) -> None:
    round_ = full_round()
    round_.send_manifest("maze", data or b"")
    if data is None:
        del round_.store.objects[round_.key("maze", bucket_keys.MANIFEST)]
    send(round_, store, fresh_prefix)
    report = run(round_, store, fresh_prefix, lambda: None, monkeypatch)
    assert (report.members, report.refused) == ([0, 2], [(1, reason)])


def test_a_store_that_dies_while_an_update_comes_and_returns_changes_no_byte(
    proxy, through: Through, sent: Round, fresh_prefix: str, scratch: Path, monkeypatch
) -> None:
    def die() -> None:
        proxy.down()
        Timer(0.5, proxy.up).start()

    report = run(
        sent,
        through(patience_seconds=20),
        fresh_prefix,
        lambda: proxy.fail("cut-response", times=1, contains=UPDATE, then=die),
        monkeypatch,
    )
    assert len(proxy.failed) == 1
    assert (report.refused, report.adapter) == ([], full_round().aggregate().adapter)
    assert not list(scratch.iterdir())


def test_an_update_that_always_comes_with_other_bytes_is_refused_and_not_merged(
    proxy, through: Through, sent: Round, fresh_prefix: str, scratch: Path, monkeypatch
) -> None:
    report = run(
        sent,
        through(patience_seconds=20),
        fresh_prefix,
        lambda: proxy.fail("corrupt-response", contains=UPDATE),
        monkeypatch,
    )
    others = full_round()
    del others.members["maze"]
    assert report.refused == [(1, "sha256")]
    assert report.adapter == others.aggregate().adapter
    assert not list(scratch.iterdir())


def test_an_update_that_never_comes_whole_ends_the_aggregation_and_leaves_no_file(
    proxy: FaultyProxy, through: Through, sent: Round, fresh_prefix: str, scratch: Path, monkeypatch
) -> None:
    with pytest.raises(Unreachable):
        run(
            sent,
            through(patience_seconds=0.3),
            fresh_prefix,
            lambda: proxy.fail("cut-response", contains=UPDATE),
            monkeypatch,
        )
    assert not list(scratch.iterdir())
