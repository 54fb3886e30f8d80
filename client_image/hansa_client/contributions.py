"""What the others' updates are worth to this silo: their merges, played with and without each.

All adapters play the silo's validation tasks with the same random numbers; nobody trains on those,
and nothing is reported on them. Task by task the results are the silo's own, and lie with its
experience; means over all rounds so far leave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

import hansa
from hansa import adapter, contributions, keys
from hansa.contributions import Subset, Subsets, Sums, TaskSums, Worth
from hansa.errors import Corrupt, NotFound
from hansa.manifest import GlobalManifest, canonical, check_same_run, fingerprint, sha256
from hansa.store.base import put_once
from hansa.store.documents import parse
from hansa_client.evaluation import by_task

if TYPE_CHECKING:
    from hansa.adapter import Tensors
    from hansa.assignment import Assignment
    from hansa_client.agent import Agent
    from hansa_client.silo import Silo
    from hansa_client.trajectory import Episode

Rates = Mapping[str, float]
"""Success on each task."""


def measure(silo: Silo, agent: Agent, played: Sequence[Episode]) -> dict[str, Worth] | None:
    """What each other silo's updates are worth here; `played` is what the merge of all did.

    Nothing where that is not asked for, or where the merges are gone: a later round was made.
    """
    assignment = silo.assignment
    made = find(silo)
    if made is None or made.subsets is None:
        return None
    subsets = made.subsets
    stored = _find(silo, assignment.start.round)
    if stored is None:
        rates = _play_all(silo, agent, made, subsets, played)
        if rates is None:
            return None
        gained = values(subsets, rates, assignment.environment)
        stored = _store(silo, subsets, contributions.add(_so_far(silo, subsets), gained))
    each = {name: contributions.worth(tasks) for name, tasks in stored.sums.items()}
    silo.log.info("contributions_measured", method=subsets.method, silos=len(each))
    return {name: worth for name, worth in each.items() if worth}


def _play_all(
    silo: Silo, agent: Agent, made: GlobalManifest, subsets: Subsets, played: Sequence[Episode]
) -> dict[frozenset[str], Rates] | None:
    """Success of every merge that this silo plays, by the updates in it."""
    rates: dict[frozenset[str], Rates] = {frozenset(_every(subsets)): _rates(played)}
    mine = contributions.played_by(silo.assignment.environment, subsets)
    try:
        for number, subset in enumerate(subsets.adapters):
            if subset in mine:
                tensors = _merge_of(silo, subset, number)
                rates[frozenset(subset.members)] = _play(silo, agent, tensors)
        if subsets.method == "shapley":
            rates[frozenset()] = _play(silo, agent, _before(silo, agent, made))
    except NotFound as error:
        silo.log.warning("subsets_gone", message=error.message)
        return None
    return rates


def find(silo: Silo) -> GlobalManifest | None:
    """The manifest of the start adapter, where its merge is to be taken apart."""
    assignment = silo.assignment
    asked = assignment.settings.evaluation.contributions
    if asked is None or not assignment.start.round or assignment.own_start or silo.is_private:
        return None
    folder = keys.global_folder(assignment.storage.prefix, assignment.start.round)
    made = parse(GlobalManifest, folder + keys.MANIFEST, silo.exchange.get(folder + keys.MANIFEST))
    entry = made.files.get(keys.ADAPTER)
    if entry is None or entry.sha256 != assignment.start.sha256:
        raise Corrupt(f"{folder}{keys.MANIFEST}: got another adapter's than the round starts from")
    return made


def values(
    subsets: Subsets, rates: Mapping[frozenset[str], Rates], own: str
) -> dict[str, dict[str, float]]:
    """By task and silo, for the tasks that every merge has played; nobody measures itself."""
    known = set.intersection(*(set(each) for each in rates.values()))
    every = _every(subsets)
    gained: dict[str, dict[str, float]] = {}
    for task in sorted(known):

        def utility(members: frozenset[str], task: str = task) -> float:
            return rates[members][task]

        if subsets.method == "shapley":
            of_task = contributions.shapley(subsets.orders, utility)
        else:
            of_task = contributions.leave_one_out(every, utility, own)
        gained[task] = {name: value for name, value in of_task.items() if name != own}
    return gained


def _every(subsets: Subsets) -> list[str]:
    return sorted({name for each in subsets.adapters for name in each.members})


def _rates(played: Sequence[Episode]) -> dict[str, float]:
    return {task: won / count for task, (won, count) in by_task(played).items()}


def _play(silo: Silo, agent: Agent, tensors: Tensors) -> dict[str, float]:
    wanted = silo.assignment.settings.evaluation.validation_tasks
    return _rates(silo.play_held_out(agent, "validation", wanted, tensors=tensors).episodes)


def _merge_of(silo: Silo, subset: Subset, number: int) -> Tensors:
    assignment = silo.assignment
    key = keys.subset(assignment.storage.prefix, assignment.start.round, number)
    if silo.exchange.size(key) != subset.size:
        raise Corrupt(f"{key}: expected {subset.size} bytes as its manifest says")
    return _checked(key, silo.exchange.get(key), subset.sha256)


def _before(silo: Silo, agent: Agent, made: GlobalManifest) -> Tensors:
    """The adapter that none of the round's updates are in: the one that it started from."""
    assignment, start = silo.assignment, made.start
    if not start.round:
        return adapter.start(agent.shapes, assignment.adapter.rank, assignment.seed)
    key = keys.global_folder(assignment.storage.prefix, start.round) + keys.ADAPTER
    return _checked(key, silo.exchange.get(key), start.sha256)


