"""Assignments of programs and their reports, as JSON documents.

Both executors hand the same documents to the same programs, so a process and a Pod cannot differ.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from hansa.api.bucket_documents import (
    AuditHead,
    Count,
    Counts,
    Figures,
    Member,
    Seed,
    Sha256,
    StartAdapter,
)
from hansa.api.endpoint import Endpoint
from hansa.api.ownership import Owner
from hansa.api.probes import ProbeFigures, are_expected
from hansa.api.secure_aggregation import Epoch, Masking
from hansa.api.spec import S3, Adapter, Model, ModelSource
from hansa.api.status import RoundSettings
from hansa.api.task_kinds import Rates
from hansa.core.errors import PermanentError
from hansa.core.model import Sha256OrEmpty
from hansa.validation.messages import describe_first_misfit

ENV_ASSIGNMENT = "HANSA_ASSIGNMENT"
ENV_ORDER = "HANSA_ORDER"
"""What a remote silo's client gets instead of an assignment."""
ENV_REPORT = "HANSA_REPORT"
"""File the report goes to; absent: the Pod's termination log."""
ENV_PROGRESS = "HANSA_PROGRESS"
"""File that a client rewrites with its progress; only local runs set it."""
ENV_WORLD_MODULES = "HANSA_WORLD_MODULES"
"""Modules whose classes the options of world `gymnasium` may name."""
ENV_WORLD_COMMANDS = "HANSA_WORLD_COMMANDS"
"""Commands, separated by commas, that the options of world `proxy` may begin with."""
ENV_HARNESS_LOG = "HANSA_HARNESS_LOG"
"""File to which the output of harnesses of world `proxy` is appended; absent: it is dropped."""
ENV_MODEL_CACHE = "HANSA_MODEL_CACHE"
"""Folder where downloaded base models are kept between Jobs."""
ENV_IMAGE = "HANSA_IMAGE"
"""The container's image as its Job names it, for the audit log; only the operator sets it."""
TERMINATION_LOG = "/dev/termination-log"
REPORT_LIMIT = 4096

Role = Literal["client", "evaluate", "aggregator", "courier"]


