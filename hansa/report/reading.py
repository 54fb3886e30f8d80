"""Reading for a report: what is missing, denied or garbled becomes a note and never an error."""

import math
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from hansa.core.errors import Denied, InvalidDocument, NotFound, StoreError, Unreachable
from hansa.store import documents
from hansa.store.base import ObjectStore
from hansa.store.documents import Document

Answer = TypeVar("Answer")

_SHOWN_SUBJECTS = 4


class Notes:
    """Sentences on what is not shown; a hundred alike failures make one sentence."""

    def __init__(self) -> None:
        self._subjects: dict[tuple[str, str], list[str]] = {}

    def add(self, what: str, subject: str, why: str) -> None:
        """Remember that `what` of `subject` is not shown, and why."""
        subjects = self._subjects.setdefault((what, why), [])
        if subject not in subjects:
            subjects.append(subject)

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind of failure, in the order they came."""
        return tuple(
            f"Not shown: {what} of {_join_subjects(subjects)}: {why}."
            for (what, why), subjects in self._subjects.items()
        )


def _join_subjects(subjects: list[str]) -> str:
    shown = ", ".join(subjects[:_SHOWN_SUBJECTS])
    more = len(subjects) - _SHOWN_SUBJECTS
    return f"{shown} and {more} more" if more > 0 else shown


class Reader:
    """An object store that answers nothing instead of raising.

    After the store was unreachable once it is asked no more: a page must not wait for the timeouts
    of three hundred objects.
    """

    def __init__(self, store: ObjectStore | None, notes: Notes) -> None:
        self._store = store
        self._notes = notes

    def get(self, key: str, what: str, subject: str, limit: int) -> bytes | None:
        """The first bytes of an object; None when there are none to be had."""
        return self._asked(
            lambda store: store.get_range(key, 0, min(limit, store.size(key))), what, subject
        )

    def document(self, kind: type[Document], key: str, what: str, subject: str) -> Document | None:
        """A document of the bucket; None when it is not there or not what it should be."""
        return self._asked(lambda store: documents.read_document(kind, store, key), what, subject)

    def _asked(
        self, ask: Callable[[ObjectStore], Answer], what: str, subject: str
    ) -> Answer | None:
        if self._store is None:
            return None
        try:
            return ask(self._store)
        except NotFound:
            return None
        except Denied:
            self._notes.add(what, subject, "the credentials may not read it")
        except Unreachable:
            self._notes.add(what, subject, "the object store did not answer")
            self._store = None
        except InvalidDocument:
            self._notes.add(what, subject, "its document is garbled or of another version")
        except StoreError as error:
            self._notes.add(what, subject, error.message)
        return None


def parse_number(value: Any) -> float | None:
    """A finite number, or None for whatever else a document may hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def parse_count(value: Any) -> int | None:
    """A number of things, or None."""
    given = parse_number(value)
    return int(given) if given is not None and given >= 0 else None


MOST_PHASES = 20
"""A round has ten; a page must not grow with what a silo writes."""


def parse_seconds(value: Any) -> dict[str, float]:
    """Seconds by phase; what is no duration is left out, and so is what no round could have."""
    if not isinstance(value, dict):
        return {}
    phases = islice(value.items(), MOST_PHASES)
    known = {str(phase)[:40]: parse_number(given) for phase, given in phases}
    return {p: given for p, given in known.items() if given is not None and 0 <= given <= 1e9}
