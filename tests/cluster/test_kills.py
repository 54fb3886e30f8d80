"""Whatever is killed and whenever: the federation ends with the very bytes of a quiet run."""

from collections import Counter

import pytest

from tests.cluster import audit, kills
from tests.cluster.installed import Hansa
from tests.cluster.kills import KILLS, Moment, kill_at
from tests.support import small

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BY_MOMENTS = {"strategy": "regmean", "options": {"momentsRank": 8}}

ONE_OF_EACH: list[tuple[Moment, str]] = [
    (kills.clients_run(1), "client"),
    (kills.one_has_answered(1), "minio"),
    (kills.aggregator_exists(1), "aggregator"),
    (kills.clients_run(2), "operator"),
    (kills.one_has_answered(2), "kubelet"),
    (kills.evaluation_runs, "apiserver"),
]

MOMENTS: dict[str, list[Moment]] = {
    "client": [kills.clients_run(1), kills.clients_run(2), kills.evaluation_runs],
    "aggregator": [
        kills.aggregator_exists(1),
        kills.aggregator_exists(1),  # its second attempt
        kills.aggregator_exists(2),
    ],
    "operator": [kills.clients_run(1), kills.aggregator_exists(1), kills.one_has_answered(2)],
    "minio": [kills.clients_run(1), kills.aggregator_exists(1), kills.one_has_answered(2)],
    "kubelet": [kills.clients_run(1), kills.aggregator_exists(1), kills.one_has_answered(2)],
    "apiserver": [kills.clients_run(1), kills.aggregator_exists(1), kills.one_has_answered(2)],
}


def expect_an_undisturbed_end(
    hansa: Hansa, name: str, adapter: dict[str, bytes], since: str
) -> None:
    hansa.finish(name)
    assert hansa.adapter(name) == adapter
    uid = hansa.cluster.get("hfed", name)["metadata"]["uid"]
    jobs = audit.created_jobs(hansa.cluster, name, since)
    assert {job: count for job, count in Counter(jobs).items() if count > 1} == {}
    owners = [
        owner["uid"] for job in hansa.jobs(name) for owner in job["metadata"]["ownerReferences"]
    ]
    assert set(owners) <= {uid}
    hansa.delete(name)
    hansa.wipe(name)


@pytest.fixture(scope="module")
def merged_by_moments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a quiet run on this machine makes where silos send moments, too."""
    folder = tmp_path_factory.mktemp("moments")
    manifest = small.write_manifest(folder, aggregation=BY_MOMENTS)
    with small.Run(manifest, folder / "run", "--embedded-store") as run:
        run.finish()
    return small.adapter(folder / "run")


def test_one_kill_of_each_kind_changes_no_byte(
    hansa: Hansa, merged_by_moments: dict[str, bytes]
) -> None:
    name = "disturbed"
    since = audit.now()
    hansa.apply(hansa.manifest(name, aggregation=BY_MOMENTS))
    for moment, kind in ONE_OF_EACH:
        kill_at(hansa, name, moment, KILLS[kind])
    expect_an_undisturbed_end(hansa, name, merged_by_moments, since)


@pytest.mark.full
@pytest.mark.parametrize("kind", KILLS)
def test_three_kills_of_one_kind_change_no_byte(
    hansa: Hansa, local_adapter: dict[str, bytes], kind: str
) -> None:
    name = "disturbed"
    since = audit.now()
    hansa.apply(hansa.manifest(name))
    for moment in MOMENTS[kind]:
        kill_at(hansa, name, moment, KILLS[kind])
        hansa.settle()
    expect_an_undisturbed_end(hansa, name, local_adapter, since)
