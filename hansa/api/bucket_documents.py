"""The JSON documents in the bucket: their shape, canonical bytes and fingerprints.

A folder without its manifest does not exist; a manifest, once written, never changes.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hansa.api.privacy import PrivacyStatement
from hansa.api.probes import ProbeFigures
from hansa.api.secure_aggregation import MaskedUpdate
from hansa.api.spec import S3, Model, differences
from hansa.api.task_kinds import MOST_KINDS, Name
from hansa.core import stats
from hansa.core.canonical import canonical as canonical
from hansa.core.canonical import fingerprint as fingerprint
from hansa.core.canonical import sha256 as sha256
from hansa.core.errors import AnotherRun
from hansa.core.model import Sha256 as Sha256
from hansa.validation.messages import describe_value

Count = Annotated[int, Field(ge=0, le=2**53)]
"""A count that JSON numbers hold exactly."""
Seed = Annotated[int, Field(ge=0)]


def _check_tally(tally: list[int]) -> list[int]:
    if tally[0] > tally[1]:
        raise ValueError("more successes than episodes")
    return tally


Tally = Annotated[list[Count], Field(min_length=2, max_length=2), AfterValidator(_check_tally)]
"""Successes and episodes."""


class FileEntry(Model):
    """One file of a folder."""

    sha256: Sha256
    """Digest of its bytes."""
    size: Annotated[int, Field(ge=0, le=5 * 2**30)]
    """Its length in bytes."""


class StartAdapter(Model):
    """The global adapter that a round starts from."""

    round: Count = 0
    """Round that made it; 0 is the untrained start, which every program makes from the seed."""
    sha256: str = ""
    """Digest of its adapter_model.safetensors; empty for round 0, which is no object."""


class Counts(Model):
    """What one environment did in a round."""

    explored: Count = 0
    """Episodes played."""
    succeeded: Count = 0
    """Those that were successful."""
    broken: Count = 0
    """Episodes dropped since the world failed in them; not among the explored ones."""
    experience: Count = 0
    """Trajectories of all rounds that the learner chose from, demonstrations included."""
    kept: Count = 0
    """Trajectories trained on."""
    steps: Count = 0
    """Optimizer steps."""
    tokens: Count = 0
    """Tokens trained on, padding left out."""
    generated: Count = 0
    """Tokens generated while exploring."""


class Learning(Model):
    """How an environment's exploring and training went, beyond its counts."""

    solved: Count = 0
    """Different training tasks that the agent itself has solved, in all rounds it learns from."""
    groups: Annotated[dict[Name, Tally], Field(max_length=MOST_KINDS)] = Field(default_factory=dict)
    """Successes and episodes of the round by kind of task, where the world tells kinds apart."""
    pass_at: dict[str, float] = Field(default_factory=dict)
    """Chance that one of k episodes of a task succeeds, where tasks were played more than once."""
    entropy: float | None = None
    """Mean entropy of the start adapter's next token in the agent's turns, in nats."""
    skipped: Count = 0
    """Groups of one task that taught nothing, since all their episodes did equally well."""
    micro_batch_tokens: Count = 0
    """Tokens of a part of a step after memory ran out in training; 0: it did not."""


MadeWith = dict[str, Annotated[str, Field(max_length=500)]]
"""Versions of what computed a result, the kind of machine, and the image where there is one."""


class AuditHead(Model):
    """An entry of the audit log, as another document names it."""

    round: Count
    """Round of the entry."""
    sha256: Sha256
    """Digest of its bytes."""


class Result(Model):
    """What every computed document says of where it comes from."""

    program: str
    """Version of the program that wrote it."""
    fingerprint: Sha256
    """Digest of `inputs`."""
    inputs: dict[str, Any]
    """What it was computed from, so that another run's document is recognised by field."""


class AdapterResult(Result):
    """How one environment did with an adapter."""

    environment: str
    """Environment that played."""
    adapter: StartAdapter
    """The global adapter that was evaluated, or compared with."""


class TaskResult(AdapterResult):
    """The same task by task, which stays in the silo's private store."""

    tasks: dict[str, Tally] = Field(default_factory=dict)
    """Successes and episodes of each task, by its id: numbers, never text of a trajectory."""
    greedy: dict[str, Tally] = Field(default_factory=dict)
    """The same tasks, played greedily; empty: they were not."""


