"""Federation.status as data: what has happened, what runs now, and why it waits."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from hansa.api.bucket_documents import AuditHead, Count, Member, StartAdapter
from hansa.api.constants import ConditionType, EnvironmentState, Phase, Reason
from hansa.api.exchange import CourierStatus, MemberStatus
from hansa.api.immutable_fields import OPTIONS
from hansa.api.probes import ProbeSummary
from hansa.api.secure_aggregation import Masking
from hansa.api.spec import FederationSpec, Guard, Metadata, Model, Participation
from hansa.api.spec import RoundSettings as RoundSettings
from hansa.core.model import Time

HISTORY_ROUNDS = 50


def _check_accepted(fields: dict[str, Any]) -> dict[str, Any]:
    """What later specs are compared with; empty before the first one was accepted."""
    named = (fields.get("environments"), fields.get(OPTIONS))
    if fields and not (
        type(fields.get("rounds")) is int and all(isinstance(each, dict) for each in named)
    ):
        raise ValueError("got other fields, expected rounds, environments and what else is fixed")
    return fields


class BaseCondition(Model):
    """What all conditions have; each kind of object has its own types and reasons."""

    type: str
    """What is observed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: str
    """Machine-readable cause."""
    message: str = ""
    """A sentence for a person, with what to do."""
    last_transition_time: Time
    """When `status` last changed."""
    observed_generation: int = 0
    """Generation of the spec that this speaks of."""


AnyCondition = TypeVar("AnyCondition", bound=BaseCondition)


def replace_conditions(
    conditions: list[AnyCondition],
    kind: type[AnyCondition],
    rows: Iterable[tuple[str, str, str, str]],
    *,
    generation: int,
    now: datetime,
) -> list[AnyCondition]:
    """The conditions with these set, each by its type, status, reason and message.

    A transition time moves only when the status changes.
    """
    known = {condition.type: condition for condition in conditions}
    for type_, status, reason, message in rows:
        old = known.get(type_)
        known[type_] = kind.model_validate(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "last_transition_time": old.last_transition_time
                if old and old.status == status
                else now,
                "observed_generation": generation,
            }
        )
    return [known[type_] for type_ in sorted(known)]


class Condition(BaseCondition):
    """One observation, as Kubernetes' conventions shape it."""

    type: ConditionType
    """What is observed."""
    reason: Reason
    """Machine-readable cause."""


class Attempts(Model):
    """How often a Job of a round was tried."""

    attempt: Annotated[int, Field(ge=1)] = 1
    """Number of the present attempt."""
    failures: Count = 0
    """Failed attempts that count against participation.retries."""
    not_before: Time | None = None
    """When the present attempt may start."""
    blocked: str = ""
    """What a person has to do before it can start; it waits until then."""


class RoundEnvironment(Attempts):
    """One environment's part in the open round."""

    name: str
    """Environment."""
    world: str
    """World it plays."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The world's options, frozen with the round."""
    demonstrations: Count | None = None
    """The environment's own number of demonstrations, frozen with the round."""
    demonstrations_from: str | None = None
    """The environment's own file of demonstrations, frozen with the round."""
    remote: bool = False
    """Whether it runs elsewhere: orders go by letter, and its owner runs its Jobs."""
    state: EnvironmentState = "Waiting"
    """What it is doing."""
    start: StartAdapter | None = None
    """Its own last update, where it continues from that instead of the round's start."""
    manifest: str = ""
    """Digest of its update's manifest, once it has answered."""
    adapter: str = ""
    """Digest of its update's tensors, once it has answered."""
    own: float | None = None
    """Success of its update before it is merged, where that is measured."""
    exit_code: int | None = None
    """Exit code of its program, where it has failed for good; absent: it did not exit."""
    message: str = ""
    """Why it failed or waits."""