class Assignment(Model):
    """Everything a program needs to know about its work; credentials come from AWS_* variables."""

    version: Annotated[Literal[1], Owner.FORMAT] = 1
    """Version of this document."""
    role: Annotated[Role, Owner.FORMAT]
    """What to do."""
    federation: Annotated[str, Owner.MEMBER]
    """Name of the federation."""
    seed: Annotated[Seed, Owner.AGREEMENT]
    """The federation's seed."""
    model: Annotated[ModelSource, Owner.AGREEMENT]
    """The base model."""
    adapter: Annotated[Adapter, Owner.AGREEMENT]
    """The adapter's shape."""
    round: Annotated[Count, Owner.ROUND]
    """The round; for `evaluate`, that of the adapter."""
    start: Annotated[StartAdapter, Owner.ROUND]
    """Adapter to start from, or to evaluate."""
    own_start: Annotated[bool, Owner.ROUND] = False
    """Whether that is the environment's own update of that round, not the global adapter."""
    settings: Annotated[RoundSettings, Owner.AGREEMENT]
    """Settings frozen with the round."""
    storage: Annotated[S3, Owner.MEMBER]
    """Where adapters are exchanged."""
    environments: Annotated[list[str], Owner.ROUND]
    """All environments of the round, sorted; reports name them by index."""
    environment: Annotated[str, Owner.MEMBER] = ""
    """The client's own environment."""
    world: Annotated[str, Owner.SILO] = ""
    """World it plays."""
    options: Annotated[dict[str, Any], Owner.SILO] = Field(default_factory=dict)
    """The world's options."""
    demonstrations: Annotated[Count | None, Owner.AGREEMENT] = None
    """The environment's own number of demonstrations; absent: that of settings.experience."""
    demonstrations_from: Annotated[str | None, Owner.SILO] = None
    """File of demonstrations; absent: the world's expert shows them."""
    experience_storage: Annotated[S3 | None, Owner.SILO] = None
    """The silo's private store; absent: `storage`."""
    endpoint: Annotated[Endpoint | None, Owner.SILO] = None
    """The silo's own server for the agent's turns. Results do not follow from its address."""
    model_from: Annotated[str | None, Owner.SILO] = None
    """Where this silo has the base model; absent: `model.source`. Results do not follow from it."""
    own_manifest: Annotated[Sha256OrEmpty | None, Owner.SILO] = None
    """Digest of the silo's own update of `start.round` as it answered with it; empty: it knows of
    none, and tries none. Absent: the coordinator holds the bucket, and nothing is compared."""
    evaluate: Annotated[bool, Owner.ROUND] = True
    """Whether the client evaluates the start adapter first."""
    alone_rounds: Annotated[Count, Owner.ROUND] = 0
    """Rounds that the silo also evolves alone, from the base, to compare; 0: it does not."""
    masking: Annotated[Masking | None, Owner.ROUND] = None
    """Who masks against whom; absent: nobody does."""
    members: Annotated[list[Member], Owner.AGGREGATOR] = Field(default_factory=list)
    """Updates to aggregate."""
    minimum: Annotated[int, Field(ge=1), Owner.AGGREGATOR] = 1
    """Updates that must pass the gate."""

    @property
    def private_storage(self) -> S3:
        """Where the silo keeps its experience: its private store, or a place in the exchange."""
        return self.private_place[1]

    @property
    def place(self) -> tuple[str, S3]:
        """The exchange, behind the field that names it."""
        return "storage.s3", self.storage

    @property
    def private_place(self) -> tuple[str, S3]:
        """The same of the silo's experience."""
        if self.experience_storage is None:
            return self.place
        return f"environments[{self.environment}].experienceStorage.s3", self.experience_storage

    @property
    def demonstrations_wanted(self) -> int:
        """Demonstrations that start this environment's experience."""
        if self.demonstrations is None:
            return self.settings.experience.demonstrations
        return self.demonstrations

    @property
    def turn_endpoint(self) -> Endpoint | None:
        """Who writes the agent's turns; None: the client itself."""
        engine = self.settings.exploration.engine
        if engine == "openai" and self.endpoint is None:
            raise PermanentError(
                f"spec.environments[{self.environment}].endpoint: got nothing, expected the silo's "
                "own server, since spec.exploration.engine is openai"
            )
        return None if engine == "torch" else self.endpoint

    def identity(self) -> dict[str, Any]:
        """What one run can never change."""
        return {
            "seed": self.seed,
            "model": self.model.identity(),
            "adapter": self.adapter.identity(),
        }

    def inputs(self) -> dict[str, Any]:
        """All that the result depends on; attempt, endpoint and image are no part of it."""
        settings = self.settings.to_json()
        del settings["evaluation"]  # measuring an adapter does not change the next one
        settings.pop("probes", None)
        del settings["personalization"]  # nor does what a silo makes of the last one
        factor = settings.pop("stepFactor")
        inputs = {
            **self.identity(),
            "round": self.round,
            "start": self.start.to_json(),
        }
        if self.role == "aggregator":
            if factor != 1.0:
                inputs["stepFactor"] = factor
            settings["aggregation"]["options"] = self.settings.aggregation.all_options()
            if self.masking:
                inputs["masking"] = self.masking.to_json()
            return {**inputs, "aggregation": settings["aggregation"]}
        del settings["aggregation"]
        settings["experience"].pop("demonstrationsFrom", None)  # an environment may have its own
        if settings["experience"]["circles"] == "keep":  # the default
            del settings["experience"]["circles"]
        if self.demonstrations_from:
            inputs["demonstrationsFrom"] = self.demonstrations_from
        if self.demonstrations is not None:  # beside `experience`, which is the same for all
            inputs["demonstrations"] = self.demonstrations
        half = self.settings.aggregation.half(self.round)
        if half != "both":
            inputs["half"] = half
        return {**inputs, **settings, **self.evaluation_inputs()}

    def evaluation_inputs(self) -> dict[str, Any]:
        """What an evaluation or the demonstrations belong to, however the round is set."""
        return {
            **self.identity(),
            "environment": self.environment,
            "world": self.world,
            "options": self.options,
        }


PHASES = frozenset(
    {
        *("load", "evaluate", "explore", "train", "own", "alone", "personal", "send"),
        *("read", "aggregate", "write"),
    }
)
"""What clients and aggregators do, one after another."""


def _check_phases(seconds: dict[str, float]) -> dict[str, float]:
    if not seconds.keys() <= PHASES:
        raise ValueError("a phase that no program has")
    return seconds


Phases = Annotated[dict[str, Annotated[float, Field(ge=0, le=1e9)]], AfterValidator(_check_phases)]
"""Reports go into statuses and metrics: no text of a client's may but short names of kinds of
tasks, and no number without bounds."""


Epsilon = Annotated[float, Field(ge=0, le=1e9)]


class EvaluationReport(Figures):
    """How an adapter did."""

    round: Count
    """Round of the adapter."""
    broken: Count = 0
    """Episodes dropped since the world failed in them."""
    effective: float | None = None
    """Independent episodes that these are worth, where tasks were played more than once."""
    validation: Figures | None = None
    """How it did on validation tasks, by which the best adapter is chosen."""
    probes: ProbeFigures | None = None
    """What spec.probes say of it."""


