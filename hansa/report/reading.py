"""Reading for a report: what is missing, denied or garbled becomes a note and never an error."""

import json
import math
from typing import Any, TypeVar

from pydantic import ValidationError

from hansa.errors import Denied, NotFound, StoreError, Unreachable
from hansa.spec import Model
from hansa.store.base import ObjectStore

Document = TypeVar("Document", bound=Model)

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
            f"Not shown: {what} of {_listed(subjects)}: {why}."
            for (what, why), subjects in self._subjects.items()
        )


def _listed(subjects: list[str]) -> str:
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

    def get(self, key: str, what: str, subject: str, limit: int | None = None) -> bytes | None:
        """An object's bytes, or its first `limit` ones; None when there are none to be had."""
        if self._store is None:
            return None
        try:
            return self._fetch(self._store, key, limit)
        except NotFound:
            return None
        except Denied:
            self._notes.add(what, subject, "the credentials may not read it")
        except Unreachable:
            self._notes.add(what, subject, "the object store did not answer")
            self._store = None
        except StoreError as error:
            self._notes.add(what, subject, error.message)
        return None

    @staticmethod
    def _fetch(store: ObjectStore, key: str, limit: int | None) -> bytes:
        if limit is None:
            return store.get(key)
        return store.get_range(key, 0, min(limit, store.size(key)))

    def document(self, kind: type[Document], key: str, what: str, subject: str) -> Document | None:
        """A document of the bucket; None when it is not there or not what it should be."""
        data = self.get(key, what, subject)
        if data is None:
            return None
        try:
            return kind.model_validate_json(data)
        except (ValidationError, ValueError):
            self._notes.add(what, subject, "its document is garbled or of another version")
            return None


def number(value: Any) -> float | None:
    """A finite number, or None for whatever else a document may hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def count(value: Any) -> int | None:
    """A number of things, or None."""
    given = number(value)
    return int(given) if given is not None and given >= 0 else None


def seconds(value: Any) -> dict[str, float]:
    """Seconds by phase; what is no duration is left out."""
    if not isinstance(value, dict):
        return {}
    known = {str(phase)[:40]: number(given) for phase, given in value.items()}
    return {phase: given for phase, given in known.items() if given is not None and given >= 0}


def json_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object of one line, or None."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None
