"""Whatever is killed and whenever: the federation ends with the very bytes of a quiet run."""

from collections import Counter

import pytest

from tests.cluster import audit, kills
from tests.cluster.installed import Hansa
from tests.cluster.kills import KILLS, Moment, kill_at

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

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


def test_one_kill_of_each_kind_changes_no_byte(
    hansa: Hansa, local_adapter: dict[str, bytes]
) -> None:
    name = "disturbed"
    since = audit.now()
    hansa.apply(hansa.manifest(name))
    for moment, kind in ONE_OF_EACH:
        kill_at(hansa, name, moment, KILLS[kind])
    expect_an_undisturbed_end(hansa, name, local_adapter, since)


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
