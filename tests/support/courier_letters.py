"""Letters that couriers post and read."""

from hansa.api.assignment import ClientReport, EvaluationReport
from hansa.api.bucket_documents import Counts, Figures

RUN = "a" * 64


def answer_of(index: int) -> ClientReport:
    """As large as a report gets."""
    figures = EvaluationReport(
        round=99999,
        episodes=99999,
        successes=99999,
        broken=99999,
        effective=99999.123456789,
        validation=Figures(episodes=99999, successes=99999),
    )
    phases = ("load", "evaluate", "explore", "train", "own", "send")
    return ClientReport(
        environment=index,
        round=99999,
        trained=True,
        manifest="a" * 64,
        adapter="b" * 64,
        counts=Counts(explored=99999, succeeded=99999, broken=99999, experience=9999999),
        evaluation=figures,
        own=Figures(episodes=99999, successes=99999),
        solved=99999,
        entropy=1.2345678901234567,
        norm=12345.678901234567,
        bytes=10**12,
        seconds=dict.fromkeys(phases, 12345.678901234567),
    )
