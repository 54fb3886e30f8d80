"""Federations under a guard, played by their evaluations."""

from tests.support.simulated_cluster import Cluster

NAMES = ("babyai", "maze")


def guarded(rounds: int = 4, **fields) -> Cluster:
    fields.setdefault("guard", {"maxDrop": 0.1})
    fields.setdefault("aggregation", {"serverStep": 3.0})
    return Cluster(*NAMES, rounds=rounds, **fields).turn()


def play(cluster: Cluster, *successes: int) -> Cluster:
    """Rounds, or the last evaluation, in which the start adapter is found to be so good."""
    for count in successes:
        clients = [job for job in cluster.active() if "aggregator" not in job]
        cluster.answer(*clients, successes=count).turn()
        aggregator = [job for job in cluster.active() if "aggregator" in job]
        cluster.answer(*aggregator).turn()
    return cluster


def outcomes(cluster: Cluster) -> list[str]:
    return [entry.outcome for entry in cluster.status.history]


def start(cluster: Cluster, job: str) -> int:
    return cluster.requests[job].assignment.start.round
