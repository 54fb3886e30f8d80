"""spec.privacy as data: what a silo may give away of one record, and how training keeps to it.

Whatever else could tell of a record is refused here, so that no such spec ever runs.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hansa.base import Model
from hansa.privacy import accountant

if TYPE_CHECKING:
    from hansa.spec import Adapter, Environment, Experience, Exploration, FederationSpec
    from hansa.status import RoundSettings
    from hansa.storage import Storage

Unit = Literal["task", "trajectory"]
LEARNERS = frozenset({"success-sft", "reward-weighted"})
"""Learners whose examples are one trajectory each."""


class Privacy(Model):
    """Record-level differential privacy inside each silo, by DP-SGD; absent: none."""

    unit: Unit = "task"
    """What is protected: all trajectories of a task in all rounds, or one trajectory."""
    epsilon: Annotated[float, Field(gt=0, le=1000)]
    """The most that a silo gives away of one unit in the whole run."""
    delta: Annotated[float, Field(gt=0, le=0.1)]
    """Chance with which epsilon may not hold; below one in the number of a silo's units."""
    clip_norm: Annotated[float, Field(gt=0, le=1000)] = 0.5
    """Most that the gradient of one trajectory counts in a step."""
    noise_multiplier: Annotated[float, Field(ge=0.01, le=accountant.MOST_NOISE)] | None = None
    """Noise of a step in units of clipNorm; absent: the least with which all rounds cost no more
    than epsilon."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Chance with which a unit takes part in a step, drawn in secret."""
    evaluation_noise: Annotated[float, Field(ge=0.01, le=accountant.MOST_NOISE)] = 4.0
    """Noise of each reported number of held-out successes, in tasks."""

    def slots(
        self,
        exploration: "Exploration",
        experience: "Experience",
        demonstrations: int,
        rounds: int,
    ) -> int:
        """Units that a silo may have after so many rounds: public, whatever it has explored."""
        each = exploration.samples_per_task if self.unit == "trajectory" else 1
        explored = exploration.tasks_per_round * each * (rounds if experience.history else 1)
        return max(1, demonstrations + explored)

    def noise(self, steps: int) -> float | None:
        """The noise multiplier for so many steps of all rounds; None: none is large enough."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        return accountant.noise_for(self.sampling_rate, steps, self.epsilon, self.delta)

    def fixed(self, spec: "FederationSpec") -> "Privacy":
        """The settings of a round, with the noise multiplier that the spec's rounds need."""
        noise = self.noise(spec.rounds * spec.training.max_steps)
        return self.model_copy(update={"noise_multiplier": noise})


class Statement(Model):
    """What an update says of its own privacy: the silo's word, which nobody else can check."""

    unit: Unit
    """What is protected."""
    epsilon: Annotated[float, Field(ge=0, le=1e9)]
    """What the silo has given away of one unit so far, this update included."""
    delta: Annotated[float, Field(gt=0, le=1)]
    """Chance with which it may not hold."""
    noise_multiplier: Annotated[float, Field(gt=0)]
    """Noise of each step in units of the clip norm."""
    clip_norm: Annotated[float, Field(gt=0)]
    """Most that one trajectory's gradient counted."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    """Chance with which a unit took part in a step."""
    steps: Annotated[int, Field(ge=1)]
    """Steps of this round."""
    rounds: Annotated[int, Field(ge=1)]
    """Rounds that were paid for, this one included."""
    accountant: Annotated[str, Field(max_length=20)] = accountant.NAME
    """How epsilon was computed."""

    def follows(self, privacy: Privacy, steps: int) -> bool:
        """Whether it is what the settings of a round ask for."""
        return (
            self.unit == privacy.unit
            and self.noise_multiplier == privacy.noise_multiplier
            and self.clip_norm == privacy.clip_norm
            and self.sampling_rate == privacy.sampling_rate
            and self.steps == steps
            and self.delta <= privacy.delta
            and self.epsilon <= privacy.epsilon
        )


def evaluations(spec: "FederationSpec") -> int:
    """Times that a run's held-out tasks are reported: the base, those that are due, the last."""
    due = [start for start in range(spec.rounds) if spec.evaluation.is_due(start)]
    return len(due) + 1


def check(spec: "FederationSpec") -> None:
    """Refuse what would tell of a record beside the noise, or costs more than it may."""
    privacy = spec.privacy
    if privacy is None:
        return
    for index, environment in enumerate(spec.environments):
        if environment.member is None:
            _check_store(environment.experience_storage, spec.storage, index)
    if spec.storage is None:
        raise ValueError(
            "storage: got nothing, expected a store with privacy: the one that `hansa run` starts "
            "would hold the trajectories of all silos, too"
        )
    check_fits(privacy, spec, spec.adapter)
    _check_delta(spec, privacy)
    _check_cost(spec, privacy)


def _check_store(private: "Storage | None", shared: "Storage | None", index: int) -> None:
    where = f"environments[{index}].experienceStorage"
    if private is None:
        raise ValueError(
            f"{where}: got nothing, expected a private store: with privacy it holds the "
            "trajectories and the keys of the noise, and whoever reads those needs no update"
        )
    places = [(s.s3.endpoint, s.s3.bucket) for s in (private, shared) if s]
    if len(set(places)) < len(places):
        raise ValueError(
            f"{where}.s3.bucket: got {private.s3.bucket}, where updates are exchanged, expected "
            "another bucket or endpoint: with privacy it must be the silo's alone"
        )