def _checked(key: str, data: bytes, digest: str) -> Tensors:
    if sha256(data) != digest:
        raise Corrupt(f"{key}: got other bytes than its manifest names")
    return adapter.decode(data)


# -- the rounds so far ----------------------------------------------------------------------------


def _so_far(silo: Silo, subsets: Subsets) -> Sums:
    """What earlier rounds have found, by the newest document of them; another method's is none."""
    assignment, prefix = silo.assignment, silo.assignment.private_storage.prefix
    root = keys.contribution_root(prefix, assignment.environment)
    rounds = [keys.number(root, key) or 0 for key in silo.private.list(root)]
    earlier = [round_ for round_ in rounds if 0 < round_ < assignment.start.round]
    if not earlier:
        return {}
    before = _find(silo, max(earlier))
    return before.sums if before and before.method == subsets.method else {}


def _find(silo: Silo, round_: int) -> TaskSums | None:
    """What was measured with the adapter of a round, by this attempt or by one before it."""
    place = silo.assignment.private_storage
    key = keys.contribution_tasks(place.prefix, silo.assignment.environment, round_)
    try:
        return _parsed(silo.assignment, key, silo.private.get(key))
    except NotFound:
        return None


def _store(silo: Silo, subsets: Subsets, sums: Sums) -> TaskSums:
    """The sums as they are stored, by this attempt or by one before it."""
    assignment, place = silo.assignment, silo.assignment.private_storage
    key = keys.contribution_tasks(place.prefix, assignment.environment, assignment.start.round)
    inputs = {**assignment.evaluation_inputs(), "adapter_sha256": assignment.start.sha256}
    own = TaskSums(
        program=hansa.__version__,
        fingerprint=fingerprint(inputs),
        inputs=inputs,
        method=subsets.method,
        sums=sums,
    )
    return _parsed(assignment, key, put_once(silo.private, key, canonical(own.to_json())))


def _parsed(assignment: Assignment, key: str, data: bytes) -> TaskSums:
    try:
        document = TaskSums.model_validate_json(data)
    except ValidationError:
        raise Corrupt(f"{key}: expected what updates are worth, got something else") from None
    own = [*assignment.identity(), "environment", "world"]
    ours = assignment.evaluation_inputs()
    theirs = {name: document.inputs.get(name) for name in own}
    check_same_run(assignment.private_storage.prefix, theirs, {name: ours[name] for name in own})
    return document
