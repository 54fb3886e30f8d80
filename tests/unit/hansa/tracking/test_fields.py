"""spec.tracking: what fits together, as the page shows it and as users may get it wrong."""

import re
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hansa.consent import lines
from hansa.tracking.fields import Tracking, TrackingStatus
from tests.builders import make_federation
from tests.sources import ROOT

PAGE = (ROOT / "docs/tracking.md").read_text()


def test_the_pages_manifest_fits_and_every_field_is_in_its_table() -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    shown = yaml.safe_load(block)["spec"]["tracking"]
    assert make_federation("maze", tracking=shown).spec.tracking == Tracking.model_validate(shown)
    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.M))
    for name, field in Tracking.model_fields.items():
        assert f"`{field.alias or name}`" in rows, name


@pytest.mark.parametrize(
    "given, sentence",
    [
        pytest.param({"to": "mlflow"}, "tracking.url: got nothing", id="no address"),
        pytest.param(
            {"to": "wandb", "credentialsSecret": {"name": "s"}},
            "tracking.credentialsSecret: got a value",
            id="files need no password",
        ),
        pytest.param(
            {"to": "tensorboard", "experiment": "agents"},
            "tracking.experiment: got a value",
            id="a board has no experiments",
        ),
        pytest.param({"to": "Not/A name"}, "pattern", id="no name"),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        Tracking.model_validate(given)


@pytest.mark.parametrize(
    "given",
    [
        {"to": "wandb", "experiment": "agents", "claim": "boards"},
        {"to": "lines", "url": "http://lines/with/a/path", "claim": "boards"},
    ],
)
def test_what_fits(given: dict[str, Any]) -> None:
    assert Tracking.model_validate(given).to_json() == given


def test_the_line_that_consents_is_printed_for_the_trackers_secrets() -> None:
    tracking = {"to": "mlflow", "url": "http://m", "credentialsSecret": {"name": "mlflow"}}
    [line] = lines([make_federation("maze", tracking=tracking)])
    assert "secret mlflow" in line and "hansa.fed.tracking.job" in line


def test_a_status_without_tracking_reads_as_one_that_has_not_begun() -> None:
    assert TrackingStatus().to_json()["exported"] == ""
