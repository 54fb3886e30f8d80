"""Federation.spec as data: defaults, bounds and meaning of every field, described once.

The CRD, the reference docs and the sentences of `hansa validate` are all made from these models.
`spec` adds the checks that need several fields at once.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from hansa.api.aggregation import Aggregation
from hansa.api.endpoint import Endpoint
from hansa.api.evaluation import Evaluation, Guard
from hansa.api.exchange import Exchange, RemoteSilo
from hansa.api.experience import DemonstrationCount, Experience, Exploration, FileSource
from hansa.api.ownership import Owner
from hansa.api.privacy import Privacy
from hansa.api.probes import Probes
from hansa.api.secure_aggregation import MaskingKey
from hansa.api.storage import S3, ExchangeStorage, SecretName, Storage
from hansa.api.training import Training
from hansa.core.errors import InputError
from hansa.core.model import Model, Sha256

MAX_ENVIRONMENTS = 100
MAX_FEDERATION_NAME = 40

DnsName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=30)
]
FederationName = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=MAX_FEDERATION_NAME),
]
MAX_SECONDS = 30 * 24 * 3600
"""The longest wait."""
Seconds = Annotated[int, Field(ge=1, le=MAX_SECONDS)]
PersonalizationMode = Literal["none", "interpolate", "finetune", "best"]


ModelPlace = Annotated[
    str,
    Field(
        pattern=r"^(builtin:[a-z0-9-]+|s3://[^/\s]+/\S+|hf:[\w.-]+/[\w.-]+(@[\w.-]+)?|path:\S.*)$",
        max_length=500,
    ),
]


class ModelSource(Model):
    """The base model; only the adapter is trained, so every silo needs the same base."""

    source: ModelPlace = "builtin:tiny"
    """One of `builtin:tiny`, `s3://bucket/prefix`, `hf:org/name@revision` and `path:/dir`."""
    sha256: Sha256 | None = None
    """Digest of the base model's files, as `hansa model` prints it: other files are refused;
    absent: most members of the first round decide."""

    def identity(self) -> dict[str, Any]:
        """What results follow from; a digest only says which files are the right ones."""
        return {"source": self.source}


class Adapter(Model):
    """Shape of the LoRA adapter that the federation trains."""

    rank: Annotated[int, Field(ge=1, le=256)] = 8
    """Rank r of the update B·A."""
    alpha: Annotated[int, Field(ge=1, le=1024)] = 16
    """LoRA's alpha; the update is scaled by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout on the adapter's input while training."""
    target_modules: (
        Literal["all-linear"]
        | Annotated[
            list[Annotated[str, Field(min_length=1, max_length=100)]],
            Field(min_length=1, max_length=50),
        ]
    ) = "all-linear"
    """Names of the layers that get an adapter, or `all-linear`."""
    shapes: Sha256 | None = None
    """Digest of the names and shapes of the adapter's tensors, as `hansa model` prints it: updates
    of others are refused; absent: most members of the first round decide."""

    def identity(self) -> dict[str, Any]:
        """What results follow from; the digest only says which shapes are the right ones."""
        return {name: value for name, value in self.to_json().items() if name != "shapes"}


QueueName = Annotated[str, Field(min_length=1, max_length=63)]
World = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9_.]*[a-z0-9])?)?$", max_length=63)]


class Participation(Model):
    """Who must take part in a round, and how long the others wait."""

    minimum_updates: Annotated[int, Field(ge=1, le=MAX_ENVIRONMENTS)] | None = None
    """Environments that must answer before the round may be aggregated; absent: all."""
    round_timeout_seconds: Seconds = 3600
    """How long a round waits for all, from its first running client; then the minimum is enough."""
    start_timeout_seconds: Seconds = 600
    """How long a client may wait to start, as for a GPU, before that attempt has failed."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    """New attempts after a client failed in a round; disruptions and a dead store do not count."""


class Environment(Model):
    """One silo: a world with its tasks, its private experience, its own pods and credentials."""

    name: DnsName
    """Unique name; part of Job names and bucket keys."""
    world: Annotated[World, Owner.SILO] = ""
    """World it plays: maze, wordle, textcraft, babyai, webshop, or one that a package brings; leave
    it empty for a silo that runs elsewhere."""
    member: RemoteSilo | None = None
    """Its presence says that the silo runs elsewhere, in a cluster or on a machine of its own."""
    options: Annotated[dict[str, Any], Owner.SILO] = Field(default_factory=dict)
    """Handed to the world as they are."""
    demonstrations: DemonstrationCount | None = None
    """The silo's own number instead of experience.demonstrations; 0: none."""
    demonstrations_from: Annotated[FileSource | None, Owner.SILO] = None
    """The silo's own file instead of experience.demonstrationsFrom, read with its credentials."""
    credentials_secret: Annotated[SecretName | None, Owner.SILO] = None
    """The silo's own S3 credentials: reads global/, writes its own folders, nothing else."""
    experience_storage: Annotated[Storage | None, Owner.SILO] = None
    """The silo's private store for trajectories, with a credentialsSecret and caSecret of its own;
    its endpoint cannot change; absent: a private prefix of spec.storage."""
    experience_key_secret: Annotated[SecretName | None, Owner.SILO] = None
    """Secret with the silo's own key as `sealing.key`: all of its experience is sealed to it, from
    the first round on; only this silo's Jobs get it. `hansa run` takes a file instead
    (HANSA_EXPERIENCE_KEY in --credentials)."""
    masking_key: MaskingKey | None = None
    """Public half of the silo's masking key, for aggregation.secure; cannot change."""
    masking_secret: Annotated[SecretName | None, Owner.SILO] = None
    """Secret with the private half as `masking.key`; only this silo's clients get it. `hansa run`
    takes files instead (--masking-keys)."""
    endpoint: Annotated[Endpoint | None, Owner.SILO] = None
    """The silo's own server for the agent's turns; absent: the client writes them itself."""
    pod_template: Annotated[dict[str, Any], Owner.SILO] = Field(default_factory=dict)
    """Merged into this environment's client Jobs."""
    queue_name: Annotated[QueueName | None, Owner.SILO] = None
    """Kueue LocalQueue that its Jobs wait in."""


