"""Every field that can leave a silo with privacy is in the table of docs/privacy.md."""

import pytest

from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.bucket_documents import Counts, EvaluationDocument, UpdateManifest
from hansa.api.letters import (
    Answer,
    FailedReply,
    Hello,
    Leave,
    RefusedReply,
    TakenReply,
    WaitsReply,
)
from hansa.core.model import Model
from tools.pages import private_silo

LEAVE = [
    *(UpdateManifest, EvaluationDocument, ClientReport, EvaluateReport),
    *(Hello, TakenReply, WaitsReply, RefusedReply, FailedReply, Answer, Leave),
]


@pytest.mark.parametrize("root", LEAVE)
def test_every_field_that_leaves_a_private_silo_says_how_it_is_covered(root: type[Model]) -> None:
    for model in private_silo.list_models(root):
        named = [name for names in private_silo.FIELDS[model].values() for name in names]
        assert sorted(named) == sorted(model.model_fields), model.__name__


def test_an_exact_count_is_found_wherever_it_is() -> None:
    report = ClientReport(
        environment=0, round=1, trained=True, manifest="a" * 64, counts=Counts(succeeded=3)
    )
    assert list(private_silo.find_exact(report)) == ["counts.succeeded"]
