"""Processes killed with -9 at the most delicate moments: the adapter has the undisturbed bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.local.objectstore import LocalStore
from hansa.store.s3 import S3Store
from tests.support import processes, small
from tests.support.faults import FaultyProxy, Kind
from tests.support.processes import until

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Moment:
    """A write at which a Job is killed: before it, within it, or when it is done but unheard of."""

    what: str
    kind: Kind
    key: str
    job: str


MOMENTS = [
    Moment(
        "between an update's adapter and its manifest",
        "reset",
        "updates/maze/00001/manifest.json",
        "small-r1-maze-a1",
    ),
    Moment(
        "within the shard of experience",
        "cut-request",
        "experience/webshop/00001.jsonl.zst",
        "small-r1-webshop-a1",
    ),
    Moment(
        "between the global adapter and its manifest",
        "reset",
        "global/00001/manifest.json",
        "small-r1-aggregator-a1",
    ),
    Moment(
        "with the shard stored, before anything is learned from it",
        "lose-answer",
        "experience/maze/00002.jsonl.zst",
        "small-r2-maze-a1",
    ),
    Moment(
        "with the update committed, before it is reported",
        "lose-answer",
        "updates/webshop/00002/manifest.json",
        "small-r2-webshop-a1",
    ),
    Moment(
        "within the global adapter",
        "cut-request",
        "global/00002/adapter_model.safetensors",
        "small-r2-aggregator-a1",
    ),
    Moment(
        "with the last evaluation stored, before it is reported",
        "lose-answer",
        "evaluations/webshop/00002.json",
        "small-e2-webshop-a1",
    ),
]


@dataclass(frozen=True)
class Survivor:
    """A run that ended well although each of its delicate moments was used against it."""

    out: Path
    prefix: str
    hit: list[str]
    manifest: Path
    credentials: Path


@pytest.fixture(scope="module")
def survivor(weed: LocalStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    folder, prefix = tmp_path_factory.mktemp("moments"), "crash/moments"
    credentials = small.write_credentials(folder, weed)
    with FaultyProxy(weed.s3.endpoint or "") as proxy:
        manifest = small.write_manifest(folder, storage=small.storage(weed, proxy.endpoint, prefix))
        running: list[small.Run] = []
        hit: list[str] = []
        for moment in MOMENTS:

            def kill(moment: Moment = moment) -> None:
                processes.kill(processes.jobs(running[0].pid)[moment.job])
                hit.append(moment.what)

            proxy.fail(moment.kind, times=1, methods=("PUT",), contains=moment.key, then=kill)
        with small.Run(manifest, folder / "run", "--credentials", credentials) as run:
            running.append(run)
            run.finish()
        yield Survivor(folder / "run", prefix, hit, manifest, credentials)


def test_a_job_killed_at_each_delicate_moment_changes_no_byte(
    survivor: Survivor, undisturbed: Path
) -> None:
    assert sorted(survivor.hit) == sorted(moment.what for moment in MOMENTS)
    assert small.adapter(survivor.out) == small.adapter(undisturbed)


def test_a_killed_job_goes_on_with_what_it_had_stored(survivor: Survivor) -> None:
    logs = {path.parent.name: path.read_text() for path in survivor.out.glob("jobs/*/log.txt")}
    second = {name: text for name, text in logs.items() if name.endswith("-a2")}
    assert set(second) == {moment.job.replace("-a1", "-a2") for moment in MOMENTS}
    explored_again = [name for name, text in second.items() if "explored" in text]
    assert explored_again == ["small-r1-webshop-a2"], "only the half-sent shard is played again"


def test_every_global_round_is_that_of_the_undisturbed_run(
    survivor: Survivor, undisturbed: Path
) -> None:
    def digests(out: Path) -> list[str]:
        return [entry.get("adapter", "") for entry in small.status(out)["history"]]

    assert digests(survivor.out) == digests(undisturbed)


def test_a_lost_folder_is_made_again_from_the_prefix_without_exploring_or_writing(
    survivor: Survivor, undisturbed: Path, weed: LocalStore, store: S3Store, tmp_path: Path
) -> None:
    before = list(store.list(survivor.prefix))
    with FaultyProxy(weed.s3.endpoint or "") as proxy:
        manifest = small.write_manifest(
            tmp_path, storage=small.storage(weed, proxy.endpoint, survivor.prefix)
        )
        with small.Run(manifest, tmp_path / "run", "--credentials", survivor.credentials) as run:
            run.finish()
        assert proxy.count("PUT") == proxy.count("PUT", bucket_keys.probe(""))
    assert list(store.list(survivor.prefix)) == before
    assert small.adapter(tmp_path / "run") == small.adapter(undisturbed)
    assert small.status(tmp_path / "run")["history"][-1]["success"]


@pytest.mark.parametrize(
    "changes, sentence",
    [
        pytest.param({"seed": 8}, "seed 7 there, 8 here", id="another seed"),
        pytest.param(
            {"training": {**small.SPEC["training"], "learningRate": 4.0e-3}},
            "training.learningRate 0.005 there, 0.004 here",
            id="another learning rate",
        ),
    ],
)
def test_a_prefix_of_another_run_is_refused_with_the_field_that_differs(
    survivor: Survivor,
    weed: LocalStore,
    store: S3Store,
    tmp_path: Path,
    changes: dict[str, object],
    sentence: str,
) -> None:
    before = list(store.list(survivor.prefix))
    place = small.storage(weed, weed.s3.endpoint or "", survivor.prefix)
    manifest = small.write_manifest(tmp_path, storage=place, **changes)
    with small.Run(manifest, tmp_path / "run", "--credentials", survivor.credentials) as run:
        assert run.wait() == 1
    refusal = f"/{survivor.prefix} holds another run ({sentence})"
    assert refusal in run.said
    jobs = tmp_path / "run/jobs"  # the first silo that says so ends the others
    assert any(refusal in log.read_text() for log in jobs.glob("small-r1-*-a1/log.txt"))
    assert not list(jobs.glob("small-r1-*-a2")), "a permanent error is no retry"
    assert list(store.list(survivor.prefix)) == before


def test_a_runner_killed_within_a_round_and_between_rounds_goes_on(
    undisturbed: Path, weed: LocalStore, tmp_path: Path
) -> None:
    credentials = small.write_credentials(tmp_path, weed)
    with FaultyProxy(weed.s3.endpoint or "") as proxy:
        place = small.storage(weed, proxy.endpoint, "crash/runner")
        manifest = small.write_manifest(tmp_path, storage=place)
        moments: list[tuple[Kind, str]] = [
            ("reset", "updates/maze/00001/manifest.json"),
            ("lose-answer", "global/00001/manifest.json"),
        ]
        for kind, key in moments:
            with small.Run(manifest, tmp_path / "run", "--credentials", credentials) as run:
                kill = [run.process.kill]
                proxy.fail(kind, times=1, methods=("PUT",), contains=key, then=kill[0])
                assert run.wait() == -9
        assert small.status(tmp_path / "run")["completed"] == 0, "it knows less than the store"
        with small.Run(manifest, tmp_path / "run", "--credentials", credentials) as run:
            run.finish()
    assert len(proxy.failed) == len(moments)
    assert small.adapter(tmp_path / "run") == small.adapter(undisturbed)


def test_a_killed_store_and_a_killed_warm_process_come_back_within_the_run(
    undisturbed: Path, tmp_path: Path
) -> None:
    with small.Run(small.write_manifest(tmp_path), tmp_path / "run") as run:
        run.wait_for_phase("explore", round_=1)
        store = processes.weed(run.pid)
        processes.kill(store)
        until(lambda: processes.weed(run.pid) not in (0, store), "the store to come back")
        run.wait_for_phase("evaluate", round_=2)
        warm = processes.warm(run.pid)
        processes.kill(warm)
        run.finish()
    assert small.adapter(tmp_path / "run") == small.adapter(undisturbed)
    assert "its process was killed" in run.events
