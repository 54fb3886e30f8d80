"""Signed letters against the audit log: which entries orders vouch for, which updates answers.

An order vouches for the entry that it names and, by the chain, for all before it. An entry that no
order names is found as soon as a later order was written: somebody else has put it there, or an
aggregator that a rollback ended too late, whose entry the next order vouches for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hansa.members.correspondence import Correspondence
from hansa.store.audit_log import AuditEntry


@dataclass(frozen=True, kw_only=True)
class Link:
    """An entry as it is stored."""

    entry: AuditEntry | None
    """What it says; None where it cannot be read."""
    sha256: str
    """Digest of its bytes."""


def find_signed_rounds(letters: Sequence[Correspondence], log: Mapping[int, Link]) -> set[int]:
    """Rounds whose entries are named by orders, and all rounds before them in the chain."""
    signed: set[int] = set()
    heads = [order.head for silo in letters for order in silo.vouched]
    for head in heads:
        while head and head.round not in signed:
            link = log.get(head.round)
            if not link or not link.entry or link.sha256 != head.sha256:
                break
            signed.add(head.round)
            head = link.entry.previous
    return signed


def find_contradicting_order(letters: Sequence[Correspondence], round_: int) -> str:
    """The newest order that would have named an entry of this round, had there been one."""
    for silo in letters:
        newest = silo.vouched[-1] if silo.vouched else None
        if newest and newest.before is not None and round_ < newest.before:
            return f"order {newest.serial} to {silo.environment}"
    return ""


def explain_unanswered(
    letters: Sequence[Correspondence], environment: str, round_: int, manifest: str
) -> tuple[str, bool]:
    """Why a silo's letters do not confirm its update, and whether that is certain."""
    silo = next((each for each in letters if each.environment == environment), None)
    if silo is None or manifest in silo.updates.get(round_, ()):
        return "", False
    if silo.denied:
        return f"letters of {environment}: {silo.denied}", False
    why = f"{environment} has signed no answer with the update that the entry names"
    if silo.has_unknown_keys:
        return f"{why}; answers are signed by keys that the manifest does not name", False
    return why, True
