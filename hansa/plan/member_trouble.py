"""Why a silo's letters can be neither posted nor read: from an error to a word and a sentence."""

from dataclasses import replace

from hansa.api.constants import Trouble
from hansa.api.jobs import ObservedJob
from hansa.api.silo_assignment import LONGEST_MESSAGE, SiloReport
from hansa.core.errors import ClockSkewed, Denied, HansaError, LogReplaced, Unreachable, Untrusted

_WORDS: tuple[tuple[type[HansaError], Trouble], ...] = (
    (Unreachable, "Unreachable"),
    (ClockSkewed, "ClockSkewed"),
    (Denied, "Denied"),
    (LogReplaced, "LogReplaced"),
    (Untrusted, "Untrusted"),
    (HansaError, "CourierFailed"),
)
"""The special before the general."""


def report(error: HansaError) -> SiloReport:
    """What a courier leaves that failed."""
    word = next(word for kind, word in _WORDS if isinstance(error, kind))
    return SiloReport(trouble=word, message=error.message[:LONGEST_MESSAGE])


def of(courier: ObservedJob) -> Trouble:
    """Of a courier that failed; one that could say nothing has crashed."""
    said = courier.report.trouble if isinstance(courier.report, SiloReport) else ""
    return said or "CourierFailed"


def in_words(courier: ObservedJob) -> ObservedJob:
    """The courier with the sentence of its report: a Pod that leaves one shows no log."""
    said = courier.report.message if isinstance(courier.report, SiloReport) else ""
    return replace(courier, message=said or courier.message)
