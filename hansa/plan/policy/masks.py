"""Peers of secure aggregation in a round, and in the next epoch after a silo dropped out."""

from collections.abc import Container, Iterable

from hansa.api.assignment import AggregatorReport
from hansa.api.secure_aggregation import EPOCHS, LEAST, Masking
from hansa.api.spec import Environment, FederationSpec
from hansa.api.status import CurrentRound


def open_masks(spec: FederationSpec, there: Iterable[Environment]) -> Masking | None:
    """The masks that a round opens with: all against all; None: the spec asks for none."""
    if spec.aggregation.secure is None:
        return None
    keys = {e.name: e.masking_key for e in there if e.masking_key}
    return Masking(peers=dict(sorted(keys.items())))


def find_remaining(current: CurrentRound, report: AggregatorReport) -> frozenset[str] | None:
    """Who masks again by a report; None: no such report can be of this round.

    The remaining silos must be a strict subset of the peers: a second sum of the same silos would
    reveal more than one.
    """
    if current.masking is None or not report.is_about(current.round, len(current.environments)):
        return None
    names = frozenset(current.environments[index].name for index in report.remaining)
    return names if names < current.masking.peers.keys() and len(names) >= LEAST else None


def start_next_epoch(masking: Masking, names: Container[str]) -> Masking:
    """The masks of the next epoch."""
    peers = {name: key for name, key in masking.peers.items() if name in names}
    return Masking(epoch=masking.epoch + 1, peers=peers)


def count_answers(current: CurrentRound) -> tuple[int, int]:
    """How many of a round have sent an update to merge, and how many answered without.

    Under masks, fewer updates than a sum needs are none: they are kept, and learned from later.
    """
    states = [e.state for e in current.environments]
    updated, empty = states.count("Updated"), states.count("Empty")
    return (0, updated + empty) if _is_too_little(current, updated) else (updated, empty)


def describe_stage(current: CurrentRound) -> str:
    """What a round that is open does beside waiting, as words before that."""
    again = current.masking is not None and current.masking.epoch
    return f"masks its updates again ({again} of {EPOCHS - 1}) and " if again else ""


def explain_empty(current: CurrentRound) -> str:
    """Why a round that was answered has nothing to merge."""
    updated = sum(e.state == "Updated" for e in current.environments)
    if updated and _is_too_little(current, updated):
        return f"{updated} had something to learn from, and a masked sum needs {LEAST}"
    return "no successful trajectory yet"


def _is_too_little(current: CurrentRound, updated: int) -> bool:
    return current.masking is not None and updated < LEAST