def check_fits(
    privacy: Privacy, spec: "FederationSpec | RoundSettings", adapter: "Adapter"
) -> None:
    """Refuse settings under which something else would tell of a record; clients ask it again."""
    for path, came, fits, why in (*_learning_misfits(privacy, spec), *_telling_misfits(spec)):
        if came:
            raise ValueError(f"{path}: got {came}, expected {fits} with privacy: {why}")
    if adapter.dropout:
        raise ValueError(
            f"adapter.dropout: got {adapter.dropout:g}, expected 0 with privacy: its random "
            "numbers would go on from one trajectory to the next"
        )


Misfit = tuple[str, str, str, str]
"""A field, what came where that does not fit, what fits, and why."""


def _learning_misfits(privacy: Privacy, spec: "FederationSpec | RoundSettings") -> list[Misfit]:
    """Settings by which one record changes how others are learned from."""
    learner, experience = spec.training.learner, spec.experience
    per_task = experience.per_task if privacy.unit == "trajectory" else 0
    return [
        (
            "training.learner",
            "" if learner in LEARNERS else learner,
            "success-sft or reward-weighted",
            "an example of the others is several trajectories",
        ),
        (
            "training.maxSteps",
            "" if spec.training.max_steps else "0",
            "1 or more",
            "a number that follows from the experience would tell of it",
        ),
        (
            "experience.maxTrajectories",
            str(experience.max_trajectories or ""),
            "0",
            "one trajectory would push another out",
        ),
        (
            "experience.perTask",
            str(per_task or ""),
            "0",
            "one trajectory would push another out of its task; unit task allows it",
        ),
    ]


def _telling_misfits(spec: "FederationSpec | RoundSettings") -> list[Misfit]:
    """Settings by which a silo tells more than its update and its noised evaluation."""
    strategy, personal = spec.aggregation.strategy, spec.personalization
    measured = {
        "ownUpdate": spec.evaluation.own_update,
        "greedy": spec.evaluation.greedy,
        "alone": spec.evaluation.alone,
    }
    silent = {
        "regmean": "moments are sent without noise",
        "weighted-mean": "counts are not sent",
    }
    return [
        (
            "aggregation.strategy",
            strategy if strategy in silent else "",
            "another",
            silent.get(strategy, ""),
        ),
        (
            "personalization",
            personal if personal != "none" else "",
            "none",
            "what is chosen, and its figures, would be told",
        ),
        (
            "probes",
            str(len(spec.probes or []) or ""),
            "none",
            "a world that a silo's package brings may play the silo's own records",
        ),
        *(
            (f"evaluation.{name}", "true" if is_on else "", "false", "each figure is paid for")
            for name, is_on in measured.items()
        ),
    ]


def _check_delta(spec: "FederationSpec", privacy: Privacy) -> None:
    for environment in spec.environments:
        most = units(spec, privacy, environment)
        if privacy.delta >= 1 / most:
            raise ValueError(
                f"privacy.delta: got {privacy.delta:g}, expected less than one in the {most} "
                f"{privacy.unit}s that {environment.name} may have ({1 / most:.2g}): a larger one "
                "would allow to give whole records away"
            )


def units(spec: "FederationSpec", privacy: Privacy, environment: "Environment") -> int:
    """Units of one silo at the end of a run, at most."""
    own = environment.demonstrations
    shown = spec.experience.demonstrations if own is None else own
    return privacy.slots(spec.exploration, spec.experience, shown, spec.rounds)


def _check_cost(spec: "FederationSpec", privacy: Privacy) -> None:
    """All rounds must fit into the budget: else every silo would be left out of the last ones."""
    rate, delta, steps = privacy.sampling_rate, privacy.delta, spec.training.max_steps
    noise = privacy.noise(spec.rounds * steps)
    if noise is None:
        raise ValueError(
            f"privacy.epsilon: got {privacy.epsilon:g}, for which no noise is enough in "
            f"{spec.rounds} rounds of {steps} steps, expected more, or fewer steps"
        )
    measured = accountant.spent(1.0, privacy.evaluation_noise, evaluations(spec), delta)
    if measured > privacy.epsilon:
        least = accountant.noise_for(1.0, evaluations(spec), privacy.epsilon, delta)
        raise ValueError(
            f"privacy.evaluationNoise: got {privacy.evaluation_noise:g}, with which "
            f"{evaluations(spec)} evaluations cost an epsilon of {measured:.3g}, expected "
            f"{least} or more, or privacy.epsilon {measured:.3g} or more"
        )
    costs = [(accountant.step_costs(rate, noise), spec.rounds * steps)]
    if names_tasks(spec):
        costs.append((accountant.step_costs(1.0, privacy.evaluation_noise), evaluations(spec)))
    trained = accountant.epsilon(accountant.total(costs), delta)
    if trained > privacy.epsilon:
        raise ValueError(
            f"privacy.epsilon: got {privacy.epsilon:g}, and {spec.rounds} rounds of {steps} steps "
            f"with noise {noise:g} cost {trained:.3g}, expected {trained:.3g} or more, a larger "
            "privacy.noiseMultiplier, or fewer steps"
        )


def names_tasks(spec: "FederationSpec") -> bool:
    """Whether files of demonstrations may hold held-out tasks: then their costs add up."""
    own = any(environment.demonstrations_from for environment in spec.environments)
    return own or spec.experience.demonstrations_from is not None
