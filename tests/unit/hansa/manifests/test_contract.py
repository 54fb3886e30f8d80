"""The plug-in of pytest with the contract suites: the checks of each kind, ready to be called."""

import pytest

from hansa.manifests.contract import prepare_checks


@pytest.mark.parametrize(
    "kind, text",
    [
        pytest.param("strategy", "mean", id="a strategy"),
        pytest.param("learner", "success-sft", id="a learner"),
        pytest.param("world", 'maze={"map": "generated", "size": 6}', id="a world with options"),
    ],
)
def test_the_checks_of_each_kind_are_prepared(kind: str, text: str) -> None:
    assert len(prepare_checks(kind, text)) >= 8


def test_a_prepared_check_runs_over_the_plug_in() -> None:
    prepare_checks("world", "maze")["splits are disjoint"]()


def test_an_unknown_name_is_refused_with_the_option_that_gave_it() -> None:
    with pytest.raises(pytest.UsageError, match="--world maize: world: got 'maize', expected one"):
        prepare_checks("world", "maize")
