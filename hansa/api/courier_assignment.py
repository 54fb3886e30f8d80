"""A courier's assignment and its report: a part of the letters' contract, without any key.

A report has at most 4,096 bytes, so a courier with more news ends early. A lost report costs
nothing: the next courier reads from the same cursors.
"""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api.assignment import Assignment, ClientReport, EvaluateReport
from hansa.api.bucket_documents import AuditHead, Count, Sha256, StartAdapter
from hansa.api.exchange import Cursor, PollSeconds, PostedOrder, PublicKeys
from hansa.api.spec import S3, DnsName, FederationName, Seconds
from hansa.core.model import Model

ENV_SIGNING_KEY = "HANSA_SIGNING_KEY"
"""File with the courier's private key."""


class OrderDetails(Model):
    """What one silo's order has beside what all have."""

    start: StartAdapter
    """Adapter to start from, or to evaluate."""
    own_start: bool = False
    """Whether that is the silo's own update of that round."""
    demonstrations: Count | None = None
    """Its own number of demonstrations."""


class SiloMail(Model):
    """The two logs of one silo, and what is to be posted to it."""

    environment: DnsName
    """The silo."""
    public_keys: PublicKeys
    """Keys that may sign its answers."""
    sent: Cursor = Field(default_factory=Cursor)
    """Our newest letter to it."""
    received: Cursor = Field(default_factory=Cursor)
    """Its newest letter that was read."""
    work: OrderDetails | None = None
    """What the order has, where it is one to work."""
    order: PostedOrder | None = None
    """What to post, as the status will remember it; none: nothing."""


class CourierAssignment(Model):
    """What a coordinator's courier does: post, poll for answers, and end once there is news."""

    version: Literal[1] = 1
    """Version of this document."""
    role: Literal["courier"] = "courier"
    """What it does."""
    side: Literal["coordinator"] = "coordinator"
    """Whose letters it posts."""
    federation: FederationName
    """Name of the federation."""
    run: Sha256
    """The run whose letters count."""
    instance: str = ""
    """Random id of the coordinator's object, which its orders name."""
    storage: S3
    """The bucket."""
    public_keys: PublicKeys
    """The coordinator's own keys."""
    poll_seconds: PollSeconds
    """How often each log is asked."""
    boxes: Annotated[list[SiloMail], Field(min_length=1)]
    """All silos that run elsewhere."""
    template: Assignment | None = None
    """What all orders have; its environment is that of none."""
    start_seconds: Seconds = 600
    """How long an order may wait to be taken."""
    round_seconds: Seconds = 3600
    """How long the round waits for all."""
    adapter: StartAdapter | None = None
    """The global adapter that counts, for those that rest."""
    audit: AuditHead | None = None
    """Newest entry of the audit log, as its aggregator reported it."""
    listens: bool = True
    """Whether to wait for news once all is posted."""


class LogAdvance(Model):
    """How far a log was read or written."""

    box: Count
    """Index into the task's boxes."""
    serial: Count
    """The last place."""
    digest: Sha256 | Literal[""] = ""
    """Digest of the last letter there, or before it."""
    order: PostedOrder | None = None
    """What was posted there; none where it was read, or invalid objects are in its way."""
    ahead: Literal[True] | None = None
    """Whether our own log has letters that the status does not know."""


class LetterSummary(Model):
    """One letter of a silo, as far as a plan needs it."""

    box: Count
    """Index into the task's boxes."""
    kind: Literal["hello", "taken", "waits", "refused", "failed", "answer", "leave"]
    """Which letter it was."""
    order: Count = 0
    """Serial of the order that it replies to."""
    code: Annotated[str, Field(pattern=r"^[a-z-]{0,30}$")] = ""
    """What it waits for, or why it refuses."""
    path: Annotated[str, Field(pattern=r"^[A-Za-z0-9.]{0,100}$")] = ""
    """Field of the order that it refuses."""
    exit: Annotated[int, Field(ge=0, le=255)] | None = None
    """How its last attempt ended, where it failed."""
    report: Annotated[ClientReport | EvaluateReport, Field(discriminator="kind")] | None = None
    """Its client's report, where it answered."""


class LetterFaults(Model):
    """Objects in a silo's log that are no letters of it."""

    box: Count
    """Index into the task's boxes."""
    code: Annotated[str, Field(pattern=r"^[a-z-]{1,30}$")]
    """What is wrong with them."""
    count: Count
    """How many."""


class CourierReport(Model):
    """What a courier posted and read."""

    kind: Literal["courier"] = "courier"
    """Which report this is."""
    posted: list[LogAdvance] = Field(default_factory=list)
    """Boxes whose letter is in the bucket."""
    read: list[LogAdvance] = Field(default_factory=list)
    """Boxes that were read further."""
    news: list[LetterSummary] = Field(default_factory=list)
    """Valid letters, in order."""
    faults: list[LetterFaults] = Field(default_factory=list)
    """Invalid objects."""

    def is_about(self, boxes: int) -> bool:
        """Whether it is about boxes that there are."""
        parts: list[LogAdvance | LetterSummary | LetterFaults] = [
            *self.posted,
            *self.read,
            *self.news,
            *self.faults,
        ]
        return all(part.box < boxes for part in parts)
