"""The forecast: what a run with spec.privacy will have cost after each round, if none fails."""

from dataclasses import dataclass

from hansa.api import dp_accountant, privacy_checks
from hansa.api.privacy import Privacy
from hansa.api.spec import FederationSpec

MOST_ROWS = 20


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one record has cost at most after some rounds."""

    rounds: int
    """Rounds done."""
    steps: int
    """Steps of all of them."""
    training: float
    """Epsilon of a training record that takes part in every round."""
    evaluation: float
    """Epsilon of a held-out task, after these rounds' evaluations."""


def find_noise(spec: FederationSpec, privacy: Privacy) -> float:
    """The noise multiplier of the run; the spec is refused where there is none."""
    return privacy.noise(spec.rounds * spec.training.max_steps) or dp_accountant.MOST_NOISE


def forecast_costs(spec: FederationSpec, privacy: Privacy) -> list[Cost]:
    """After the first round, the last, and some between them."""
    every = -(-spec.rounds // MOST_ROWS)
    shown = sorted({1, *range(every, spec.rounds + 1, every), spec.rounds})
    return [_after(spec, privacy, rounds) for rounds in shown]


def _after(spec: FederationSpec, privacy: Privacy, rounds: int) -> Cost:
    steps = rounds * spec.training.max_steps
    so_far = spec.model_copy(update={"rounds": rounds})
    measured = privacy_checks.count_evaluations(so_far)
    return Cost(
        rounds=rounds,
        steps=steps,
        training=dp_accountant.spent_epsilon(
            privacy.sampling_rate, find_noise(spec, privacy), steps, privacy.delta
        ),
        evaluation=dp_accountant.spent_epsilon(
            1.0, privacy.evaluation_noise, measured, privacy.delta
        ),
    )
