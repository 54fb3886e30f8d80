"""FederationMember.status as data: which order a silo works on, and what it has used."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.bucket_documents import Count
from hansa.api.constants import MemberConditionType, MemberReason, Trouble
from hansa.api.exchange import CourierStatus, Cursor
from hansa.api.letters import Reference, Veto
from hansa.api.member_spec import MemberObject
from hansa.api.status import Attempts, BaseCondition
from hansa.core.model import Model, Sha256OrEmpty, Time

MOST_ROUNDS = 50
SiloPhase = Literal["Idle", "Working", "Waiting", "Refusing", "Suspended", "Left", "Failed"]
"""`Waiting`: for hours, budget or a machine of its own. `Refusing`: its limits do not allow the
newest order. `Failed`: letters can neither be posted nor read; the condition says why."""


class PendingLetter(Model):
    """A letter that the silo is going to post, without the fields that the courier adds."""

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


class OrderSummary(Model):
    """An order of the coordinator, as far as a silo's operator needs it."""

    order: Reference
    """Which letter it is."""
    kind: Literal["work", "rest"]
    """Whether there is something to do."""
    why: Literal["", "suspended", "finished", "removed", "missed"] = ""
    """Why there is nothing to do; `missed`: an order was not taken in time, and is taken back."""
    role: Literal["", "client", "evaluate"] = ""
    """As what."""
    round: Count = 0
    """In which round; of an evaluation, the adapter's."""
    episodes: Count = 0
    """Episodes that it asks for at most."""
    work: Sha256OrEmpty = ""
    """The same digest for each order that asks for the same work."""
    round_seconds: Count = 0
    """How long the round waits for all."""
    veto: Veto | None = None
    """Why the silo's limits do not allow it."""
    path: str = ""
    """Field that they do not allow."""


class SiloOrder(OrderSummary, Attempts):
    """The order that the silo works on, or has worked on last."""

    state: Literal["New", "Waiting", "Working", "Done", "Refused", "Failed", "Resting"] = "New"
    """How far it is."""
    waits_for: Literal["", "window", "budget", "queue", "start"] = ""
    """What it waits for, as last reported."""
    taken_at: Time | None = None
    """When it was taken on."""
    charged_attempt: Count = 0
    """Newest attempt that counts in what the silo has used."""
    charged_episodes: Count = 0
    """Episodes that were charged for it."""
    message: str = ""
    """Why it waits, is refused or has failed; stays in the silo."""


Outcome = Literal["answered", "refused", "failed"]


class SiloRound(Model):
    """One order that was answered."""

    round: Count
    """Its round."""
    role: Literal["client", "evaluate"]
    """As what."""
    outcome: Outcome
    """How it ended."""
    explored: Count = 0
    """Episodes played."""
    succeeded: Count = 0
    """Those that were successful."""
    success: str = ""
    """Its evaluation of the global adapter, where it made one."""
    manifest: Sha256OrEmpty = ""
    """Digest of the update that it answered with."""

    @classmethod
    def from_order(
        cls, order: SiloOrder, outcome: Outcome, report: ClientReport | EvaluateReport | None
    ) -> "SiloRound":
        """An order that ended so, with what its client reported."""
        line = cls(round=order.round, role=order.role or "client", outcome=outcome)
        ratio = report.evaluation.ratio if report and report.evaluation else None
        update: dict[str, object] = {"success": f"{ratio:.3f}"} if ratio is not None else {}
        if isinstance(report, ClientReport):
            counts = report.counts
            update |= {"explored": counts.explored, "succeeded": counts.succeeded}
            update["manifest"] = report.manifest
        return line.model_copy(update=update)


class RoundRange(Model):
    """Rounds one after another."""

    first: Count
    """The first of them."""
    last: Count
    """The last of them."""


class SiloUsage(Model):
    """What the silo has done for the federation so far."""

    rounds: Count = 0
    """Different rounds that it has taken on, without those in which its own Jobs failed."""
    taken: list[RoundRange] = Field(default_factory=list)
    """Their numbers."""
    failed: Count = 0
    """Rounds in which its own Jobs failed: the numbers of later ones grow by these."""
    episodes: Count = 0
    """Episodes that orders asked for at most."""
    answered: Annotated[list[Sha256OrEmpty], Field(max_length=MOST_ROUNDS)] = Field(
        default_factory=list
    )
    """Work of the newest answered orders: the same again costs nothing, since it is stored."""
    day: str = ""
    """The day (UTC) that `day_seconds` is of."""
    day_seconds: Count = 0
    """Seconds that Jobs which started on that day may take or took."""

    def has_taken(self, round_: int) -> bool:
        """Whether a round counts already."""
        return any(each.first <= round_ <= each.last for each in self.taken)

    def with_rounds(self, numbers: Iterable[int]) -> "SiloUsage":
        """The same with these rounds taken, and no others."""
        taken: list[RoundRange] = []
        for number in sorted(set(numbers)):
            if taken and number == taken[-1].last + 1:
                taken[-1] = RoundRange(first=taken[-1].first, last=number)
            else:
                taken.append(RoundRange(first=number, last=number))
        rounds = sum(each.last - each.first + 1 for each in taken)
        return self.model_copy(update={"taken": taken, "rounds": rounds})

    def list_taken(self) -> list[int]:
        """Numbers of the rounds that count."""
        return [number for each in self.taken for number in range(each.first, each.last + 1)]


class SiloCondition(BaseCondition):
    """One observation, as Kubernetes' conventions shape it."""

    type: MemberConditionType
    """What is observed."""
    reason: MemberReason
    """Machine-readable cause."""


class SiloStatus(Model):
    """Which order the silo works on, which letters it has to post, what it has used."""

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
    received: Cursor = Field(default_factory=Cursor)
    """Newest order that was read."""
    sent: Cursor = Field(default_factory=Cursor)
    """Newest letter that was posted."""
    owed: list[PendingLetter] = Field(default_factory=list)
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
    """When it last posted a hello."""
    heard_at: Time | None = None
    """When an order was last read."""
    left: bool = False
    """Whether it has left the federation, or is about to announce that."""
    trouble: Trouble | Literal[""] = ""
    """Why letters can be neither posted nor read, until a courier succeeds."""
    message: str = ""
    """Why it cannot continue."""

    def find_manifest(self, round_: int) -> str:
        """Digest of its own update of a round, as its client reported it; empty: none is known."""
        known = [each.manifest for each in self.rounds if each.round == round_ and each.manifest]
        return known[-1] if known else ""


class FederationMember(MemberObject):
    """The whole object, with its status."""

    status: SiloStatus = Field(default_factory=SiloStatus)
    """What there is."""
