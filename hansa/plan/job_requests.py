"""Assignments of the open round, from the spec and the status."""

from typing import Any

from hansa.api.assignment import Assignment
from hansa.api.secure_aggregation import LEAST
from hansa.api.spec import FederationSpec
from hansa.api.status import CurrentRound, Federation
from hansa.core.errors import PermanentError
from hansa.plan.policy import quorum


def _collect_common_fields(federation: Federation, current: CurrentRound) -> dict[str, Any]:
    spec: FederationSpec = federation.spec
    if spec.storage is None:
        raise PermanentError("spec.storage: got nothing, expected storage.s3")
    return {
        "federation": federation.metadata.name,
        "seed": spec.seed,
        "model": spec.model,
        "adapter": spec.adapter,
        "round": current.round,
        "start": current.start,
        "settings": current.settings,
        "storage": spec.storage.s3,
        "environments": [e.name for e in current.environments],
        "masking": current.masking,
    }


def build_client_assignment(federation: Federation, current: CurrentRound, name: str) -> Assignment:
    """What the client of one environment does in the open round, or evaluates after the last."""
    frozen = next(e for e in current.environments if e.name == name)
    private = federation.spec.environment(name).experience_storage
    start = frozen.start or current.start
    is_again = current.masking is not None and current.masking.epoch > 0
    is_due = current.kind == "evaluate" or current.settings.evaluation.is_due(start.round)
    is_compared = current.kind == "evaluate" and current.settings.evaluation.alone
    return Assignment(
        **{**_collect_common_fields(federation, current), "start": start},
        own_start=frozen.start is not None,
        role="client" if current.kind == "round" else "evaluate",
        environment=name,
        world=frozen.world,
        options=frozen.options,
        demonstrations=frozen.demonstrations,
        demonstrations_from=frozen.demonstrations_from
        or current.settings.experience.demonstrations_from,
        experience_storage=private.s3 if private else None,
        endpoint=federation.spec.environment(name).endpoint,
        evaluate=is_due and not is_again,
        alone_rounds=federation.status.completed if is_compared else 0,
    )


def build_aggregator_assignment(federation: Federation, current: CurrentRound) -> Assignment:
    """What the aggregator of the open round merges; its members are frozen by then."""
    answered = sum(e.state == "Empty" for e in current.environments)
    minimum = quorum.compute_minimum(current)
    return Assignment(
        **_collect_common_fields(federation, current),
        role="aggregator",
        members=current.members or [],
        minimum=max(LEAST if current.masking else 1, minimum - answered),
    )
