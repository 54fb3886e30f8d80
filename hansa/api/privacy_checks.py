"""What spec.privacy forbids in the rest of a spec: whatever would tell of a record.

Such a spec is refused, so it never runs.
"""

from hansa.api import dp_accountant
from hansa.api.privacy import LEARNERS, Privacy
from hansa.api.round_settings import RoundSettings
from hansa.api.spec_fields import Adapter, Environment, SpecFields
from hansa.api.storage import Storage


def evaluations(spec: SpecFields) -> int:
    """Times that a run's held-out tasks are reported: the base, those that are due, the last."""
    due = [start for start in range(spec.rounds) if spec.evaluation.is_due(start)]
    return len(due) + 1


def check(spec: SpecFields) -> None:
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


def _check_store(private: Storage | None, shared: Storage | None, index: int) -> None:
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


def check_fits(privacy: Privacy, spec: SpecFields | RoundSettings, adapter: Adapter) -> None:
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


def _learning_misfits(privacy: Privacy, spec: SpecFields | RoundSettings) -> list[Misfit]:
    """Settings by which one record changes how others are learned from."""
    learner, experience = spec.training.learner, spec.experience
    per_task = experience.per_task if privacy.unit == "trajectory" else 0
    return [
        (
            "training.learner",
            "" if learner in LEARNERS else learner,
            "success-sft or reward-weighted",
            "an example of another learner may be several trajectories",
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


def _telling_misfits(spec: SpecFields | RoundSettings) -> list[Misfit]:
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


def _check_delta(spec: SpecFields, privacy: Privacy) -> None:
    for environment in spec.environments:
        most = units(spec, privacy, environment)
        if privacy.delta >= 1 / most:
            raise ValueError(
                f"privacy.delta: got {privacy.delta:g}, expected less than one in the {most} "
                f"{privacy.unit}s that {environment.name} may have ({1 / most:.2g}): a larger one "
                "would allow to give whole records away"
            )


def units(spec: SpecFields, privacy: Privacy, environment: Environment) -> int:
    """Units of one silo at the end of a run, at most."""
    own = environment.demonstrations
    shown = spec.experience.demonstrations if own is None else own
    return privacy.slots(spec.exploration, spec.experience, shown, spec.rounds)


def _check_cost(spec: SpecFields, privacy: Privacy) -> None:
    """All rounds must fit into the budget: else every silo would be left out of the last ones."""
    rate, delta, steps = privacy.sampling_rate, privacy.delta, spec.training.max_steps
    noise = privacy.noise(spec.rounds * steps)
    if noise is None:
        raise ValueError(
            f"privacy.epsilon: got {privacy.epsilon:g}, for which no noise is enough in "
            f"{spec.rounds} rounds of {steps} steps, expected more, or fewer steps"
        )
    measured = dp_accountant.spent(1.0, privacy.evaluation_noise, evaluations(spec), delta)
    if measured > privacy.epsilon:
        least = dp_accountant.noise_for(1.0, evaluations(spec), privacy.epsilon, delta)
        raise ValueError(
            f"privacy.evaluationNoise: got {privacy.evaluation_noise:g}, with which "
            f"{evaluations(spec)} evaluations cost an epsilon of {measured:.3g}, expected "
            f"{least} or more, or privacy.epsilon {measured:.3g} or more"
        )
    costs = [(dp_accountant.step_costs(rate, noise), spec.rounds * steps)]
    if names_tasks(spec):
        costs.append((dp_accountant.step_costs(1.0, privacy.evaluation_noise), evaluations(spec)))
    trained = dp_accountant.epsilon(dp_accountant.total(costs), delta)
    if trained > privacy.epsilon:
        raise ValueError(
            f"privacy.epsilon: got {privacy.epsilon:g}, and {spec.rounds} rounds of {steps} steps "
            f"with noise {noise:g} cost {trained:.3g}, expected {trained:.3g} or more, a larger "
            "privacy.noiseMultiplier, or fewer steps"
        )


def names_tasks(spec: SpecFields) -> bool:
    """Whether files of demonstrations may hold held-out tasks: then their costs add up."""
    own = any(environment.demonstrations_from for environment in spec.environments)
    return own or spec.experience.demonstrations_from is not None
