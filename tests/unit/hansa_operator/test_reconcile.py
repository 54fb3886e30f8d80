"""What a pass makes of Jobs that are not taken, and of federations that are gone."""

from datetime import timedelta
from typing import Any

import pytest

from hansa.api import constants
from hansa.api.jobs import JobRequest
from hansa_operator.children import Problem
from hansa_operator.index import Index, Key
from hansa_operator.publish import Publisher
from hansa_operator.reconcile import _observe_unmade
from tests.support.builders import NOW, later
from tests.support.simulated_cluster import Cluster

KEY = Key("here", "fed")
QUOTA = Problem("quota", may_pass=True)


def request(cluster: Cluster) -> JobRequest:
    (name,) = cluster.active()
    asked: JobRequest = cluster.requests[name]
    return asked


def test_the_start_of_a_job_that_is_not_taken_counts_from_its_own_attempt() -> None:
    cluster = Cluster("maze").turn()
    assert _observe_unmade(request(cluster), cluster.federation, QUOTA, later(9)).created_at == NOW
    cluster.now = later(3000)
    cluster.set("fed-r1-maze-a1", "failed", exit_code=1).turn()
    cluster.now += timedelta(seconds=60)
    cluster.turn()
    seen = _observe_unmade(request(cluster), cluster.federation, QUOTA, later(4000)).created_at
    assert later(3000) < seen <= cluster.now


def test_the_start_of_an_aggregator_counts_from_when_its_members_were_known() -> None:
    cluster = Cluster("maze").turn()
    cluster.now = later(3000)
    cluster.answer("fed-r1-maze-a1").turn()
    job = _observe_unmade(request(cluster), cluster.federation, QUOTA, later(3001))
    assert (job.created_at, job.state) == (later(3000), "starting")


class Kube:
    """An API server that lists these federations."""

    def __init__(self, *things: dict[str, Any]) -> None:
        self.things = things

    def list(self, path: str, **how: Any) -> dict[str, Any]:
        assert how == {"fieldSelector": "metadata.name=fed"} and "/namespaces/here/" in path
        return {"items": list(self.things)}


def thing(uid: str, version: str = "1") -> dict[str, Any]:
    metadata = {"namespace": "here", "name": "fed", "uid": uid, "resourceVersion": version}
    return {"metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("there", "uid"),
    [
        pytest.param([], None, id="deleted while no watch ran"),
        pytest.param([thing("one", "2")], "one", id="still there"),
        pytest.param([thing("two", "3")], "two", id="made anew under its name"),
    ],
)
def test_a_look_finds_what_a_watch_has_missed(there: list[dict[str, Any]], uid: str | None) -> None:
    index = Index()
    index.see_owner(constants.KIND, thing("one"))
    known = index.get(KEY).owner
    Publisher(Kube(*there), index, "operator").look(KEY, known)  # type: ignore[arg-type]
    kept = index.get(KEY).owner
    assert (kept and kept["metadata"]["uid"]) == uid
