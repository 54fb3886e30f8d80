"""The live table says what silos do after the last round, where nobody knows how long it takes."""

from typing import Any

import pytest

from hansa.local.display import LiveDisplay
from tests.support.builders import with_status
from tests.support.simulated_cluster import Cluster


@pytest.mark.parametrize(
    "fields, words",
    [
        pytest.param({"evaluation": {"alone": True}}, "silos evolve alone, to compare", id="alone"),
        pytest.param({"personalization": "best"}, "silos choose what they serve", id="choosing"),
        pytest.param({}, "left", id="only an evaluation"),
    ],
)
def test_the_headline_after_the_last_round(
    fields: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster("maze", rounds=1, **fields)
    shown: list[str] = []
    for _ in range(2):
        with LiveDisplay() as display:
            display.show(with_status(cluster.turn().federation, cluster.status), [], Any)  # type: ignore[arg-type]
        shown.append(" ".join(capsys.readouterr().err.split()))
        cluster.run_round()
    assert "left" in shown[0] and words in shown[1]
