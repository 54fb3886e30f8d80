"""Federations whose probes say that an adapter breaks rules."""

from typing import Any

from hansa.api.probes import ProbeFigure
from tests.support.builders import make_report
from tests.support.simulated_cluster import Cluster

NAMES = ("babyai", "maze", "wordle")


WALL = {"name": "wall", "world": "maze", "options": {"low_wall": True}, "tasks": 20}


MEMORY = {"name": "memory", "texts": ["All that one knew."]}


GUARD = {"maxDrop": 0.5, "maxViolations": 0.1, "maxForgetting": 0.5}


def federation(*names: str, rounds: int = 6, **fields: Any) -> Cluster:
    given = {"probes": [WALL, MEMORY], "guard": GUARD, **fields}
    return Cluster(*(names or NAMES), rounds=rounds, **given).turn()


def play(cluster: Cluster, broke: int, *liars: str, lie: int = 20, nats: float = 0.0) -> Cluster:
    """One round, or the last evaluation, in which probes say so of every adapter but the base."""
    for job in cluster.active():
        request = cluster.requests[job]
        report = make_report(request, successes=5 + bool(request.assignment.start.round))
        if report.evaluation and request.assignment.settings.probes:
            is_new = bool(request.assignment.start.round)
            count = (lie if request.environment in liars else broke) if is_new else 2
            figures = {
                "wall": ProbeFigure(episodes=20, violations=count),
                "memory": ProbeFigure(forgotten=nats if is_new else 0.0),
            }
            evaluation = report.evaluation.model_copy(update={"probes": figures})
            report = report.model_copy(update={"evaluation": evaluation})
        cluster.set(job, "succeeded", report=report)
    cluster.turn()
    cluster.answer(*[job for job in cluster.active() if "aggregator" in job])
    return cluster.turn()
