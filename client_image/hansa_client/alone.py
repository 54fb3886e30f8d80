"""A silo alone: what it would have had without the others, trained anew from the base.

It is a federation of its own with the strategy `none`: the same program plays as many rounds with
the same settings and seeds, and each starts from the update before. It copies the silo's
demonstrations, so nothing is read that may have changed since. All objects lie in the private
store, written once and laid out like any federation's, and an attempt after a kill resumes there.

Limits: all rounds use the settings of the last round.
"""

import contextlib

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, Role
from hansa.api.bucket_documents import StartAdapter
from hansa.core.errors import Diverged, NotFound
from hansa.store.base import put_once
from hansa_client.experience.shards import DEMONSTRATIONS
from hansa_client.round import play_round
from hansa_client.silo import Silo


def is_wanted(assignment: Assignment) -> bool:
    """Whether the silo also evolves alone; with the strategy `none` it does so anyway."""
    return bool(assignment.alone_rounds) and not assignment.own_start


def evolve(silo: Silo) -> Silo:
    """The silo after its rounds alone, which produced its start adapter."""
    _copy_demonstrations(silo)
    start = StartAdapter()
    for round_ in range(1, silo.assignment.alone_rounds + 1):
        by_itself = silo.make_alone_silo(_make_assignment(silo.assignment, "client", round_, start))
        silo.log.info("evolving_alone", round=round_, of=silo.assignment.alone_rounds)
        try:
            report = play_round(by_itself)
        except Diverged as diverged:  # as in a federation, it is left out of that round
            silo.log.warning("round_alone_diverged", round=round_, message=diverged.message)
            continue
        if report.trained:
            start = StartAdapter(round=round_, sha256=report.adapter)
    return silo.make_alone_silo(_make_assignment(silo.assignment, "evaluate", start.round, start))


def _make_assignment(last: Assignment, role: Role, round_: int, start: StartAdapter) -> Assignment:
    """The assignment that the silo would have in a federation of its own."""
    private, settings = last.private_storage, last.settings
    prefix = bucket_keys.alone_prefix(private.prefix, last.environment, last.start.round)
    place = private.model_copy(update={"prefix": prefix})
    measured = {"alone": False, "own_update": False, "validation_tasks": 0}
    rules = {
        "evaluation": settings.evaluation.model_copy(update=measured),
        "aggregation": settings.aggregation.model_copy(
            update={"strategy": "none", "seal_to": None, "secure": None}
        ),
        "personalization": "none",
        "probes": None,
    }
    changes = {
        "role": role,
        "round": round_,
        "start": start,
        "own_start": bool(start.round),
        "settings": settings.model_copy(update=rules),
        "storage": place,
        "experience_storage": place if last.experience_storage else None,
        "evaluate": role == "evaluate",
        "alone_rounds": 0,
        "masking": None,
    }
    return last.model_copy(update=changes)


def _copy_demonstrations(silo: Silo) -> None:
    """Copy the silo's demonstrations; where it has none yet, the first round makes them."""
    last, store = silo.assignment, silo.private
    prefix, name = last.private_storage.prefix, last.environment
    place = bucket_keys.alone_prefix(prefix, name, last.start.round)
    with contextlib.suppress(NotFound):
        shown = store.get(bucket_keys.experience_shard(prefix, name, DEMONSTRATIONS))
        put_once(store, bucket_keys.experience_shard(place, name, DEMONSTRATIONS), shown)
