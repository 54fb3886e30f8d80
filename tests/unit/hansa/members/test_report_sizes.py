"""The largest reports of couriers stay within what Kubernetes keeps of a Pod's last words."""

from typing import Any

import pytest

from hansa.api import task_kinds
from hansa.api.assignment import PHASES, REPORT_LIMIT, ClientReport, EvaluateReport
from hansa.api.bucket_documents import Counts
from hansa.api.courier_assignment import CourierReport, LetterFaults, LetterSummary, LogAdvance
from hansa.api.exchange import Cursor, PostedOrder
from hansa.api.letters import FAULTS, PATHS, Reference
from hansa.api.probes import MOST_EPISODES, MOST_PROBES
from hansa.api.reports import decode_report, encode_report
from hansa.api.silo_assignment import NewestOrder, SiloCourierAssignment, SiloReport
from hansa.members.mailbox import MOST_SKIPPED
from hansa.members.silo_courier import LONGEST_MESSAGE

MOST = 2**53
DIGEST = "f" * 64
LONG = 123456789.12345679
"""As long as a number can be in JSON."""
FIGURES = {"episodes": MOST, "successes": MOST}
EVALUATION = {
    "round": MOST,
    **FIGURES,
    "broken": MOST,
    "effective": -1.2345678901234567e-300,
    "validation": FIGURES,
    "probes": {
        f"{'p' * 28}-{number}": {"episodes": MOST_EPISODES, "violations": MOST_EPISODES}
        for number in range(MOST_PROBES)
    },
}
SECONDS = dict.fromkeys(sorted(PHASES), LONG)
CLIENT = ClientReport.model_validate(
    {
        "environment": 99,
        "round": MOST,
        "trained": False,
        "manifest": DIGEST,
        "adapter": DIGEST,
        "counts": dict.fromkeys(Counts.model_fields, MOST),
        "evaluation": EVALUATION,
        "own": FIGURES,
        "solved": MOST,
        "kinds": {
            f"{'k' * 28}{number:02d}": task_kinds.PARTS for number in range(task_kinds.MOST_KINDS)
        },
        "entropy": -1.2345678901234567e-300,
        "norm": -1.2345678901234567e-300,
        "bytes": MOST,
        "seconds": SECONDS,
    }
)
EVALUATE = EvaluateReport.model_validate(
    {
        "environment": 99,
        "evaluation": EVALUATION,
        "personal": FIGURES,
        "serves": "finetuned-00001",
        "alone": FIGURES,
        "seconds": SECONDS,
    }
)
ORDER = PostedOrder(kind="rest", role="evaluate", round=MOST, why="suspended")


@pytest.mark.parametrize("report", [CLIENT, EVALUATE], ids=["client", "evaluate"])
def test_the_largest_answer_is_told_with_all_that_was_wrong_before_it(
    report: ClientReport | EvaluateReport,
) -> None:
    """A reading that did not fit into an empty report would be read again for ever."""
    largest = CourierReport(
        posted=[LogAdvance(box=99, serial=MOST, digest=DIGEST, order=ORDER)],
        read=[LogAdvance(box=99, serial=MOST, digest=DIGEST)],
        news=[
            LetterSummary(
                box=99,
                kind="answer",
                order=MOST,
                code="a" * 30,
                path=max(PATHS, key=len),
                exit=255,
                report=report,
            )
        ],
        faults=[LetterFaults(box=99, code=code, count=MOST_SKIPPED) for code in FAULTS],
    )
    data = encode_report(largest)
    assert len(data) <= REPORT_LIMIT
    assert decode_report(data) == largest


@pytest.mark.parametrize("letter", ["x", "ü", "\N{SHIP}", "\x00"], ids=ascii)
def test_the_largest_report_of_a_silos_courier_fits(letter: str) -> None:
    most: Any = next(
        m for m in SiloCourierAssignment.model_fields["post"].metadata if hasattr(m, "max_length")
    )
    head = Cursor(serial=MOST, digest=DIGEST)
    largest = SiloReport(
        sent=head,
        posted=most.max_length,
        received=head,
        newest=NewestOrder(
            order=Reference(serial=MOST, digest=DIGEST),
            kind="work",
            role="evaluate",
            round=MOST,
            episodes=MOST,
            round_seconds=MOST,
            veto="differs",
            path="p" * 100,
            message=letter * LONGEST_MESSAGE,
        ),
        faults=[("a" * 30, MOST)] * 20,
    )
    data = encode_report(largest)
    assert len(data) <= REPORT_LIMIT
    assert decode_report(data) == largest