class CurrentRound(Model):
    """The round that is open, or the evaluation that follows the last one."""

    kind: Literal["round", "evaluate"] = "round"
    """`evaluate`: only the last adapter is measured."""
    round: Count
    """Number of the round; for `evaluate`, that of the adapter."""
    opened_at: Time
    """When it opened."""
    started_at: Time | None = None
    """When its first client ran; the round's timeout counts from here."""
    frozen_at: Time | None = None
    """When its members were frozen; the aggregator's timeout counts from here."""
    start: StartAdapter
    """Adapter it starts from."""
    settings: RoundSettings
    """Settings frozen at its opening."""
    participation: Participation
    """Rules of taking part, frozen at its opening."""
    guard: Guard | None = None
    """What happens when the adapter it starts from is worse than the best, frozen as well."""
    environments: list[RoundEnvironment]
    """Who takes part, sorted by name."""
    masking: Masking | None = None
    """Who masks against whom, frozen at its opening and with every epoch; absent: nobody does."""
    members: list[Member] | None = None
    """Updates to aggregate, frozen before the aggregator starts."""
    aggregator: Attempts = Field(default_factory=Attempts)
    """Attempts of the aggregator."""


class FailedRound(Model):
    """A round that was closed without an adapter, and what it waits for."""

    round: Count
    """Its number; it is never used again."""
    generation: int
    """A newer generation of the spec resumes."""
    retry: str = ""
    """Another value of the retry annotation resumes."""
    reason: Reason
    """Why it failed."""
    message: str
    """What to do."""


class HistoryEntry(Model):
    """One round as `kubectl get -o json` shows it; the whole of it is in the manifests."""

    round: Count
    """Its number; 0 is the base before any training."""
    outcome: Literal[
        "base", "aggregated", "apart", "empty", "failed", "rejected", "rolled-back", "undone"
    ]
    """How it ended; `apart`: each environment keeps its own adapter, by the strategy `none`.

    `rejected`: it made an adapter that the guard found worse than the best one. `rolled-back`: the
    round after that, whose updates began at the worse adapter and were not aggregated. `undone`: a
    person went back behind it (`hansa rollback`), so it does not count.
    """
    message: str = ""
    """Why the guard rejected it, or who has undone it."""
    opened_at: Time | None = None
    """When it opened."""
    closed_at: Time | None = None
    """When it ended."""
    updates: str = ""
    """Members of environments, as 4/5."""
    adapter: str = ""
    """Digest of its global adapter."""
    server_step: float | None = None
    """Server step that made it, which `auto` leaves to the round's updates."""
    success: dict[str, float] = Field(default_factory=dict)
    """Success of its global adapter on held-out tasks, by environment."""
    episodes: dict[str, int] = Field(default_factory=dict)
    """Episodes behind each ratio."""
    effective: dict[str, float] = Field(default_factory=dict)
    """Independent episodes that a ratio is worth, where tasks were played more than once."""
    validation: dict[str, float] = Field(default_factory=dict)
    """Success on validation tasks, by which the best adapter is chosen, by environment."""
    own: dict[str, float] = Field(default_factory=dict)
    """Success of each environment's own update before it was merged, on the tasks of `success`."""
    probes: ProbeSummary | None = None
    """What more than half of the environments confirm of its probes; absent: none were played."""


class AdapterStatus(Model):
    """A global adapter, or an environment's own."""

    round: Count
    """Round that made it."""
    uri: str
    """Folder that PEFT loads."""
    sha256: str
    """Digest of its tensors."""


class EnvironmentStatus(Model):
    """One environment as a person reads it."""

    name: str
    """Environment."""
    state: EnvironmentState
    """What it is doing in the open round, or how the last one ended."""
    attempt: int = 1
    """Attempt of its present Job."""
    job: str = ""
    """Name of its present Job."""
    success: str = ""
    """Newest evaluation of the global adapter on its held-out tasks."""
    own: str = ""
    """Newest evaluation of its own update before it was merged, on the same tasks."""
    gain: str = ""
    """What merging brought: the global adapter's success less its own update's, same round."""
    personal: str = ""
    """Success of what it serves by spec.personalization, on the tasks of `success`."""
    serves: str = ""
    """What that is: global, own, mix-25 to mix-75 (per cent of its own), finetuned-N (rounds) or
    alone."""
    alone: str = ""
    """Success after evolving alone (spec.evaluation.alone), on the tasks of `success`."""
    joined: str = ""
    """What joining brought: what it serves less what it had alone, with 95 % limits."""
    explored: Count = 0
    """Episodes played in its last finished round."""
    succeeded: Count = 0
    """Those that were successful."""
    broken: Count = 0
    """Those that were dropped, since the world failed in them."""
    epsilon: Annotated[float, Field(ge=0)] | None = None
    """What the silo has given away of one record so far, where spec.privacy bounds it."""
    experience: Count = 0
    """Trajectories it has."""
    probes: ProbeSummary | None = None
    """What its probes say of the newest adapter that it has played them on."""
    adapter: AdapterStatus | None = None
    """Its own last update, where the strategy is `none`."""
    healthy: bool = True
    """False from a failure in a round until it answers again."""
    budget_spent: bool = False
    """Whether its privacy budget is spent: it sends no more updates, and the others continue."""
    message: str = ""
    """Why it failed or waits."""


