"""Assignments of a silo's own programs: its courier, and the client that works on an order.

The assignment itself is too large for a report, so the operator never sees it: the courier tells
which order there is and what the silo's limits say of it, and the client reads the order itself.
"""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api.bucket_documents import Count
from hansa.api.constants import Trouble
from hansa.api.exchange import Cursor
from hansa.api.letters import Reference
from hansa.api.member_spec import MemberSpec
from hansa.api.member_status import OrderSummary, PendingLetter, SiloUsage
from hansa.core.model import Model, Sha256OrEmpty

LONGEST_MESSAGE = 300
"""Characters of a sentence in a report."""


class SiloCourierAssignment(Model):
    """What a silo's courier does: post, listen for a newer order, judge it, and end."""

    version: Literal[1] = 1
    """Version of this document."""
    role: Literal["courier"] = "courier"
    """What it does."""
    side: Literal["silo"] = "silo"
    """Whose letters it posts."""
    member: MemberSpec
    """Whose courier it is, and what its owner allows."""
    usage: SiloUsage
    """What the silo has used so far."""
    sent: Cursor
    """Its newest letter."""
    received: Cursor
    """How far the orders were read."""
    order: Reference | None = None
    """The newest among them, which must be there as it was."""
    post: Annotated[list[PendingLetter], Field(max_length=20)] = Field(default_factory=list)
    """Letters to post, in order."""


class SiloClientAssignment(Model):
    """What a silo's client does: read the order, judge it again, and carry it out."""

    version: Literal[1] = 1
    """Version of this document."""
    role: Literal["client", "evaluate"]
    """What it does."""
    order: Reference
    """Which order."""
    member: MemberSpec
    """What the silo's owner says and allows; the order leaves all of that open."""
    usage: SiloUsage
    """What the silo has used before this order."""
    answered: Sha256OrEmpty = ""
    """Digest of the update that it answered with in the order's round; empty: it knows of none."""


class NewestOrder(OrderSummary):
    """The newest order, as a courier's report has room for it."""

    path: Annotated[str, Field(max_length=100)] = ""
    """Field that they do not allow."""
    message: Annotated[str, Field(max_length=LONGEST_MESSAGE)] = ""
    """The sentence for the silo's own people; it names the limit, and is never posted."""


class SiloReport(Model):
    """What a silo's courier posted and read."""

    kind: Literal["silo"] = "silo"
    """Which report this is."""
    sent: Cursor | None = None
    """Its newest letter, where something was posted."""
    posted: Count = 0
    """How many of the letters to post are in the bucket."""
    received: Cursor | None = None
    """How far the orders were read, where that moved."""
    newest: NewestOrder | None = None
    """The newest order among them."""
    faults: list[tuple[Annotated[str, Field(pattern=r"^[a-z-]{1,30}$")], Count]] = Field(
        default_factory=list, max_length=20
    )
    """What else was in the log, and how often."""
    ahead: bool = False
    """Whether the silo's own log has letters that its status does not know."""
    trouble: Trouble | Literal[""] = ""
    """Why letters can be neither posted nor read; of a courier that failed."""
    message: Annotated[str, Field(max_length=LONGEST_MESSAGE)] = ""
    """The same as a sentence."""
