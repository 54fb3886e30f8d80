"""What spec.privacy forbids in the rest of a spec: whatever would tell of a record.

Such a spec is refused, so it never runs.
"""

from pydantic.alias_generators import to_camel

from hansa.api import dp_accountant, learners, strategies
from hansa.api.privacy import Privacy
from hansa.api.spec_fields import Adapter, Environment, RoundSettings, SpecFields
from hansa.api.storage import Storage


def count_evaluations(spec: SpecFields) -> int:
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
    learner, strategy = spec.training.learner, spec.aggregation.strategy
    if why := learners.entry(learner).not_private:
        fits = " or ".join(name for name, each in learners.BUILTIN.items() if not each.not_private)
        raise _misfit("training.learner", learner, fits, why)
    if not spec.training.max_steps:
        why = "a number that follows from the experience would tell of it"
        raise _misfit("training.maxSteps", 0, "1 or more", why)
    if most := spec.experience.max_trajectories:
        why = "one trajectory would push another out"
        raise _misfit("experience.maxTrajectories", most, "0", why)
    if spec.experience.per_task and privacy.unit == "trajectory":
        why = "one trajectory would push another out of its task; unit task allows it"
        raise _misfit("experience.perTask", spec.experience.per_task, "0", why)
    if why := strategies.entry(strategy).not_private:
        raise _misfit("aggregation.strategy", strategy, "another", why)
    if spec.personalization != "none":
        why = "what is chosen, and its figures, would be reported"
        raise _misfit("personalization", spec.personalization, "none", why)
    if spec.probes:
        why = "a world that a silo's package brings may play the silo's own records"
        raise _misfit("probes", len(spec.probes), "none", why)
    for name in ("own_update", "greedy", "alone"):
        if getattr(spec.evaluation, name):
            path = f"evaluation.{to_camel(name)}"
            raise _misfit(path, "true", "false", "each figure is paid for")
    if adapter.dropout:
        why = "its random numbers would carry over from one trajectory to the next"
        raise _misfit("adapter.dropout", f"{adapter.dropout:g}", "0", why)


def _misfit(path: str, came: object, fits: str, why: str) -> ValueError:
    return ValueError(f"{path}: got {came}, expected {fits} with privacy: {why}")


def _check_delta(spec: SpecFields, privacy: Privacy) -> None:
    for environment in spec.environments:
        most = max_units(spec, privacy, environment)
        if privacy.delta >= 1 / most:
            raise ValueError(
                f"privacy.delta: got {privacy.delta:g}, expected less than one in the {most} "
                f"{privacy.unit}s that {environment.name} may have ({1 / most:.2g}): a larger one "
                "would allow to give whole records away"
            )


def max_units(spec: SpecFields, privacy: Privacy, environment: Environment) -> int:
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
    measured = dp_accountant.spent_epsilon(
        1.0, privacy.evaluation_noise, count_evaluations(spec), delta
    )
    if measured > privacy.epsilon:
        least = dp_accountant.find_noise(1.0, count_evaluations(spec), privacy.epsilon, delta)
        raise ValueError(
            f"privacy.evaluationNoise: got {privacy.evaluation_noise:g}, with which "
            f"{count_evaluations(spec)} evaluations cost an epsilon of {measured:.3g}, expected "
            f"{least} or more, or privacy.epsilon {measured:.3g} or more"
        )
    costs = [(dp_accountant.step_costs(rate, noise), spec.rounds * steps)]
    if may_share_records(spec):
        costs.append(
            (dp_accountant.step_costs(1.0, privacy.evaluation_noise), count_evaluations(spec))
        )
    trained = dp_accountant.epsilon(dp_accountant.sum_costs(costs), delta)
    if trained > privacy.epsilon:
        raise ValueError(
            f"privacy.epsilon: got {privacy.epsilon:g}, and {spec.rounds} rounds of {steps} steps "
            f"with noise {noise:g} cost {trained:.3g}, expected {trained:.3g} or more, a larger "
            "privacy.noiseMultiplier, or fewer steps"
        )


def may_share_records(spec: SpecFields) -> bool:
    """Whether files of demonstrations may hold held-out tasks: then their costs add up."""
    own = any(environment.demonstrations_from for environment in spec.environments)
    return own or spec.experience.demonstrations_from is not None
