"""FederationMember.status as data: which order a silo works on, what it owes, what it has used."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api import MemberConditionType, MemberReason, Trouble
from hansa.assignment import ClientReport, EvaluateReport
from hansa.base import Model
from hansa.conditions import Observation
from hansa.exchange.letters import Reference, Veto
from hansa.manifest import Count
from hansa.member.spec import Member
from hansa.members import CourierStatus, Head
from hansa.status import Attempts
from hansa.times import Time

MOST_ROUNDS = 50
SiloPhase = Literal["Idle", "Working", "Waiting", "Refusing", "Suspended", "Left", "Failed"]
"""`Waiting`: for hours, budget or a machine of its own. `Refusing`: its limits do not allow the
newest order. `Failed`: letters can neither be posted nor read; the condition says why."""


class Letter(Model):
    """A letter that the silo is going to post, without what the courier knows itself."""

    kind: Literal["hello", "taken", "waits", "refused", "failed", "answer", "leave"]
    """Which letter."""
    order: Reference | None = None
    """The order that it replies to."""
    code: Annotated[str, Field(pattern=r"^[a-z-]{0,30}$")] = ""
    """What is waited for, or why it is refused."""
    path: str = ""
    """Field of the order that is refused."""
    seconds: Count = 0
    """How long it waits, as far as it knows."""
    exit: Annotated[int, Field(ge=0, le=255)] = 0
    """How the last attempt ended."""
    attempts: Count = 0
    """How often it was tried."""
    report: Annotated[ClientReport | EvaluateReport, Field(discriminator="kind")] | None = None
    """The client's report."""


class SiloOrder(Attempts):
    """The order that the silo works on, or has worked on last."""

    order: Reference
    """Which letter it is."""
    kind: Literal["work", "rest"]
    """Whether there is something to do."""
    role: Literal["", "client", "evaluate"] = ""
    """As what."""
    round: Count = 0
    """In which round; of an evaluation, the adapter's."""
    episodes: Count = 0
    """Episodes that it asks for at most."""
    round_seconds: Count = 0
    """How long the round waits for all."""
    veto: Veto | None = None
    """Why the silo's limits do not allow it."""
    path: str = ""
    """Field that they do not allow."""
    state: Literal["New", "Waiting", "Working", "Done", "Refused", "Failed", "Resting"] = "New"
    """How far it is."""
    waits_for: Literal["", "window", "budget", "queue", "start"] = ""
    """What was last said to be waited for."""
    taken_at: Time | None = None
    """When it was taken on."""
    message: str = ""
    """Why it waits, is refused or has failed; stays in the silo."""


class SiloRound(Model):
    """One order that was answered."""

    round: Count
    """Its round."""
    role: Literal["client", "evaluate"]
    """As what."""
    outcome: Literal["answered", "refused", "failed"]
    """How it ended."""
    explored: Count = 0
    """Episodes played."""
    succeeded: Count = 0
    """Those that were successful."""
    success: str = ""
    """Its evaluation of the global adapter, where it made one."""


class SiloUsage(Model):
    """What the silo has done for the federation so far."""

    rounds: Count = 0
    """Different rounds that it has taken on."""
    newest: Count = 0
    """The newest of them: an older one that is asked for again costs nothing."""
    episodes: Count = 0
    """Episodes that these asked for at most."""
    day: str = ""
    """The day (UTC) that `day_seconds` is of."""
    day_seconds: Count = 0
    """Seconds that Jobs which started on that day may take or took."""


class SiloCondition(Observation):
    """One observation, as Kubernetes' conventions shape it."""

    type: MemberConditionType
    """What is observed."""
    reason: MemberReason
    """Machine-readable cause."""


class SiloStatus(Model):
    """Which order the silo works on, what it owes, what it has used."""

    phase: SiloPhase = "Idle"
    """One word for the printer column; read the conditions instead."""
    round: Count = 0
    """Round of the newest order that asked for work."""
    success: str = ""
    """Newest evaluation of the global adapter on the silo's held-out tasks."""
    observed_generation: int = 0
    """Generation of the spec that this status speaks of."""
    conditions: list[SiloCondition] = Field(default_factory=list)
    """Observations: Accepted, Allowed, Connected, Working."""
    received: Head = Field(default_factory=Head)
    """Newest order that was read."""
    sent: Head = Field(default_factory=Head)
    """Newest letter that was posted."""
    owed: list[Letter] = Field(default_factory=list)
    """Letters to post, in order."""
    current: SiloOrder | None = None
    """The newest order."""
    courier: CourierStatus | None = None
    """The Job that posts and listens."""
    usage: SiloUsage = Field(default_factory=SiloUsage)
    """What it has used."""
    rounds: list[SiloRound] = Field(default_factory=list)
    """The last ones, newest last."""
    greeted_at: Time | None = None
    """When it last said that it is there."""
    heard_at: Time | None = None
    """When an order was last read."""
    left: bool = False
    """Whether it has said, or is going to say, that it takes no further part."""
    trouble: Trouble | Literal[""] = ""
    """Why letters can be neither posted nor read, until a courier does well again."""
    message: str = ""
    """Why it cannot go on."""


class FederationMember(Member):
    """The whole object, with its status."""

    status: SiloStatus = Field(default_factory=SiloStatus)
    """What there is."""
