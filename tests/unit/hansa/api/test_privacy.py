"""spec.privacy: what is refused with it and why, the noise it finds, and what it freezes."""

from typing import Any

import pytest
from pydantic import ValidationError

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


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no private store": (
        {"environments": [{"name": "maze", "world": "maze"}]},
        r"environments\[0\].experienceStorage: got nothing, expected a private store",
    ),
    "sealed experience in the shared bucket": (
        {"environments": [{"name": "maze", "world": "maze", "experienceKeySecret": {"name": "k"}}]},
        r"environments\[0\].experienceStorage: got nothing, expected a private store",
    ),
    "the shared bucket as the private one": (
        {
            "environments": [
                {
                    "name": "maze",
                    "world": "maze",
                    "experienceStorage": {"s3": {"bucket": "bucket", "prefix": "own"}},
                }
            ]
        },
        r"environments\[0\].experienceStorage.s3.bucket: got bucket, where updates are exchanged",
    ),
    "no store of one's own": ({"storage": None}, r"storage: got nothing, expected a store with"),
    "a learner of a package": (
        {"training": {"maxSteps": 4, "learner": "once"}},
        r"training.learner: got once, expected success-sft or reward-weighted with privacy",
    ),
    "steps by the data": ({"training": {}}, r"training.maxSteps: got 0, expected 1 or more"),
    "a cap on trajectories": (
        {"experience": {"maxTrajectories": 100}},
        r"experience.maxTrajectories: got 100, expected 0 with privacy",
    ),
    "a cap of a task, for trajectories": (
        {"experience": {"perTask": 2}, "privacy": {**PRIVACY, "unit": "trajectory"}},
        r"experience.perTask: got 2, expected 0 with privacy",
    ),
    "dropout": ({"adapter": {"dropout": 0.1}}, r"adapter.dropout: got 0.1, expected 0"),
    "moments": (
        {"aggregation": {"strategy": "regmean"}},
        r"aggregation.strategy: got regmean, expected another with privacy: moments are sent",
    ),
    "weights by counts": (
        {"aggregation": {"strategy": "weighted-mean"}},
        r"aggregation.strategy: got weighted-mean, .* counts are not sent",
    ),
    "own updates measured": (
        {"evaluation": {"ownUpdate": True}},
        r"evaluation.ownUpdate: got true, expected false with privacy: each figure is paid for",
    ),
    "greedy play": ({"evaluation": {"greedy": True}}, r"evaluation.greedy: got true"),
    "evolving alone": ({"evaluation": {"alone": True}}, r"evaluation.alone: got true"),
    "probes": (
        {"probes": [{"name": "memory", "texts": ["Once."]}]},
        r"probes: got 1, expected none with privacy: a world that a silo's package brings",
    ),
    "personal adapters": (
        {"personalization": "best"},
        r"personalization: got best, expected none with privacy",
    ),
    "a delta that gives records away": (
        {"privacy": {"epsilon": 8.0, "delta": 0.01}},
        r"privacy.delta: got 0.01, expected less than one in the 168 tasks that maze may have",
    ),
    "too little noise": (
        {"privacy": {**PRIVACY, "noiseMultiplier": 0.5}},
        r"privacy.epsilon: got 8, and 2 rounds of 40 steps with noise 0.5 cost [\d.]+, expected",
    ),
    "too little noise in evaluations": (
        {"privacy": {**PRIVACY, "evaluationNoise": 0.5}},
        r"privacy.evaluationNoise: got 0.5, with which 3 evaluations cost an epsilon of [\d.]+",
    ),
    "an epsilon that no noise keeps": (
        {"privacy": {"epsilon": 1e-4, "delta": 1e-12}, "training": {"maxSteps": 1_000_000}},
        r"privacy.epsilon: got 0.0001, for which no noise is enough",
    ),
    "a file whose tasks may be held out, and no room for both": (
        {"experience": {"demonstrationsFrom": "s3://own/shown.json"}},
        r"privacy.epsilon: got 8, .* expected [\d.]+ or more, a larger privacy.noiseMultiplier",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_tell_of_a_record_is_refused_by_the_spec(case: str) -> None:
    fields, sentence = REFUSED[case]
    with pytest.raises(ValidationError, match=sentence):
        spec_with(**fields)


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
