"""Two replicas of the operator: one acts, a dead one is replaced, and nothing is done twice."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.cluster import audit, kills
from tests.cluster.installed import OPERATOR, Hansa
from tests.cluster.kills import processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def pair(hansa: Hansa) -> Iterator[Hansa]:
    """Hansa with two replicas, both ready."""
    hansa.scale(2)
    yield hansa
    hansa.scale(1)


def leader(hansa: Hansa) -> str:
    """Name of the Pod that holds the Lease."""
    holder = hansa.cluster.get("lease", OPERATOR).get("spec", {})
    return str(holder.get("holderIdentity") or "").rpartition("_")[0]


def test_the_other_replica_takes_over_from_a_killed_one_and_nothing_is_done_twice(
    pair: Hansa, local_adapter: dict[str, bytes]
) -> None:
    name, since = "disturbed", audit.now()
    pair.apply(pair.manifest(name))
    pair.cluster.until(lambda: kills.clients_run(1)(pair, name), "clients run")
    first = leader(pair)
    pod = pair.cluster.get("pod", first)
    standby = next(each for each in pair.operators() if each != first)
    for pid in processes(pod, "hansa-operator"):
        os.kill(pid, signal.SIGKILL)
    died = time.monotonic()
    pair.cluster.until(lambda: leader(pair) == standby, "the other replica leads")
    print(f"the other replica led {time.monotonic() - died:.1f} s after the kill")
    pair.finish(name)
    assert pair.adapter(name) == local_adapter
    jobs = Counter(audit.created_jobs(pair.cluster, name, since))
    assert {job: count for job, count in jobs.items() if count > 1} == {}
    pair.delete(name)
    pair.wipe(name)
