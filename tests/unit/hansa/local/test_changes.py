"""What a manifest changes in a run that has begun: which fields, from what to what."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.local.changes import settings_changed
from tests.support.builders import make_federation

CHANGES = yaml.safe_load(Path(__file__).with_name("changes.yaml").read_text())


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: row["case"])
def test_changes_are_named_field_by_field(row: dict[str, Any]) -> None:
    old, new = (make_federation(**row.get(which, {})).spec for which in ("old", "new"))
    assert [str(change) for change in settings_changed(old, new)] == row.get("sentences", [])
