"""The runner looks after its store: a dead one comes back, and so does one that answers nobody."""

import signal

import pytest

from hansa.api.jobs import ObservedJob
from hansa.core.exits import Exit
from hansa.local import loop
from hansa.local.display import PlainDisplay
from hansa.local.loop import _revive_store
from hansa.local.objectstore import LocalStore
from hansa.local.rundir import RunDir
from tests.support import processes
from tests.support.builders import NOW, make_federation


def job(name: str, exit_code: int) -> ObservedJob:
    return ObservedJob(
        name=name,
        role="client",
        round=1,
        state="failed",
        created_at=NOW,
        exit_code=exit_code,
    )


@pytest.mark.slow
def test_results_are_read_though_the_store_died_with_the_last_round(tmp_path, monkeypatch):
    killed, read = [], []

    def ends(federation, spec, folder, executor, store, display):
        killed.append(store.pid)
        processes.kill(store.pid)
        processes.until(lambda: not store.alive(), "the store to die")
        return federation

    monkeypatch.setattr(loop, "_loop", ends)
    folder, federation = RunDir(tmp_path / "run"), make_federation()
    loop.run(
        federation,
        folder,
        loop.RunOptions(embedded=True),
        PlainDisplay(),
        lambda ended, folder, store: read.append(list(store.list(""))),
    )
    assert killed and read == [[]]


@pytest.mark.slow
def test_a_store_that_sent_a_job_away_is_restarted_once_for_that_job(tmp_path):
    complaints: set[str] = set()
    with LocalStore(tmp_path, ["maze"], prefix="fed") as store:
        store.store().put_if_absent("fed/global/x", b"kept")
        first, address = store.pid, store.s3.endpoint

        _revive_store(store, [job("crashed", Exit.CRASHED)], complaints)
        assert store.pid == first

        assert first is not None
        processes.kill(first, signal.SIGSTOP)  # it lives, and answers nobody
        sent_away = [job("sent-away", Exit.STORAGE_UNREACHABLE)]
        _revive_store(store, sent_away, complaints)
        second = store.pid
        assert second not in (None, first)
        assert store.s3.endpoint == address
        assert store.store().get("fed/global/x") == b"kept"

        _revive_store(store, sent_away, complaints)
        assert store.pid == second
