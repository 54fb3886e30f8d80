"""What the page shows, as plain data: everything a renderer needs and nothing it must fetch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hansa.api.spec import FederationSpec
from hansa.api.status import Federation, HistoryEntry
from hansa.core.stats import Interval, add_noise, difference, mean, rate_interval
from hansa.plan.policy import apart, guard


@dataclass(frozen=True, kw_only=True)
class Score:
    """How one adapter did on one environment's held-out tasks."""

    ratio: float
    """Share of successful episodes."""
    episodes: int = 0
    """Episodes behind it; 0 when their number is unknown."""
    effective: float | None = None
    """Independent episodes that they are worth; absent: each counts."""
    noise: float = 0.0
    """Standard deviation of the noise in the ratio, with `spec.privacy`."""

    @property
    def interval(self) -> Interval:
        """The ratio with its 95 % limits; as wide as can be when the episodes are unknown."""
        worth = self.episodes if self.effective is None else min(self.effective, self.episodes)
        return add_noise(rate_interval(self.ratio, worth), self.noise)


@dataclass(frozen=True, kw_only=True)
class ScoreChange:
    """Mean success of two adapters, over the environments in which both were evaluated."""

    environments: tuple[str, ...]
    first: Interval
    last: Interval

    @property
    def change(self) -> Interval:
        """How much better the last one is."""
        return difference(self.last, self.first)


def compare_scores(first: Mapping[str, Score], last: Mapping[str, Score]) -> ScoreChange | None:
    """Two adapters; None where no environment has evaluated both."""
    both = tuple(sorted(first.keys() & last.keys()))
    means = [mean([scores[name].interval for name in both]) for scores in (first, last)]
    if means[0] is None or means[1] is None:
        return None
    return ScoreChange(environments=both, first=means[0], last=means[1])


def describe_success(
    first: Mapping[str, Score], last: Mapping[str, Score], rounds: str, spec: FederationSpec
) -> str:
    """From base to last adapter in one line; over the environments that evaluated both."""
    both = compare_scores(first, last)
    if both is None:
        return "success on held-out tasks: not compared, no environment evaluated base and last"
    others = sorted((first.keys() | last.keys()) - {*both.environments})
    where = f" in {', '.join(both.environments)}" if others else ""
    change = both.change
    limits = f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
    text = f"success on held-out tasks{where}: {both.first.value:.1%} -> {both.last.value:.1%}"
    text += f" ({rounds}), {100 * change.value:+.1f} points (95 %: {limits})"
    text += f"; {', '.join(others)} evaluated only one of both" if others else ""
    return text + "; with the noise of spec.privacy" * (spec.privacy is not None)


def build_scores(entry: HistoryEntry, spec: FederationSpec) -> dict[str, Score]:
    """How a round's adapter did, as the status has it."""
    return {
        name: Score(
            ratio=ratio,
            episodes=(episodes := entry.episodes.get(name, 0)),
            effective=entry.effective.get(name),
            noise=compute_noise(spec, episodes),
        )
        for name, ratio in entry.success.items()
    }


def compute_noise(spec: FederationSpec, episodes: int) -> float:
    """Standard deviation of the noise in a share of so many episodes; 0 without privacy."""
    if spec.privacy is None or not episodes:
        return 0.0
    return spec.privacy.evaluation_noise * spec.evaluation.samples_per_task / episodes


@dataclass(frozen=True, kw_only=True)
class EnvironmentRound:
    """What one environment did in one round; None where its manifest does not say."""

    explored: int | None = None
    succeeded: int | None = None
    broken: int | None = None
    """Episodes dropped since the world failed in them."""
    experience: int | None = None
    kept: int | None = None
    """Trajectories trained on, of all rounds."""
    steps: int | None = None
    tokens: int | None = None
    generated: int | None = None
    norm: float | None = None
    loss: float | None = None
    epsilon: float | None = None
    """What the silo has given away of one record, where that is bounded."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase."""
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Successes and episodes explored, by kind of task."""


@dataclass(frozen=True, kw_only=True)
class RoundInputs:
    """What a round was computed from, by its manifests; leaves by their paths."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that all environments share, as training.learningRate."""
    worlds: dict[str, dict[str, Any]] = field(default_factory=dict)
    """World and options of the environments whose manifests were read."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round from opening to evaluation."""

    number: int
    outcome: str
    opened_at: datetime | None = None
    closed_at: datetime | None = None
    updates: str = ""
    scores: dict[str, Score] = field(default_factory=dict)
    """How its global adapter did, by environment."""
    parts: dict[str, EnvironmentRound] = field(default_factory=dict)
    """What each environment did in it."""
    members: tuple[str, ...] = ()
    """Environments whose updates were merged."""
    inputs: RoundInputs | None = None
    """What it was computed from; absent where no manifest of it could be read."""
    temperature: float | None = None
    """Sampling temperature of its evaluation; absent where no document of it could be read."""
    norm: float | None = None
    """Norm of the global adapter's step."""
    server_step: float | None = None
    """Server step that made it."""
    adapter_bytes: int | None = None
    """Size of its global adapter."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase of the aggregator."""
    refused: tuple[tuple[str, str], ...] = ()
    """Environments whose update the gate kept out, with the reason."""
    own: dict[str, float] = field(default_factory=dict)
    """Success of each environment's own update before it was merged."""
    message: str = ""
    """Why the guard rejected it."""

    @property
    def success(self) -> Interval | None:
        """Mean over the environments that were evaluated."""
        return mean([self.scores[name].interval for name in sorted(self.scores)])

    def total(self, count: str) -> int:
        """A count over all environments; what no manifest says counts as nothing."""
        return sum(getattr(part, count) or 0 for part in self.parts.values())


