"""Jobs killed with -9 while silos send moments: the merged adapter has the undisturbed bytes."""

from pathlib import Path

import pytest

from hansa.local.objectstore import LocalStore
from tests.support import processes, small
from tests.support.faults import FaultyProxy, Kind

pytestmark = pytest.mark.slow

BY_MOMENTS = {"strategy": "regmean", "options": {"momentsRank": 8}}
KILLS: list[tuple[Kind, str, str]] = [
    ("cut-request", "updates/maze/00001/moments.safetensors", "small-r1-maze-a1"),
    ("lose-answer", "updates/webshop/00001/moments.safetensors", "small-r1-webshop-a1"),
    ("cut-request", "global/00001/adapter_model.safetensors", "small-r1-aggregator-a1"),
    ("reset", "updates/maze/00002/moments.safetensors", "small-r2-maze-a1"),
    ("reset", "global/00002/manifest.json", "small-r2-aggregator-a1"),
]
"""What befalls a write, which, and the Job that is killed at it."""


def test_a_job_killed_at_its_moments_or_at_the_merge_changes_no_byte(
    weed: LocalStore, tmp_path: Path
) -> None:
    with small.Run(small.write_manifest(tmp_path, aggregation=BY_MOMENTS), tmp_path / "q") as quiet:
        quiet.finish()
    credentials = small.write_credentials(tmp_path, weed)
    running: list[small.Run] = []
    hit: list[str] = []
    with FaultyProxy(weed.s3.endpoint or "") as proxy:
        storage = small.storage(weed, proxy.endpoint, "crash/merging")
        manifest = small.write_manifest(tmp_path, aggregation=BY_MOMENTS, storage=storage)
        for kind, key, job in KILLS:

            def kill(key: str = key, job: str = job) -> None:
                processes.kill(processes.jobs(running[0].pid)[job])
                hit.append(key)

            proxy.fail(kind, times=1, methods=("PUT",), contains=key, then=kill)
        with small.Run(manifest, tmp_path / "run", "--credentials", credentials) as run:
            running.append(run)
            run.finish()
    assert sorted(hit) == sorted(key for _, key, _ in KILLS)
    assert small.adapter(tmp_path / "run") == small.adapter(tmp_path / "q")
