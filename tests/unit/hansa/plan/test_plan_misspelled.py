"""A name that is almost a builtin one is told of before anything is played, once for each spec."""

import pytest

from hansa.plan.policy import advice
from tests.support.builders import make_spec
from tests.support.simulated_cluster import Cluster

CLOSE = (
    "spec.aggregation.strategy: trimed-mean is no builtin name, so an image must provide it; "
    "did you mean trimmed-mean?"
)


@pytest.mark.parametrize(
    "spec, warned",
    [
        pytest.param({"aggregation": {"strategy": "mean"}}, "", id="builtin"),
        pytest.param({"aggregation": {"strategy": "sign-mean"}}, "", id="another's, not alike"),
        pytest.param({"aggregation": {"strategy": "trimed-mean"}}, CLOSE, id="a letter short"),
        pytest.param(
            {"training": {"learner": "succes-sft"}},
            "spec.training.learner: succes-sft is no builtin name, so an image must provide it; "
            "did you mean success-sft?",
            id="a learner",
        ),
    ],
)
def test_a_name_that_is_almost_a_builtin_one_is_warned_of(
    spec: dict[str, object], warned: str
) -> None:
    assert advice.find_misspelled(make_spec("maze", **spec)) == ([warned] if warned else [])


def test_the_event_comes_with_the_first_jobs_and_once_for_each_spec() -> None:
    cluster = Cluster("maze", rounds=4, aggregation={"strategy": "trimed-mean"}).turn()

    def list_warnings() -> list[str]:
        return [each.message for each in cluster.events if each.reason == "MaybeMisspelled"]

    assert list_warnings() == [CLOSE]
    cluster.run_round().run_round()
    assert list_warnings() == [CLOSE]
    cluster.change(aggregation={"strategy": "trimmed-mean"})
    assert list_warnings() == [CLOSE]