@dataclass(frozen=True, kw_only=True)
class EpisodeMessage:
    """One message of an episode."""

    role: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ShownEpisode:
    """One played episode."""

    round: int
    task: str
    success: bool
    reward: float | None
    turns: tuple[EpisodeMessage, ...]


@dataclass(frozen=True, kw_only=True)
class EpisodePair:
    """An environment's first episode of its first and of its last round."""

    environment: str
    first: ShownEpisode | None
    last: ShownEpisode | None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """All that the page shows."""

    federation: Federation
    rounds: tuple[Round, ...]
    """Rounds by number; number 0 is the base before any training."""
    episodes: tuple[EpisodePair, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences on what could not be read and is therefore not shown."""
    programs: tuple[tuple[str, str], ...] = ()
    """Versions that wrote the documents: (document, version)."""
    base_model: str = ""
    """Digest of the base model's files."""
    adapter: str = ""
    """Local folder of the last adapter; empty: it is only in the bucket."""
    made_at: datetime | None = None
    """When the page was made; absent: the page says nothing about it."""

    @property
    def environments(self) -> tuple[str, ...]:
        """Names in the spec's order, then those that took part once and were removed."""
        named = [environment.name for environment in self.federation.spec.environments]
        known = {name for entry in self.rounds for name in (*entry.scores, *entry.parts)}
        return (*named, *sorted(known - set(named)))

    def world(self, environment: str) -> str:
        """The world that an environment plays; empty when it left the spec."""
        specs = self.federation.spec.environments
        return next((one.world for one in specs if one.name == environment), "")

    @property
    def evaluated(self) -> tuple[Round, ...]:
        """Rounds whose adapter was evaluated."""
        return tuple(entry for entry in self.rounds if entry.scores)

    @property
    def played(self) -> tuple[Round, ...]:
        """Rounds with facts about what the environments did."""
        return tuple(entry for entry in self.rounds if entry.parts)

    @property
    def base(self) -> Round | None:
        """The base before any training."""
        return next((entry for entry in self.evaluated if entry.number == 0), None)

    @property
    def last(self) -> Round | None:
        """The newest evaluated adapter that counts; the base alone is no last one."""
        strategy = self.federation.spec.aggregation.strategy
        newest = apart.find_newest_round(self.federation.status, strategy)
        counted = [entry for entry in self.evaluated if 0 < entry.number <= newest]
        kept = (entry for entry in reversed(counted) if entry.outcome not in guard.GONE)
        return next(kept, None)

    @property
    def comparison(self) -> ScoreChange | None:
        """Base and last adapter, where both were evaluated in the same environments."""
        if self.base is None or self.last is None:
            return None
        return compare_scores(self.base.scores, self.last.scores)

    @property
    def best(self) -> Round | None:
        """The adapter that the status calls best, or the earliest of the highest mean."""
        best = self.federation.status.best
        for entry in self.evaluated:
            if best and entry.number == best.round:
                return entry
        return max(self.evaluated, key=_rank_by_success, default=None)

    def total(self, count: str) -> int:
        """A count over all rounds and environments."""
        return sum(entry.total(count) for entry in self.rounds)


def _rank_by_success(entry: Round) -> tuple[float, int]:
    success = entry.success
    return (success.value if success else -1.0, -entry.number)


def sort_phases(seconds: Iterable[dict[str, float]], order: tuple[str, ...]) -> list[str]:
    """Phases that occur, the known ones in the order they happen and the others after them."""
    known = {phase for one in seconds for phase in one}
    return [*(one for one in order if one in known), *sorted(known - set(order))]