class SpecFields(Model):
    """All fields of a spec, each checked separately."""

    rounds: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Rounds to complete; may grow, never shrink."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 7
    """Every random choice is drawn from this, the environment, the round and the purpose."""
    suspend: bool = False
    """Stops running Jobs and opens no round while true; nothing is lost."""
    model: ModelSource = Field(default_factory=ModelSource)
    """The base model."""
    adapter: Adapter = Field(default_factory=Adapter)
    """The adapter's shape."""
    exploration: Exploration = Field(default_factory=Exploration)
    """How new trajectories are gathered."""
    experience: Experience = Field(default_factory=Experience)
    """What is kept and learned from."""
    training: Training = Field(default_factory=Training)
    """How the adapter is trained."""
    evaluation: Evaluation = Field(default_factory=Evaluation)
    """How the global adapter is measured."""
    aggregation: Aggregation = Field(default_factory=Aggregation)
    """How updates become the next global adapter."""
    participation: Participation = Field(default_factory=Participation)
    """Who must take part, and for how long the others wait."""
    personalization: PersonalizationMode = "none"
    """What a silo serves after the last round, chosen by its own validation tasks: `none` the
    global adapter, `interpolate` a mix of it and its own update, `finetune` an adapter that
    it trained further alone, `best` the best of all these."""
    guard: Guard | None = None
    """What happens when an adapter does worse than the best so far; absent: nothing."""
    probes: Probes | None = None
    """What every silo plays on each adapter to see whether it breaks rules or forgets."""
    privacy: Privacy | None = None
    """Record-level differential privacy inside each silo; absent: none."""
    storage: ExchangeStorage | None = None
    """Where adapters are exchanged; `hansa run` starts a store of its own when absent."""
    exchange: Exchange | None = None
    """How the coordinator talks to silos that run elsewhere; needed once there is one."""
    pod_template: dict[str, Any] = Field(default_factory=dict)
    """Defaults for every client Job's Pod template: where and with how much they run."""
    environments: Annotated[list[Environment], Field(min_length=1, max_length=MAX_ENVIRONMENTS)]
    """The silos that take part."""

    @property
    def guarded(self) -> bool:
        """Whether a guard is on."""
        return self.guard is not None and self.guard.acts

    def identity(self) -> dict[str, Any]:
        """What one run can never change."""
        return {
            "seed": self.seed,
            "model": self.model.identity(),
            "adapter": self.adapter.identity(),
        }

    def environment(self, name: str) -> Environment:
        """The environment of that name; callers know it exists."""
        return next(e for e in self.environments if e.name == name)

    def require_s3(self) -> S3:
        """The bucket; an error where a manifest leaves it out and no local store stands in."""
        if self.storage is None:
            raise InputError("spec.storage: got nothing, expected storage.s3")
        return self.storage.s3

    def private_storage(self, environment: str) -> Storage | None:
        """Where an environment's experience goes: its own store, or else the federation's."""
        return self.environment(environment).experience_storage or self.storage


