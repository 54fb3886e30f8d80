"""A slow twin of a Job that computed other bytes: the folder stays one adapter all the same."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import UpdateManifest, sha256
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.spec import S3
from hansa.local import executor as executors
from hansa.local.executor import LocalExecutor
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.runtime.capacity import Capacity
from hansa.store.s3 import S3Store
from tests.support import small
from tests.support.faults import FaultyProxy
from tests.support.processes import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def assignment(undisturbed: Path) -> Assignment:
    """What the maze's client was told in the first round of the undisturbed run."""
    text = (undisturbed / "jobs/small-r1-maze-a1/assignment.json").read_text()
    return Assignment.model_validate_json(text)


@pytest.fixture(scope="module")
def executor(weed: LocalStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    """An executor whose clients may be twins; the environment says who."""
    patch = pytest.MonkeyPatch()
    patch.setitem(executors.PROGRAMS, "client", "tests.crash.twin")
    patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    folder = tmp_path_factory.mktemp("twins") / "jobs"

    def environ(name: str) -> dict[str, str]:
        return {**weed.environ(RUNNER), "HANSA_TEST_TWIN": "1" if name == "twin" else "0"}

    with LocalExecutor(folder, environ, Capacity(slots=2), own_credentials=False) as running:
        yield running
    patch.undo()


def ask(assignment: Assignment, endpoint: str, prefix: str, who: str) -> JobRequest:
    """A Job named after who does it; the executor gives each its variables by that name."""
    place = S3(endpoint=endpoint, bucket=assignment.storage.bucket, prefix=prefix)
    return JobRequest(
        name=f"{prefix.replace('/', '-')}-{who}",
        role="client",
        round=1,
        environment=who,
        attempt=1,
        assignment=assignment.model_copy(update={"storage": place}),
    )


def ended(executor: LocalExecutor, name: str) -> ObservedJob:
    """The Job, once it has ended."""

    def look() -> bool:
        executor.wait(0.1)
        return not find(executor, name).is_active

    until(look, f"{name} to end")
    return find(executor, name)


def find(executor: LocalExecutor, name: str) -> ObservedJob:
    return next(job for job in executor.observe() if job.name == name)


@pytest.mark.parametrize(
    "held, whose",
    [
        pytest.param(
            bucket_keys.ADAPTER, "first", id="held before its adapter: the other one's counts"
        ),
        pytest.param(
            bucket_keys.MANIFEST, "twin", id="held before its manifest: its adapter counts"
        ),
    ],
)
def test_a_twin_that_writes_after_the_commit_changes_nothing(
    executor: LocalExecutor,
    assignment: Assignment,
    undisturbed: Path,
    weed: LocalStore,
    store: S3Store,
    proxy: FaultyProxy,
    held: str,
    whose: str,
) -> None:
    prefix = f"crash/twin-{whose}"
    folder = bucket_keys.update_folder(prefix, "maze", 1)
    waits = threading.Event()
    proxy.fail("slow", seconds=600, times=1, methods=("PUT",), contains=held, then=waits.set)
    twin = ask(assignment, proxy.endpoint, prefix, "twin")
    first = ask(assignment, weed.s3.endpoint or "", prefix, "first")

    executor.create(twin)
    until(waits.is_set, "the twin to come to its write")
    executor.create(first)
    answer = ended(executor, first.name)
    committed = store.get(folder + bucket_keys.MANIFEST)
    proxy.heal()
    late = ended(executor, twin.name)

    assert store.get(folder + bucket_keys.MANIFEST) == committed
    assert isinstance(answer.report, ClientReport) and isinstance(late.report, ClientReport)
    assert answer.report.manifest == late.report.manifest == sha256(committed)
    manifest = UpdateManifest.model_validate_json(committed)
    stored = {name: store.get(folder + name) for name in small.FILES}
    assert {n: e.sha256 for n, e in manifest.files.items()} == {
        n: sha256(data) for n, data in stored.items()
    }
    undisturbed_sha = _manifest_of(undisturbed)
    assert (sha256(stored[bucket_keys.ADAPTER]) == undisturbed_sha) is (whose == "first")


def _manifest_of(undisturbed: Path) -> str:
    """Digest of the maze's first update in the undisturbed run, from what that run reported."""
    with LocalStore(undisturbed / "store", small.ENVIRONMENTS, prefix=small.NAME) as store:
        raw = store.store().get(
            bucket_keys.update_folder(small.NAME, "maze", 1) + bucket_keys.MANIFEST
        )
    return str(json.loads(raw)["files"][bucket_keys.ADAPTER]["sha256"])
