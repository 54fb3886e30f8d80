"""How long a comparison will take, from the first round of one of its runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hansa.api.assignment import AggregatorReport, ClientReport
from hansa.compare.comparison import Run
from hansa.local.executor import read_report
from hansa.plan.policy.apart import NONE


@dataclass(frozen=True, kw_only=True)
class FirstRound:
    """What the first round of a run took, over all its clients."""

    method: str
    """Method of that run."""
    seed: int
    """Its seed."""
    fixed: float
    """Seconds of loading and sending."""
    evaluate: float
    """Seconds of evaluating the base."""
    explore: float
    """Seconds of showing and exploring; 0 where the run does not explore."""
    train: float
    """Seconds of training."""
    merge: float
    """Seconds of the aggregator."""
    steps: int
    """Optimizer steps."""
    shown: int
    """Demonstrations that were trained on, about."""
    explored: int
    """Episodes explored."""
    succeeded: int
    """Those that succeeded."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.fixed + self.evaluate + self.explore + self.train + self.merge


def find(run: Run, folder: Path) -> FirstRound | None:
    """The first round of a run at work, once all its Jobs have reported."""
    reports = [read_report(path) for path in folder.glob("jobs/*/report.json")]
    clients = [r for r in reports if isinstance(r, ClientReport) and r.round == 1]
    merges = [r for r in reports if isinstance(r, AggregatorReport) and r.round == 1]
    spec = run.federation.spec
    if len(clients) < len(spec.environments):
        return None
    if not merges and spec.aggregation.strategy != NONE and any(r.trained for r in clients):
        return None
    kept = sum(r.counts.kept for r in clients)
    explored = sum(r.counts.explored for r in clients)
    succeeded = sum(r.counts.succeeded for r in clients)
    new = explored if spec.experience.filter == "none" else succeeded
    return FirstRound(
        method=run.method,
        seed=run.seed,
        fixed=_phase(clients, "load", "send"),
        evaluate=_phase(clients, "evaluate"),
        explore=_phase(clients, "explore"),
        train=_phase(clients, "train"),
        merge=sum(sum(r.seconds.values()) for r in merges),
        steps=sum(r.counts.steps for r in clients),
        shown=max(0, kept - new),
        explored=explored,
        succeeded=succeeded,
    )


def _phase(reports: Sequence[ClientReport], *phases: str) -> float:
    return sum(report.seconds.get(phase, 0.0) for report in reports for phase in phases)


def estimate_runs(first: FirstRound, runs: Iterable[Run]) -> float:
    """Seconds of all Jobs of these runs, as if one followed another.

    Training grows with the experience; how often a better agent succeeds is not known yet, so it
    is taken to succeed as often as in the first round.
    """
    return sum(_estimate_run(first, run) for run in runs)


def _estimate_run(first: FirstRound, run: Run) -> float:
    spec = run.federation.spec
    silos = len(run.silos.spec.environments)
    if not run.kind.trains:
        return first.evaluate
    evaluations = spec.rounds // spec.evaluation.every_rounds + 1
    total = evaluations * first.evaluate + spec.rounds * (first.fixed + first.merge)
    if spec.exploration.tasks_per_round:
        total += spec.rounds * first.explore
    if spec.aggregation.strategy == NONE:
        total += (silos - 1) * first.evaluate  # all adapters, in all worlds but their own
    return total + sum(
        _estimate_training(first, run, round_) for round_ in range(1, spec.rounds + 1)
    )


def _estimate_training(first: FirstRound, run: Run, round_: int) -> float:
    """Seconds that all silos train in a round."""
    spec = run.federation.spec
    measured = first.shown + first.succeeded
    if not measured or not first.steps:
        return first.train
    new = first.explored if spec.experience.filter == "none" else first.succeeded
    rounds = round_ if spec.experience.history else 1
    kept = first.shown + (new * rounds if spec.exploration.tasks_per_round else 0)
    share = kept / measured
    if spec.training.max_steps:
        most = spec.training.max_steps * len(run.silos.spec.environments) / first.steps
        share = min(share, max(1.0, most))
    return first.train * share
