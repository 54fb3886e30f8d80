"""Federations whose evaluations fail."""

from typing import Any

from tests.support.simulated_cluster import Cluster

DIVERGED = {"exit_code": 46, "message": "the training diverged"}


FEW = {"participation": {"retries": 0}}


def fail(cluster: Cluster, *names: str, **how: Any) -> Cluster:
    """These environments' Jobs of the open round end so, before anybody plans again."""
    for name in names:
        job = next(job for job in cluster.active() if f"-{name}-" in job)
        cluster.set(job, "failed", started_at=cluster.now, **(how or DIVERGED))
    return cluster.turn()
