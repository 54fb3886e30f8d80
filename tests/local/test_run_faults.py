"""Whole runs with a store that is down, overloaded, slow or denying: they wait, or say why not."""

import re
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import GlobalManifest, UpdateManifest, sha256
from hansa.core.errors import NotFound
from hansa.local.objectstore import LocalStore
from hansa.store.s3 import ENV_PATIENCE, S3Store
from tests.support import small
from tests.support.faults import FaultyProxy
from tests.support.processes import until

pytestmark = pytest.mark.slow


def expect_whole(store: S3Store, prefix: str) -> list[str]:
    """Every committed folder has the files that its manifest says; the folders."""
    folders = []
    for key in store.list(prefix):
        if not key.endswith(bucket_keys.MANIFEST):
            continue
        folder = key.removesuffix(bucket_keys.MANIFEST)
        kind = GlobalManifest if "/global/" in key else UpdateManifest
        for name, entry in kind.model_validate_json(store.get(key)).files.items():
            assert sha256(store.get(folder + name)) == entry.sha256, folder + name
        folders.append(folder)
    return folders


def is_absent(store: S3Store, key: str) -> bool:
    try:
        store.get(key)
    except NotFound:
        return True
    return False


def test_jobs_wait_for_a_store_that_is_down_overloaded_or_slow(
    undisturbed: Path, weed: LocalStore, store: S3Store, proxy: FaultyProxy, tmp_path: Path
) -> None:
    """With no retries at all: an unreachable store has an exit of its own, which never counts."""
    prefix = "faults/waits"
    manifest = small.write_manifest(
        tmp_path,
        storage=small.storage(weed, proxy.endpoint, prefix),
        participation={"retries": 0},
    )
    credentials = small.write_credentials(tmp_path, weed)
    proxy.fail("503", methods=("PUT",), contains="experience/maze/00001")
    proxy.fail("slow", seconds=12, methods=("PUT",), contains="global/00001/adapter_model")
    with small.Run(
        manifest, tmp_path / "run", "--credentials", credentials, **{ENV_PATIENCE: "4"}
    ) as run:
        until(lambda: "RoundOpened" in run.events, "the round to open: the store was up")
        proxy.down()
        both = [f"JobRetried {name}: " for name in small.ENVIRONMENTS]
        until(lambda: all(text in run.events for text in both), "both to find it down")
        assert run.events.count("gave no good answer") >= 2
        proxy.up()

        # As a word: the number of a port may hold these digits too.
        until(lambda: re.search(r"\b503\b", run.events), "the maze to find it overloaded")
        assert is_absent(store, bucket_keys.experience_shard(prefix, "maze", 1))
        assert not any("updates/maze" in folder for folder in expect_whole(store, prefix))
        proxy.heal()
        proxy.fail("slow", seconds=12, methods=("PUT",), contains="global/00001/adapter_model")

        until(lambda: "JobRetried aggregator: " in run.events, "the aggregator to find it slow")
        assert not any("global/" in folder for folder in expect_whole(store, prefix))
        proxy.heal()
        run.finish()
    assert {line.split()[0] for line in proxy.failed} == {"503", "slow"}
    assert len(expect_whole(store, prefix)) == 6
    assert small.adapter(tmp_path / "run") == small.adapter(undisturbed)


def test_a_denying_store_ends_the_run_by_name_and_a_later_run_goes_on(
    weed: LocalStore, store: S3Store, proxy: FaultyProxy, tmp_path: Path
) -> None:
    prefix = "faults/denied"
    manifest = small.write_manifest(
        tmp_path, storage=small.storage(weed, proxy.endpoint, prefix), rounds=1
    )
    credentials = small.write_credentials(tmp_path, weed)
    proxy.fail("403", methods=("PUT",), contains="updates/maze/00001")
    with small.Run(manifest, tmp_path / "run", "--credentials", credentials) as run:
        assert run.wait() == 1
    assert "the credentials may not write it (AccessDenied)" in run.said
    assert f"then `hansa retry {tmp_path / 'run'} --credentials {credentials}`" in run.said
    assert "Traceback" not in run.said
    assert not any("/maze/" in folder for folder in expect_whole(store, prefix))
    assert not (tmp_path / "run/jobs/small-r1-maze-a2").exists(), "a permanent error is no retry"

    proxy.heal()
    small.finish(manifest, tmp_path / "run", "--credentials", credentials)
    status = small.status(tmp_path / "run")
    assert (status["completed"], status["adapter"]["round"]) == (1, 2), "numbers are used once"
    assert [entry["outcome"] for entry in status["history"]] == ["base", "failed", "aggregated"]
    expect_whole(store, prefix)
