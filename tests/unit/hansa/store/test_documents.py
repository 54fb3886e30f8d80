"""Documents of other parties: how much of one is taken before it is parsed, and what is said."""

from typing import Any

import pytest
from pydantic import ValidationError

from hansa.api import bucket_documents
from hansa.api.bucket_documents import (
    EvaluationDocument,
    PersonalManifest,
    StartAdapter,
    TaskTallies,
)
from hansa.api.spec import Model
from hansa.core.errors import Corrupt, InvalidDocument
from hansa.store import documents
from hansa.validation import json_size, messages
from tests.support.memory_store import MemoryStore

KEY = "experience/maze/document.json"
MANY = 20_000
"""Tasks whose tallies have more marks than a stranger's document may."""


def made(kind: type[Model], tasks: int) -> bytes:
    """A document of this kind that names so many tasks."""
    common: dict[str, Any] = {
        "program": "0",
        "environment": "maze",
        "adapter": StartAdapter(round=1, sha256="a" * 64),
        "fingerprint": bucket_documents.fingerprint({}),
    }
    named = {f"{i}": [1, 1] for i in range(tasks)}
    of_tasks: dict[str, Any] = {"inputs": {}, "tasks": named}
    counted = {"temperature": 1.0, "episodes": tasks, "successes": tasks}
    own: dict[type[Model], dict[str, Any]] = {
        TaskTallies: of_tasks,
        PersonalManifest: {**of_tasks, "choice": "global", "validation": {}},
        EvaluationDocument: {"inputs": named, **counted},
    }
    return bucket_documents.canonical(kind(**common, **own[kind]).to_json())


def stored(data: bytes) -> MemoryStore:
    store = MemoryStore()
    store.put_if_absent(KEY, data)
    return store


READERS = pytest.mark.parametrize("reader", [documents.read_document, documents.read_with_checksum])


@READERS
@pytest.mark.parametrize("kind", [TaskTallies, PersonalManifest])
def test_a_silos_own_document_may_name_as_many_tasks_as_it_has(kind: Any, reader: Any) -> None:
    data = made(kind, MANY)
    assert json_size.is_crowded(data)
    assert len(reader(kind, stored(data), KEY).tasks) == MANY


@READERS
def test_a_document_of_the_exchange_may_not(reader: Any) -> None:
    data = made(EvaluationDocument, MANY)
    with pytest.raises(InvalidDocument, match="got more than 40000 commas, colons and brackets"):
        reader(EvaluationDocument, stored(data), KEY)
    assert reader(EvaluationDocument, stored(made(EvaluationDocument, 1000)), KEY).episodes == 1000


@READERS
def test_a_silos_own_document_has_an_end_as_well(reader: Any) -> None:
    padded = made(TaskTallies, 1) + b" " * documents.MOST_BYTES
    with pytest.raises(InvalidDocument, match=f"got more than {documents.MOST_BYTES} bytes"):
        reader(TaskTallies, stored(padded), KEY)


def test_a_crowded_document_of_ours_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Corrupt, match="got more than 40000 commas"):
        documents.parse(EvaluationDocument, KEY, b"[" + b"{}," * json_size.MOST_MARKS)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        pytest.param(997, "fingerprint: Field required", id="as many as are taken apart"),
        pytest.param(998, "the document: got 1001 things that do not fit", id="more than that"),
    ],
)
def test_of_very_many_misfits_only_their_number_is_told(wrong: int, sentence: str) -> None:
    """Pydantic makes all of them or none, a kilobyte each; three are fields that are missing."""
    document = {"program": "0", "environment": "maze", "tasks": {f"{i}": [1] for i in range(wrong)}}
    with pytest.raises(ValidationError) as refused:
        TaskTallies.model_validate(document)
    assert messages.describe_first_misfit(refused.value) == sentence