class ClientReport(Model):
    """A client's answer."""

    kind: Literal["client"] = "client"
    """Which report this is."""
    environment: Count
    """Index into the assignment's environments."""
    round: Count
    """The round."""
    epoch: Epoch | None = None
    """Epoch that its update is masked for; absent: it is not masked."""
    trained: bool
    """False: no experience yet, so no member of the mean."""
    manifest: Sha256
    """Digest of the update's manifest."""
    adapter: Sha256 | Literal[""] = ""
    """Digest of the update's tensors."""
    counts: Counts
    """What the round did."""
    evaluation: EvaluationReport | None = None
    """How the start adapter did."""
    own: Figures | None = None
    """How the update did before it was merged."""
    solved: Count = 0
    """Different training tasks that the agent itself has solved so far."""
    kinds: Rates | None = None
    """Share of successes of each kind of task in the round, where the world tells kinds apart."""
    entropy: float | None = None
    """Mean entropy of the start adapter's next token while exploring, in nats."""
    epsilon: Epsilon | None = None
    """What the silo has given away of one record so far, where spec.privacy bounds it."""
    norm: float = 0.0
    """Norm of the update."""
    bytes: Count = 0
    """Size of the update."""
    seconds: Phases = Field(default_factory=dict)
    """Seconds of each phase."""

    def answers(self, assignment: Assignment) -> bool:
        """Whether it tells of that assignment, and of nothing that was not asked for."""
        wanted = (assignment.round, assignment.masking.epoch if assignment.masking else None)
        is_its_own = assignment.role == "client" and (self.round, self.epoch) == wanted
        return is_its_own and _is_asked(assignment, self.environment, self.evaluation)


class EvaluateReport(Model):
    """Answer of an evaluate-only Job."""

    kind: Literal["evaluate"] = "evaluate"
    """Which report this is."""
    environment: Count
    """Index into the assignment's environments."""
    evaluation: EvaluationReport
    """How the adapter did."""
    personal: Figures | None = None
    """How what the silo serves itself did on the same tasks, where the spec lets it choose."""
    serves: Annotated[
        str, Field(pattern=r"^(global|own|alone|mix-[0-9]{1,2}|finetuned-[0-9]{1,5})?$")
    ] = ""
    """What it chose, as a code."""
    alone: Figures | None = None
    """How the silo does on the same tasks after evolving alone, where the spec asks for it."""
    epsilon: Epsilon | None = None
    """What the silo has given away of one record so far, where spec.privacy bounds it."""
    seconds: Phases = Field(default_factory=dict)
    """Seconds of each phase."""

    def answers(self, assignment: Assignment) -> bool:
        """Whether it tells of that assignment, and of nothing that was not asked for."""
        is_its_own = assignment.role == "evaluate"
        return is_its_own and _is_asked(assignment, self.environment, self.evaluation)


def _is_asked(assignment: Assignment, index: int, evaluation: EvaluationReport | None) -> bool:
    """Whether index and evaluation are those asked for: others would change foreign results."""
    if index != assignment.environments.index(assignment.environment):
        return False
    if evaluation is None:
        return True
    is_wanted = assignment.evaluate and evaluation.round == assignment.start.round
    return is_wanted and are_expected(evaluation.probes, assignment.settings.probes)


class AggregatorReport(Model):
    """The aggregator's answer."""

    kind: Literal["aggregator"] = "aggregator"
    """Which report this is."""
    round: Count
    """The round."""
    manifest: Sha256 | Literal[""]
    """Digest of the global manifest; empty where too few updates passed the gate."""
    adapter: Sha256 | Literal[""]
    """Digest of the global adapter."""
    audit: Sha256 | None = None
    """Digest of the round's entry in the audit log; absent where a later one was there already."""
    bytes: Count
    """Size of the adapter."""
    members: list[int]
    """Indexes of the environments that were aggregated."""
    refused: list[tuple[int, Annotated[str, Field(pattern=r"^[a-z0-9-]{1,30}$")]]] = Field(
        default_factory=list
    )
    """Indexes and reason codes of those that the gate kept out."""
    remaining: list[int] = Field(default_factory=list)
    """With exit 52: indexes of those that mask again, since somebody dropped out."""
    server_step: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Server step that was taken."""
    norm: float = 0.0
    """Frobenius norm of the change of the weights, where diagnostics are on."""
    error: float = 0.0
    """Distance of the adapter from the exact mean of the updates, as a share of it."""
    effective_rank: float = 0.0
    """Directions that the adapter uses, as a mean over its layers."""
    cosine: list[float] = Field(default_factory=list)
    """Cosine of each member's change with the adapter's, as `members` lists them."""
    share: list[float] = Field(default_factory=list)
    """Each member's part of the sum of all norms, as `members` lists them."""
    seconds: Phases = Field(default_factory=dict)
    """Seconds of each phase."""

    @property
    def audit_head(self) -> AuditHead | None:
        """The round's entry in the audit log."""
        return AuditHead(round=self.round, sha256=self.audit) if self.audit else None

    def is_about(self, round_: int, environments: int) -> bool:
        """Whether it is about this round and about environments that are in it."""
        indexes = [*self.members, *self.remaining, *(index for index, _ in self.refused)]
        return self.round == round_ and all(0 <= index < environments for index in indexes)


def decode_assignment(text: str) -> Assignment:
    """The assignment, or a permanent error that names the field."""
    try:
        return Assignment.model_validate_json(text)
    except ValidationError as error:
        raise PermanentError(f"{ENV_ASSIGNMENT}: {describe_first_misfit(error)}") from None
