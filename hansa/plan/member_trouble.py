"""Why a silo's letters can be neither posted nor read: a code and a sentence for each error."""

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
"""Subclasses before their base class."""


def build_report(error: HansaError) -> SiloReport:
    """The report of a courier that failed."""
    word = next(word for kind, word in _WORDS if isinstance(error, kind))
    return SiloReport(trouble=word, message=error.message[:LONGEST_MESSAGE])


def find_trouble(courier: ObservedJob) -> Trouble:
    """The code that a failed courier reported; one without a report has crashed."""
    said = courier.report.trouble if isinstance(courier.report, SiloReport) else ""
    return said or "CourierFailed"


def add_message(courier: ObservedJob) -> ObservedJob:
    """The courier with the message of its report, since a Pod with a report shows no log."""
    said = courier.report.message if isinstance(courier.report, SiloReport) else ""
    return replace(courier, message=said or courier.message)