class UpdateManifest(Result):
    """Commit of one environment's update."""

    kind: Literal["update"] = "update"
    """What the folder is."""
    environment: str
    """Environment that offers it."""
    round: Count
    """Round it is for."""
    base_model: Sha256
    """Digest of the base model's files."""
    start: StartAdapter
    """Adapter it was trained from."""
    audit: AuditHead | None = None
    """Head of the audit log as this client read it: the silo is a witness of its content."""
    made_with: MadeWith = Field(default_factory=dict)
    """What computed it; no part of the inputs."""
    sealed_to: str | None = None
    """Public key that its files are sealed to; `files` describes what is in them."""
    masked: MaskedUpdate | None = None
    """Masks that are on it; `files` describes what was sent."""
    trained: bool
    """False when there was no experience to train on: such an update is no member of the mean."""
    files: dict[str, FileEntry] = Field(default_factory=dict)
    """Files of the folder; none when not trained."""
    counts: Counts = Field(default_factory=Counts)
    """What the round did."""
    learning: Learning = Field(default_factory=Learning)
    """How exploring and training went beyond that."""
    norm: float = 0.0
    """Frobenius norm of the change of the adapter's tensors."""
    loss: float = 0.0
    """Mean training loss of the last epoch."""
    privacy: PrivacyStatement | None = None
    """What the silo has given away of one record, where spec.privacy bounds it."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Seconds of each phase."""


class Member(Model):
    """An update that a round was aggregated from."""

    environment: str
    """Environment that sent it."""
    manifest: Sha256
    """Digest of its manifest."""


class Refusal(Model):
    """An update that the gate kept out."""

    environment: str
    """Environment that sent it."""
    reason: str
    """Reason code of the gate."""


class Diagnostics(Model):
    """How the updates of a round relate to one another and to what was made of them.

    All of it but `factorNorms` is about changes of the weights themselves, alpha / rank times B·A.
    Of many members of a large model the norms, cosines and the error are estimated by random
    projections, as a rule within 1 % (of 1, for a cosine); of few members, or of a small model,
    they are exact.
    """

    norm: float
    """Frobenius norm of the change from the old global adapter to the new one; may be estimated."""
    error: float
    """How far the new one is from the exact mean of the updates, as a share of that mean; may be
    estimated."""
    effective_rank: float
    """Directions that the new adapter uses, by the entropy of its singular values; layers' mean."""
    norms: dict[str, float] = Field(default_factory=dict)
    """Norm of each update's change; may be estimated."""
    cosine: dict[str, float] = Field(default_factory=dict)
    """Cosine of each update's change with the global adapter's: below 0 they pull apart; may be
    estimated."""
    share: dict[str, float] = Field(default_factory=dict)
    """Each update's part of the sum of all norms; may be estimated."""
    factor_norms: dict[str, float] = Field(default_factory=dict)
    """Norm of each update's change of A and B themselves, which most strategies merge: factors that
    were turned make a large one of a usual change of the weights. Exact."""


class GlobalManifest(Result):
    """Commit of a round's global adapter."""

    kind: Literal["global"] = "global"
    """What the folder is."""
    round: Count
    """Round that made it."""
    base_model: Sha256
    """Digest of the base model's files."""
    start: StartAdapter
    """The global adapter before."""
    files: dict[str, FileEntry]
    """Files of the folder."""
    members: list[Member]
    """Updates that were aggregated, sorted by environment."""
    refused: list[Refusal] = Field(default_factory=list)
    """Updates that the gate kept out."""
    norm: float = 0.0
    """Frobenius norm of the step from the old global adapter's trainable part to this one's."""
    server_step: float | None = None
    """Server step that was taken, which `auto` leaves to the updates."""
    frozen_rank: Count = 0
    """Rank of the part that clients load and do not train: the first rows of A, columns of B."""
    compression: float = 0.0
    """Share of the Frobenius norm of B·A that compression to a smaller rank cost."""
    diagnostics: Diagnostics | None = None
    """How the updates relate; absent where the spec turns it off."""
    made_with: MadeWith = Field(default_factory=dict)
    """What computed it; no part of the inputs."""
    updates: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Counts, norm, loss, privacy and seconds of every member, copied from its manifest."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Seconds of each phase."""


