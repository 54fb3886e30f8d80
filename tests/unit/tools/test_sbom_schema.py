"""The list of an image's packages is valid by the schema of those who keep CycloneDX."""

from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.attested import NAME, ROOT, attest, make_layout


@pytest.mark.parametrize("epoch", ["", "1700000000"], ids=["without a time", "with a time"])
def test_the_list_is_valid_by_the_schema(tmp_path: Path, epoch: str) -> None:
    layout = make_layout(tmp_path)
    text = attest(ROOT, "list", layout.folder, NAME, epoch=epoch).stdout
    assert ("2023-11-14T22:13:20Z" in text) == bool(epoch)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
