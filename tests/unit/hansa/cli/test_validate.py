"""`hansa validate`: what is allowed, and yet worth knowing before a run."""

from typing import Any

import pytest

from hansa.cli.validate import notes
from tests.builders import make_federation


@pytest.mark.parametrize(
    "step, warned",
    [
        pytest.param(1.0, False, id="the mean itself"),
        pytest.param(3.0, False, id="the sum of all changes"),
        pytest.param("auto", False, id="one that fits itself"),
        pytest.param(3.5, True, id="more than the sum"),
        pytest.param(100, True, id="the largest there is"),
    ],
)
def test_a_server_step_beyond_the_sum_of_all_changes_is_noted(step: Any, warned: bool) -> None:
    federation = make_federation("a", "b", "c", aggregation={"serverStep": step})
    said = [note for note in notes(federation) if "serverStep" in note]
    assert bool(said) is warned
    if warned:
        assert said[0].startswith(
            f"spec.aggregation.serverStep: {float(step):g} is more than the sum of what 3 "
            "environments change"
        )


def test_where_nothing_is_merged_no_step_is_too_long() -> None:
    alone = {"strategy": "none", "serverStep": 100}
    assert not [n for n in notes(make_federation("a", aggregation=alone)) if "serverStep" in n]
