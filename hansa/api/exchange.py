"""Silos that run elsewhere: how a spec names them, and what a status remembers of them."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api.storage import SecretName
from hansa.core.model import Model, Sha256OrEmpty, Time

MAX_KEYS = 3
PublicKey = Annotated[str, Field(pattern=r"^ed25519:[A-Za-z0-9_-]{43}$", max_length=60)]
"""A public key as specs have it: `ed25519:` and 32 bytes in base64url."""
PublicKeys = Annotated[list[PublicKey], Field(min_length=1, max_length=MAX_KEYS)]
PollSeconds = Annotated[int, Field(ge=2, le=3600)]


class Exchange(Model):
    """How the coordinator talks to silos that run elsewhere: by signed letters in the bucket."""

    signing_secret: SecretName | None = None
    """Secret with the coordinator's key as `signing.key`; only its couriers get it. `hansa run`
    takes a file instead (--signing-key)."""
    public_keys: PublicKeys
    """The coordinator's own keys, newest first; retired ones stay, to know its old letters."""
    poll_seconds: PollSeconds = 15
    """How often the bucket is asked for letters while a round waits for a silo."""


class RemoteSilo(Model):
    """A silo in a cluster or on a machine of its own, whose owner decides what it plays."""

    public_keys: PublicKeys
    """Keys that may sign its answers, newest first."""


MemberState = Literal["Invited", "Present", "Away", "Left"]
"""`Invited`: no letter yet. `Away`: did not take its last order in time, until its next letter."""
Word = Literal["", "taken", "waits", "refused", "failed", "answer", "leave"]
"""A silo's last reply to its order; empty: none yet."""


class Cursor(Model):
    """How far a log was read or written."""

    serial: Annotated[int, Field(ge=0, le=2**53)] = 0
    """The last serial that was read or written; 0: none yet."""
    digest: Sha256OrEmpty = ""
    """Digest of the last letter there, or before it; empty: there was none."""


class PostedOrder(Model):
    """The last order that was posted to a silo."""

    kind: Literal["work", "rest"]
    """Whether to do something."""
    role: Literal["", "client", "evaluate"] = ""
    """As what."""
    round: Annotated[int, Field(ge=0)] = 0
    """In which round; of an evaluation, the adapter's."""
    epoch: Annotated[int, Field(ge=0)] = 0
    """Which masking of the round's updates it is for, where they are masked."""
    why: Literal["", "suspended", "finished", "removed", "missed"] = ""
    """Why it rests."""


class MemberStatus(Model):
    """One silo that runs elsewhere, as its letters tell."""

    name: str
    """Environment."""
    state: MemberState = "Invited"
    """Whether it takes part."""
    sent: Cursor = Field(default_factory=Cursor)
    """Newest order in its log."""
    received: Cursor = Field(default_factory=Cursor)
    """Newest answer that was read."""
    order: PostedOrder | None = None
    """What that order is; absent: none was sent."""
    word: Word = ""
    """Its last reply to that order."""
    posted_at: Time | None = None
    """When the order was known to be in the bucket; the start timeout counts from here."""
    taken_at: Time | None = None
    """When it was known to be taken; the round's timeout counts from the first one."""
    seen_at: Time | None = None
    """When a letter of it was last read."""
    message: str = ""
    """Why it waits, refuses or failed."""


class CourierStatus(Model):
    """The Job that posts orders and reads answers; it runs only while an answer is due."""

    attempt: Annotated[int, Field(ge=1)] = 1
    """Number of the present one; it only grows."""
    failures: Annotated[int, Field(ge=0)] = 0
    """How many have failed since the last success."""
    not_before: Time | None = None
    """When the present one may start."""
    task: str = ""
    """Digest of its assignment."""
    message: str = ""
    """Why the last one failed."""