class FederationDocument(Model):
    """Owner of a prefix: written once, by the first aggregator."""

    kind: Literal["federation"] = "federation"
    """What the document is."""
    program: str
    """Version of the program that wrote it."""
    identity: dict[str, Any]
    """What the run can never change."""
    base_model: Sha256
    """Digest of the base model's files."""


class Figures(Model):
    """Successes among episodes."""

    episodes: Count
    """Episodes played."""
    successes: Count
    """Episodes that were successful."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_tally([self.successes, self.episodes])
        return self

    @property
    def ratio(self) -> float | None:
        """Share of successes; nothing where nothing was played."""
        return round(self.successes / self.episodes, 4) if self.episodes else None


class EvaluationDocument(Figures, AdapterResult):
    """How one global adapter did on one environment's held-out tasks."""

    kind: Literal["evaluation"] = "evaluation"
    """What the document is."""
    temperature: float
    """Sampling temperature; 0 is greedy."""
    broken: Count = 0
    """Episodes dropped since the world failed in them; not among the episodes."""
    task_count: Count = 0
    """Distinct tasks."""
    worth: Annotated[float, Field(ge=0)] | None = None
    """Independent episodes that these are worth; absent: each task was played once."""
    greedy_figures: Figures | None = None
    """The same tasks, played greedily; absent: they were not."""
    validation: Figures | None = None
    """The same on validation tasks, by which adapters are chosen; absent: none were played."""
    probes: ProbeFigures | None = None
    """What spec.probes say of it; absent: there were none."""
    seconds: float = 0.0
    """How long it took."""

    def effective(self) -> float | None:
        """Independent episodes that these are worth; nothing where each task was played once."""
        return None if self.worth is None else min(self.worth, float(self.episodes))


class TaskTallies(TaskResult):
    """One evaluation task by task, in the silo's private store.

    It is written before the evaluation, whose counts follow from it.
    """

    kind: Literal["tallies"] = "tallies"
    """What the document is."""

    def counts(self) -> dict[str, Any]:
        """What may leave the silo: the fields of its evaluation that follow from this."""
        return {
            **sum_tallies(self.tasks).model_dump(),
            "task_count": len(self.tasks),
            "worth": count_effective(self.tasks),
            "greedy_figures": sum_tallies(self.greedy) if self.greedy else None,
        }


def count_effective(tasks: dict[str, list[int]]) -> float | None:
    """Independent episodes that those of tasks are worth; nothing where each was played once."""
    counts = [(won, played) for won, played in tasks.values()]
    return None if all(n <= 1 for _, n in counts) else stats.effective_episodes(counts)


def sum_tallies(tasks: dict[str, list[int]]) -> Figures:
    """Successes and episodes of all tasks."""
    counts = list(tasks.values())
    return Figures(episodes=sum(c[1] for c in counts), successes=sum(c[0] for c in counts))


class PersonalManifest(TaskResult):
    """Commit of what a silo serves itself, in its private store."""

    kind: Literal["personal"] = "personal"
    """What the folder is."""
    choice: str
    """The candidate that did best on validation tasks; the global adapter wins a tie."""
    validation: dict[str, Figures]
    """How each candidate did on them."""
    files: dict[str, FileEntry] = Field(default_factory=dict)
    """Files of the folder; none where the global adapter itself is the choice."""

    def figures(self) -> Figures:
        """Its successes among its episodes of held-out tasks."""
        return sum_tallies(self.tasks)


def check_same_run(place: tuple[str, S3], theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Refuse to continue from results of another run, naming the first fields that differ.

    `place` is the field of the spec that names the store, and what it says.
    """
    differing = differences(theirs, ours)
    if not differing:
        return
    shown = ", ".join(
        f"{path} {_describe(old)} there, {_describe(new)} here" for path, old, new in differing[:3]
    )
    field, s3 = place
    where = f"s3://{s3.bucket}/{s3.prefix}".rstrip("/")
    raise AnotherRun(
        f"{field}: {where} holds another run ({shown})",
        hint=f"choose another {field}.prefix, or set the field back to continue that run",
    )


def _describe(value: Any) -> str:
    return "nothing" if value is None else describe_value(value)
