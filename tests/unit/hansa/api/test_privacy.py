"""spec.privacy: the noise that it finds, and what it freezes."""

from typing import Any

from hansa.api import dp_accountant, privacy_forecast
from hansa.api.immutable_fields import immutable_changes, immutable_fields
from hansa.api.spec import FederationSpec, Metadata
from hansa.api.status import Federation, RoundSettings
from hansa.cli.validate import list_notes
from tests.support.builders import make_spec

PRIVATE = {"s3": {"bucket": "own", "prefix": "run"}}
PRIVACY = {"epsilon": 8.0, "delta": 1e-4}


def spec_with(**fields: Any) -> FederationSpec:
    sections: dict[str, Any] = {
        "privacy": PRIVACY,
        "training": {"maxSteps": 40},
        "environments": [{"name": "maze", "world": "maze", "experienceStorage": PRIVATE}],
    }
    return make_spec(**{**sections, **fields})


def test_absent_noise_is_the_least_for_all_rounds_and_frozen_with_each_round() -> None:
    spec = spec_with()
    fixed = RoundSettings.from_spec(spec).privacy
    assert fixed and fixed.noise_multiplier
    steps = spec.rounds * 40
    assert fixed.noise_multiplier == dp_accountant.find_noise(0.1, steps, 8.0, 1e-4)
    assert (
        fixed.noise_multiplier
        < RoundSettings.from_spec(spec_with(rounds=4)).privacy.noise_multiplier
    )  # type: ignore[union-attr, operator]


def test_the_forecast_ends_within_the_budget() -> None:
    spec = spec_with(rounds=50, privacy={**PRIVACY, "evaluationNoise": 8.0})
    assert spec.privacy
    rows = privacy_forecast.forecast_costs(spec, spec.privacy)
    assert [rows[0].rounds, rows[-1].rounds, rows[-1].steps] == [1, 50, 2000]
    assert len(rows) <= privacy_forecast.MOST_ROWS + 1
    assert rows[0].training < rows[-1].training <= 8.0
    assert rows[-1].evaluation <= 8.0


def test_a_cap_of_a_task_is_allowed_where_tasks_are_protected() -> None:
    assert spec_with(experience={"perTask": 2}).experience.per_task == 2


def test_privacy_neither_comes_nor_goes_nor_changes_its_unit_in_a_run() -> None:
    plain, private = spec_with(privacy=None), spec_with()
    other = spec_with(privacy={**PRIVACY, "unit": "trajectory"})
    for before, after, path in [
        (plain, private, "privacy"),
        (private, plain, "privacy"),
        (private, other, "privacy.unit"),
    ]:
        (sentence,) = immutable_changes(immutable_fields(before, {}), after)
        assert sentence.startswith(f"spec.{path}: got ")
    lower = spec_with(privacy={**PRIVACY, "epsilon": 6.0})
    assert not immutable_changes(immutable_fields(private, {}), lower)


def test_a_guard_that_would_judge_by_noise_is_noted() -> None:
    def noted(max_drop: float) -> list[str]:
        spec = spec_with(guard={"maxDrop": max_drop})
        federation = Federation(metadata=Metadata(name="fed"), spec=spec)
        return [note for note in list_notes(federation) if "maxDrop" in note]

    assert not noted(0.2)
    assert "three times the noise of spec.privacy.evaluationNoise (0.12)" in noted(0.1)[0]
