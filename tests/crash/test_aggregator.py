"""The aggregator killed with -9 at each of its requests, and run again: the folder is the same.

All it leaves behind is in the store, so its steps are its requests: it is killed before each, and
at a write also within it and when it is done but unheard of.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import AggregatorReport
from hansa.api.bucket_documents import GlobalManifest, StartAdapter, sha256
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.spec import S3
from hansa.local import executor as executors
from hansa.local.executor import LocalExecutor
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.runtime.capacity import Capacity
from hansa.store.audit_log import AuditEntry
from hansa.store.s3 import S3Store
from tests.support import processes
from tests.support.faults import FaultyProxy, Kind
from tests.support.processes import until
from tests.unit.hansa_server.rounds import PREFIX, Round, full_round, tensors

pytestmark = pytest.mark.slow


class Moment(NamedTuple):
    """Where the aggregator is killed: at the so-many-th request of its kind."""

    kind: Kind
    method: str
    path: str
    number: int


def first() -> Round:
    """A first round, which also writes whose prefix it is; one update of it is refused."""
    round_ = full_round()
    round_.send("maze", b"no adapter")
    return round_


def later() -> Round:
    """A round that starts from a global adapter, and from what its strategy remembers."""
    settings = {"strategy": "fedavgm"}
    before = full_round(aggregation=settings)
    digest = before.aggregate().adapter
    start = StartAdapter(round=1, sha256=digest)
    round_ = Round(number=2, start=start, store=before.store, aggregation=settings)
    for position, name in enumerate(round_.environments):
        round_.send(name, tensors(10 + position))
    return round_


@pytest.fixture(scope="module")
def executor(weed: LocalStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    patch = pytest.MonkeyPatch()
    for role in executors.PROGRAMS:  # no client is needed, and torch takes seconds
        patch.setitem(executors.PROGRAMS, role, "hansa_server")
    folder = tmp_path_factory.mktemp("aggregator") / "jobs"
    capacity = Capacity(slots=1)
    with LocalExecutor(
        folder, lambda _: weed.environ(RUNNER), capacity, own_credentials=False
    ) as it:
        yield it
    patch.undo()


class Aggregation:
    """One round's updates in a real store, which can be aggregated again and again."""

    def __init__(
        self, round_: Round, executor: LocalExecutor, store: S3Store, proxy: FaultyProxy
    ) -> None:
        self._round = round_
        self._executor = executor
        self._store = store
        self._proxy = proxy
        self._runs = 0
        self._given = dict(round_.store.objects)
        self._delete(self._stored())
        for key, data in self._given.items():
            store.put_if_absent(key, data)

    def reset(self) -> None:
        """The store as it was before the aggregation."""
        self._delete(self._stored() - set(self._given))

    def _stored(self) -> set[str]:
        return set(self._store.list(f"{PREFIX}/"))

    def _delete(self, found: set[str]) -> None:
        for key in found:
            self._store._client().delete_object(Bucket=self._store.s3.bucket, Key=key)

    def run(self) -> ObservedJob:
        """The aggregator to its end, by a process of its own."""
        self._runs += 1
        name = f"aggregator-{self._round.number}-{self._runs}"
        place = S3(endpoint=self._proxy.endpoint, bucket=self._store.s3.bucket, prefix=PREFIX)
        assignment = self._round.assignment(storage=place)
        self._executor.create(
            JobRequest(
                name=name,
                role="aggregator",
                round=self._round.number,
                environment="",
                attempt=1,
                assignment=assignment,
            )
        )

        def job() -> ObservedJob:
            return next(job for job in self._executor.observe() if job.name == name)

        def has_ended() -> bool:
            self._executor.wait(0.1)
            return not job().is_active

        until(has_ended, f"{name} to end")
        return job()

    def requests(self) -> list[tuple[str, str]]:
        """Method and path of all requests of an undisturbed run."""
        self._proxy.requests.clear()
        assert self.run().state == "succeeded"
        return [(line.split()[0], line.split()[1]) for line in self._proxy.requests]

    def kill_at(self, moment: Moment) -> None:
        """Run it, and kill it there."""
        name = f"aggregator-{self._round.number}-{self._runs + 1}"
        methods, path, earlier = (moment.method,), moment.path, moment.number - 1

        def kill() -> None:
            processes.kill(processes.jobs(os.getpid())[name])

        self._proxy.fail("slow", seconds=0, times=earlier, methods=methods, contains=path)
        self._proxy.fail(moment.kind, times=1, methods=methods, contains=path, then=kill)
        assert self.run().exit_code == 128 + 9
        self._proxy.heal()

    def result(self) -> dict[str, object]:
        """What is stored of it; without the seconds that it took, and digests of them."""
        made = {key: self._store.get(key) for key in self._stored() - set(self._given)}
        manifest = self._round.global_key(bucket_keys.MANIFEST)
        stored = GlobalManifest.model_validate_json(made[manifest])
        audit = bucket_keys.audit_entry(PREFIX, self._round.number)
        entry = AuditEntry.model_validate_json(made[audit])
        assert entry.result == sha256(made[manifest])
        return {
            **made,
            manifest: stored.model_copy(update={"seconds": {}}),
            audit: entry.model_copy(update={"result": None, "sha256": ""}),
        }


def moments(requests: list[tuple[str, str]]) -> list[Moment]:
    """Before each request; a write also half sent, and done with its answer lost."""
    found, seen = [], dict[tuple[str, str], int]()
    for method, path in requests:
        seen[method, path] = number = seen.get((method, path), 0) + 1
        kinds: tuple[Kind, ...] = ("reset",)
        if method == "PUT":
            kinds = ("reset", "cut-request", "lose-answer")
        found += [Moment(kind, method, path, number) for kind in kinds]
    return found


@pytest.mark.parametrize(
    "make, writes",
    [
        pytest.param(first, 5, id="a first round with a refused update"),
        pytest.param(later, 6, id="a later round with a server optimizer"),
    ],
)
def test_an_aggregator_killed_at_each_step_gives_the_same_bytes_when_run_again(
    make: Callable[[], Round],
    writes: int,
    executor: LocalExecutor,
    store: S3Store,
    proxy: FaultyProxy,
) -> None:
    work = Aggregation(make(), executor, store, proxy)
    asked = moments(work.requests())
    undisturbed = work.result()
    assert sum(moment.kind == "lose-answer" for moment in asked) == writes
    for moment in asked:
        work.reset()
        work.kill_at(moment)
        again = work.run()
        assert isinstance(again.report, AggregatorReport), moment
        assert work.result() == undisturbed, moment
