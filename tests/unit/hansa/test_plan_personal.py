"""What silos serve themselves, as the status tells it."""

import pytest

from tests.unit.hansa.test_plan import Cluster


@pytest.mark.parametrize(
    "mode, told",
    [
        pytest.param("best", [("mix-50", "0.800")], id="each silo has chosen"),
        pytest.param("none", [("", "")], id="nobody chooses"),
    ],
)
def test_the_status_says_what_each_silo_serves_and_how_that_does(
    mode: str, told: list[tuple[str, str]]
) -> None:
    cluster = Cluster("maze", rounds=1, personalization=mode).turn()
    cluster.answer("fed-r1-maze-a1").turn()
    cluster.answer("fed-r1-aggregator-a1").turn()
    cluster.answer("fed-e1-maze-a1").turn()
    assert cluster.status.phase == "Succeeded"
    assert [(line.serves, line.personal) for line in cluster.status.environments] == told
    assert cluster.status.environments[0].success == "0.500"  # the global adapter's, as ever