class RoundSettings(Model):
    """Mutable settings as they were when the round opened; all its attempts use these."""

    exploration: Annotated[Exploration, Owner.AGREEMENT] = Field(default_factory=Exploration)
    """How new trajectories are gathered."""
    experience: Annotated[Experience, Owner.AGREEMENT] = Field(default_factory=Experience)
    """What is kept and learned from."""
    training: Annotated[Training, Owner.AGREEMENT] = Field(default_factory=Training)
    """How the adapter is trained."""
    evaluation: Annotated[Evaluation, Owner.AGREEMENT] = Field(default_factory=Evaluation)
    """How the global adapter is measured."""
    aggregation: Annotated[Aggregation, Owner.AGREEMENT] = Field(default_factory=Aggregation)
    """How updates become the next global adapter."""
    step_factor: Annotated[float, Field(gt=0, le=1), Owner.AGGREGATOR] = 1.0
    """What the guard makes of a server step `auto`; one that is a number has it in itself."""
    personalization: Annotated[PersonalizationMode, Owner.AGREEMENT] = "none"
    """What each silo may serve instead of the last global adapter."""
    probes: Annotated[Probes | None, Owner.AGREEMENT] = None
    """Tasks and texts that show whether an adapter breaks rules or forgets."""
    privacy: Annotated[Privacy | None, Owner.AGREEMENT] = None
    """What each silo may give away of one record, with its noise; absent: nothing bounds it."""

    @classmethod
    def from_spec(cls, spec: SpecFields, step_factor: float = 1.0) -> "RoundSettings":
        """The settings that a round opened now would use."""
        chosen_by = spec.evaluation.count_validation_tasks(guarded=spec.guarded)
        steps = spec.rounds * spec.training.max_steps  # the noise depends on those of all rounds
        step = spec.aggregation.server_step
        scaled = step if isinstance(step, str) else step * step_factor
        return cls(
            exploration=spec.exploration,
            experience=spec.experience,
            training=spec.training,
            evaluation=spec.evaluation.model_copy(update={"validation_tasks": chosen_by}),
            aggregation=spec.aggregation.model_copy(update={"server_step": scaled}),
            step_factor=step_factor if scaled == "auto" else 1.0,
            personalization=spec.personalization,
            probes=spec.probes or None,
            privacy=spec.privacy.fixed(steps) if spec.privacy else None,
        )


class Metadata(Model):
    """The part of Kubernetes' object metadata that a plan needs; the rest is left alone."""

    model_config = ConfigDict(extra="ignore")

    name: FederationName
    """Name of the federation."""
    namespace: str = "default"
    """Namespace it lives in."""
    uid: str = ""
    """Kubernetes' identity of the object."""
    generation: int = 1
    """Grows with every change of the spec."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Free annotations."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Free labels."""
