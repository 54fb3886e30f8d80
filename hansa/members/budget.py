"""How much an order asks for, and how much a silo's owner allows in all."""

from typing import Any

from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import fingerprint
from hansa.api.member_spec import MemberSpec
from hansa.api.ownership import Owner, get_alias, list_fields
from hansa.api.spec import Evaluation
from hansa.api.status import RoundSettings

MIXES = 4
"""Candidates of personalisation beside the global adapter: the silo's own update, three mixes."""
_CHANGES_NO_EPISODE = {
    *(get_alias(Assignment, name) for name in list_fields(Assignment, Owner.AGGREGATOR)),
    *("masking", "evaluate"),
}
"""Fields without which an order is the same work: masks are made again of the same update."""


def count_episodes(order: Assignment) -> int:
    """The most episodes that an order can ask for: explored, evaluated, tried."""
    rounds = max(order.round, order.start.round)
    return _count(order.settings, order.role == "evaluate", rounds, order.alone_rounds)


def compute_most_episodes(member: MemberSpec) -> int:
    """Episodes that the owner allows: by default those of the agreed rounds and one evaluation."""
    if member.limits.episodes:
        return member.limits.episodes
    rounds, settings = int(member.most_rounds), _allow_most(member)
    alone = rounds if settings.evaluation.alone else 0
    return rounds * _count(settings, False, 0, 0) + _count(settings, True, rounds, alone)


def identify_work(order: Assignment) -> str:
    """The same for each order that asks for the same work: what was answered is played once."""
    document = order.to_json()
    return fingerprint({k: v for k, v in document.items() if k not in _CHANGES_NO_EPISODE})


def _count(settings: RoundSettings, is_evaluation: bool, rounds: int, alone_rounds: int) -> int:
    explored = settings.exploration.tasks_per_round * settings.exploration.samples_per_task
    test, validation = _count_measured(settings.evaluation)
    probed = sum(probe.episodes for probe in settings.probes or ())
    once = test + validation + probed
    if not is_evaluation:
        return once + explored + (test + validation if settings.evaluation.own_update else 0)
    alone = alone_rounds * explored + test if alone_rounds else 0
    if settings.personalization == "none":
        return once + alone
    trains = settings.personalization in ("finetune", "best")
    mixes = settings.personalization in ("interpolate", "best")
    candidates = 1 + mixes * MIXES + trains * rounds + bool(alone_rounds)
    tried = validation or settings.evaluation.tasks * settings.evaluation.samples_per_task
    return once + alone + candidates * tried + test + trains * rounds * explored


def _count_measured(evaluation: Evaluation) -> tuple[int, int]:
    samples = evaluation.samples_per_task
    greedy = evaluation.tasks if evaluation.greedy else 0
    return evaluation.tasks * samples + greedy, (evaluation.validation_tasks or 0) * samples


def _allow_most(member: MemberSpec) -> RoundSettings:
    """The agreed settings with the numbers up to which the owner lets an order go."""
    document: dict[str, Any] = member.agreed.to_json()
    for path, most in member.limits.most.items():
        *parents, last = path.split(".")
        spot: Any = document
        for part in parents:
            spot = spot.setdefault(part, {})
        if isinstance(spot, dict) and most == int(most):
            spot[last] = int(most)
    try:
        return RoundSettings.model_validate(document["settings"])
    except ValueError:  # numbers that no order can have
        return member.agreed.settings
