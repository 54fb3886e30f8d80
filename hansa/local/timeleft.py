"""How much of a run is done and how long the rest may take, by what its Jobs have played so far."""

from collections.abc import Mapping
from typing import Any

from hansa.api.constants import CONCLUDED
from hansa.api.status import CurrentRound, Federation, RoundSettings

TRAINING = 0.5
"""Training's part of a round's work, by its episodes: a guess that the first round replaces."""
OWN = "own"
"""The phase in which an update plays the held-out tasks, after training: all but done."""
_ORDER = ("evaluate", "explore", "train")

Progress = Mapping[str, Mapping[str, Any]]
"""What each environment's client said last: phase, done and total."""


def measure_work(federation: Federation, progress: Progress) -> tuple[float, float]:
    """Work that is done and all the work of a run, in episodes."""
    status, spec = federation.status, federation.spec
    settings = RoundSettings.from_spec(spec)
    rounds = [
        sum(_measure_phases(settings, number).values()) for number in range(1, spec.rounds + 1)
    ]
    last = _count_evaluation_episodes(settings) + _measure_alone(settings, spec.rounds)
    done = sum(rounds[: status.completed])
    current = status.current
    if status.completed >= spec.rounds and (current is None or current.kind == "round"):
        done += last if status.evaluated or status.phase == "Succeeded" else 0.0
    elif current is not None:
        phases = {"evaluate": last}
        if current.kind == "round":
            phases = _measure_phases(current.settings, status.completed + 1)
        done += sum(phases.values()) * _share(current, phases, progress)
    return done, sum(rounds) + last


def estimate_seconds_left(seconds: float, done: float, ahead: float) -> float | None:
    """Seconds that the work ahead takes, at the pace of what was done in these seconds."""
    return seconds / done * ahead if done > 0 else None


def _measure_phases(settings: RoundSettings, number: int) -> dict[str, float]:
    """Work of a client in the round that is completed as the n-th, by phase."""
    exploration = settings.exploration
    is_due = (number - 1) % settings.evaluation.every_rounds == 0
    evaluate = _count_evaluation_episodes(settings) if is_due else 0.0
    explore = float(exploration.tasks_per_round * exploration.samples_per_task)
    return {"evaluate": evaluate, "explore": explore, "train": TRAINING * (evaluate + explore)}


def _measure_alone(settings: RoundSettings, rounds: int) -> float:
    """Work of a silo that evolves alone after the last round, to compare."""
    if not settings.evaluation.alone:
        return 0.0
    evolving = [_measure_phases(settings, number) for number in range(1, rounds + 1)]
    played = sum(one["explore"] + one["train"] for one in evolving)
    return played + _count_evaluation_episodes(settings)


def _count_evaluation_episodes(settings: RoundSettings) -> float:
    evaluation = settings.evaluation
    tasks = evaluation.tasks + (evaluation.validation_tasks or 0)
    greedy = evaluation.tasks if evaluation.greedy else 0
    return float(tasks * evaluation.samples_per_task + greedy)


def _share(current: CurrentRound, phases: Mapping[str, float], progress: Progress) -> float:
    """How much of an open round, or of the last evaluation, is done: the environments' mean."""
    shares = [
        1.0 if one.state in CONCLUDED else _measure_client_share(phases, progress.get(one.name, {}))
        for one in current.environments
    ]
    return sum(shares) / len(shares) if shares else 0.0


def _measure_client_share(phases: Mapping[str, float], progress: Mapping[str, Any]) -> float:
    phase, total = str(progress.get("phase")), progress.get("total")
    if phase == OWN:
        return 1.0
    if phase not in phases or not total:  # loading, or shown demonstrations
        return 0.0
    before = sum(phases[one] for one in _ORDER[: _ORDER.index(phase)] if one in phases)
    inside = phases[phase] * min(1.0, float(progress.get("done", 0)) / float(total))
    return (before + inside) / sum(phases.values())