class BestAdapter(Model):
    """The global adapter with the highest mean success so far."""

    round: Count
    """Round that made it; 0 is the base."""
    success: str
    """Its mean success."""
    uri: str = ""
    """Folder that PEFT loads; empty for the base."""


class GuardStatus(Model):
    """What the guard has done so far."""

    rollbacks: Count = 0
    """Times it went back to the best adapter."""
    step_factor: float = 1.0
    """Factor of spec.aggregation.serverStep in new rounds; halved by each rollback."""
    vetoes: dict[str, Count] = Field(default_factory=dict)
    """By environment: the round in which it last went back alone, under scope `environment`."""
    overruled: str = ""
    """Why one environment's drop did not count in the newest verdict; empty: none was overruled."""


class FederationStatus(Model):
    """What has happened, what runs now, and why it waits."""

    phase: Phase = "Pending"
    """One word for the printer column; read the conditions instead."""
    round: Count = 0
    """Newest round that was opened."""
    completed: Count = 0
    """Rounds that count towards spec.rounds."""
    updates: str = ""
    """Answers in the open round, as 4/5."""
    success: str = ""
    """Mean over environments of the newest evaluated global adapter."""
    observed_generation: int = 0
    """Generation of the spec that this status speaks of."""
    accepted: Annotated[dict[str, Any], AfterValidator(_check_accepted)] = Field(
        default_factory=dict
    )
    """Immutable fields as first accepted; later specs are compared with them."""
    evaluated: Count = 0
    """Newest adapter whose evaluation by all environments was concluded after the last round."""
    current: CurrentRound | None = None
    """The open round."""
    failed: FailedRound | None = None
    """The round that failed, until it is retried or the spec changes."""
    adapter: AdapterStatus | None = None
    """The newest global adapter."""
    best: BestAdapter | None = None
    """The best one."""
    guard: GuardStatus | None = None
    """What the guard has done; absent: nothing yet."""
    rollback: str = ""
    """Newest value of the rollback annotation that was acted on, or refused."""
    members: list[MemberStatus] = Field(default_factory=list)
    """Silos that run elsewhere, sorted by name."""
    courier: CourierStatus | None = None
    """The Job that carries letters to and from them; absent: none was ever needed."""
    audit: AuditHead | None = None
    """Newest entry of the audit log, as its aggregator reported it; orders to silos name it."""
    conditions: list[Condition] = Field(default_factory=list)
    """Observations: Accepted, Progressing, Degraded, Succeeded."""
    environments: list[EnvironmentStatus] = Field(default_factory=list)
    """One line per environment."""
    history: list[HistoryEntry] = Field(default_factory=list)
    """Round 0, the best and the newest rounds."""

    @property
    def step_factor(self) -> float:
        """Factor of the server step that the guard asks for."""
        return self.guard.step_factor if self.guard else 1.0


class Federation(Model):
    """The whole object, as kubectl would print it."""

    api_version: Literal["hansa.dev/v1alpha1"] = "hansa.dev/v1alpha1"
    """API group and version."""
    kind: Literal["Federation"] = "Federation"
    """Kind of object."""
    metadata: Metadata
    """Name and generation."""
    spec: FederationSpec
    """What the user wants."""
    status: FederationStatus = Field(default_factory=FederationStatus)
    """What there is."""


def trim_history(history: list[HistoryEntry], best: int | None) -> list[HistoryEntry]:
    """Round 0, the best and the newest rounds: a status must stay small however long a run is."""
    newest = {entry.round for entry in history[-HISTORY_ROUNDS:]}
    return [e for e in history if e.round == 0 or e.round == best or e.round in newest]
