"""Options that do not fit a world are refused in one sentence that names the option."""

from typing import Any

import pytest
import yaml

from hansa_worlds import OptionError, make
from tests.support.sources import ROOT

BAD = yaml.safe_load((ROOT / "tests/support/bad_options.yaml").read_text())
GOOD: dict[str, dict[str, Any]] = {
    "gymnasium": {
        "env": "tests.support.gym_envs:Higher",
        "train": [20, 60],
        "validation": [10, 20],
        "test": [0, 10],
        "max_turns": 5,
    }
}


@pytest.mark.parametrize("row", BAD, ids=lambda row: f"{row['world']} {row['options']}"[:60])
def test_a_bad_option_is_named_with_what_fits(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSA_WORLD_MODULES", "tests")
    with pytest.raises(OptionError) as refused:
        make(row["world"], {**GOOD.get(row["world"], {}), **row["options"]})
    sentence = str(refused.value)
    assert "secret" not in sentence
    assert sentence == row.get("whole", sentence)
    assert sentence.startswith(row.get("begins", ""))
    assert row.get("part", "") in sentence
