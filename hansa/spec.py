"""Federation.spec as data: defaults, bounds and meaning of every field, described once.

The CRD, the reference docs and the sentences of `hansa validate` are all made from these models.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from hansa import contributions, secure
from hansa.aggregation import Aggregation as Aggregation
from hansa.base import Model as Model
from hansa.base import Sha256
from hansa.endpoint import Endpoint as Endpoint
from hansa.evaluation import Evaluation as Evaluation
from hansa.evaluation import Guard as Guard
from hansa.exploration import Exploration as Exploration
from hansa.members import Exchange, RemoteSilo
from hansa.privacy import settings as private
from hansa.privacy.settings import Privacy as Privacy
from hansa.probes import Probes, check
from hansa.secure import MaskingKey
from hansa.storage import S3 as S3
from hansa.storage import ExchangeStorage as ExchangeStorage
from hansa.storage import SecretKey as SecretKey
from hansa.storage import SecretName as SecretName
from hansa.storage import Storage as Storage
from hansa.tracking.fields import Tracking as Tracking
from hansa.training import Training as Training

MAX_ENVIRONMENTS = 100
MAX_FEDERATION_NAME = 40
RESERVED_ENVIRONMENT_NAMES = frozenset({"aggregator"})

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
FileSource = Annotated[
    str,
    Field(
        pattern=r"^(s3://[a-z0-9][a-z0-9.-]+/([^\s*?$]*[^\s*?$/])|(path:)?[^\s:][^:]*)$",
        max_length=500,
    ),
]
"""One file: `s3://bucket/key`, or a path with or without `path:` before it.

A key goes into policies, where `*`, `?`, `$` or a slash at its end would open more than one object.
"""
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
        document = self.to_json()
        document.pop("shapes", None)
        return document


World = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9_.]*[a-z0-9])?)?$", max_length=63)]
DemonstrationCount = Annotated[int, Field(ge=0, le=100_000)]


class Experience(Model):
    """What an environment keeps and learns from."""

    demonstrations: DemonstrationCount = 40
    """Expert episodes that start the experience, as shard 0; of a file, at most this many."""
    demonstrations_from: FileSource | None = None
    """File in AgentGym's format to take them from, once: `s3://bucket/key` or a path."""
    thoughts: bool = True
    """Whether the world's expert writes `Thought: ... Action: ...`, or the bare action."""
    max_trajectories: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """The newest trajectories kept for training; 0 keeps all, as in Fed-SE."""
    per_task: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Most trajectories of one task, the newest, equal ones once; 0: all, as in Fed-SE."""
    recency: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of explored trajectories that each round of age leaves; 1: all, as in Fed-SE."""
    filter: Literal["success", "none"] = "success"
    """`success` trains on successful trajectories only; `none` on all of them (an ablation)."""
    circles: Literal["skip", "keep"] = "keep"
    """`skip`: of an explored success, actions that led back to an earlier state are not trained."""
    history: bool = True
    """Whether trajectories of earlier rounds are trained on again; demonstrations always are."""


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
    world: World = ""
    """World it plays: maze, wordle, textcraft, babyai, webshop, or one that a package brings; of a
    silo that runs elsewhere, nobody else's affair."""
    member: RemoteSilo | None = None
    """Its presence says that the silo runs elsewhere, in a cluster or on a machine of its own."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Handed to the world as they are."""
    demonstrations: DemonstrationCount | None = None
    """The silo's own number instead of experience.demonstrations; 0: none."""
    demonstrations_from: FileSource | None = None
    """The silo's own file instead of experience.demonstrationsFrom, read with its credentials."""
    credentials_secret: SecretName | None = None
    """The silo's own S3 credentials: reads global/, writes its own folders, nothing else."""
    experience_storage: Storage | None = None
    """The silo's private store for trajectories, whose endpoint cannot change, either; its own
    credentialsSecret and caSecret open it and nothing else; absent: a private prefix of
    spec.storage."""
    experience_key_secret: SecretName | None = None
    """Secret with the silo's own key as `sealing.key`: all of its experience is sealed to it, from
    the first round on; only this silo's Jobs get it. `hansa run` takes a file instead
    (HANSA_EXPERIENCE_KEY in --credentials)."""
    masking_key: MaskingKey | None = None
    """Public half of the silo's masking key, for aggregation.secure; cannot change."""
    masking_secret: SecretName | None = None
    """Secret with the private half as `masking.key`; only this silo's clients get it. `hansa run`
    takes files instead (--masking-keys)."""
    endpoint: Endpoint | None = None
    """The silo's own server for the agent's turns; absent: the client writes them itself."""
    pod_template: dict[str, Any] = Field(default_factory=dict)
    """Merged into this environment's client Jobs."""
    queue_name: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Kueue LocalQueue that its Jobs wait in."""


OWN_AFFAIRS = (
    *("world", "options", "demonstrations_from", "credentials_secret"),
    *("experience_storage", "experience_key_secret", "masking_secret", "endpoint"),
    *("pod_template", "queue_name"),
)
"""Fields of an environment that only its owner sets once it runs elsewhere."""


class FederationSpec(Model):
    """One base model, one adapter, several environments and the rounds that make it better."""

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
    evolved on alone, `best` the best of all these."""
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
    tracking: Tracking | None = None
    """An experiment tracker that gets the figures of every round; absent: none."""
    pod_template: dict[str, Any] = Field(default_factory=dict)
    """Defaults for every client Job's Pod template: where and with how much they run."""
    environments: Annotated[list[Environment], Field(min_length=1, max_length=MAX_ENVIRONMENTS)]
    """The silos that take part."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        first: dict[str, int] = {}
        for index, environment in enumerate(self.environments):
            where = f"environments[{index}].name"
            if environment.name in RESERVED_ENVIRONMENT_NAMES:
                raise ValueError(f"{where}: got '{environment.name}', which Hansa keeps for itself")
            if environment.name in first:
                raise ValueError(
                    f"{where}: got '{environment.name}' a second time "
                    f"(first at environments[{first[environment.name]}]), expected unique names"
                )
            first[environment.name] = index
            self._check_place(environment, f"environments[{index}]")
        self._check_exchange()
        self._check_endpoints()
        minimum = self.participation.minimum_updates
        if minimum is not None and minimum > len(self.environments):
            raise ValueError(
                f"participation.minimumUpdates: got {minimum}, expected 1 to "
                f"{len(self.environments)} (spec.environments has {len(self.environments)} entries)"
            )
        self.aggregation.check_options()
        self.training.check_options()
        self.aggregation.check_step()
        self.aggregation.check_members(len(self.environments))
        check(self.probes or [], self.guard, self.aggregation.strategy)
        self._check_guard()
        self.aggregation.check_sealing(
            [
                bool(e.member or e.experience_storage or e.experience_key_secret)
                for e in self.environments
            ]
        )
        secure.check(self)
        if self.evaluation.alone and self.aggregation.strategy == "none":
            raise ValueError(
                "evaluation.alone: got true, and with aggregation.strategy none every silo is "
                "alone already, expected false or another strategy"
            )
        self.training.check_exploration(
            self.exploration.tasks_per_round,
            self.exploration.samples_per_task,
            self.experience.filter,
        )
        private.check(self)
        contributions.check(self)
        return self

    def _check_place(self, environment: Environment, where: str) -> None:
        """What a silo decides itself has no field here once it runs elsewhere."""
        if environment.member is None:
            if not environment.world:
                raise ValueError(
                    f"{where}.world: got nothing, expected the world that it plays, or member for "
                    "a silo that runs elsewhere"
                )
            return
        for field in OWN_AFFAIRS:
            if getattr(environment, field):
                alias = Environment.model_fields[field].alias or field
                raise ValueError(
                    f"{where}.{alias}: got a value, expected none: a silo with member runs "
                    "elsewhere, and its owner says so in its FederationMember"
                )

    def _check_exchange(self) -> None:
        remote = next((e.name for e in self.environments if e.member), None)
        if remote is None:
            return
        needed = {
            "exchange": self.exchange,
            "storage": self.storage,
            "model.sha256": self.model.sha256,
            "adapter.shapes": self.adapter.shapes,
        }
        for path, value in needed.items():
            if value is None:
                raise ValueError(
                    f"{path}: got nothing, expected a value, since {remote} runs elsewhere"
                )

    def _check_endpoints(self) -> None:
        """With engine openai every silo of here has an endpoint; one elsewhere checks its own."""
        if self.exploration.engine != "openai":
            return
        for index, environment in enumerate(self.environments):
            if environment.endpoint is None and environment.member is None:
                raise ValueError(
                    f"environments[{index}].endpoint: got nothing, expected the silo's own server, "
                    "since exploration.engine is openai"
                )

    def _check_guard(self) -> None:
        if not self.guarded:
            return
        if self.aggregation.strategy == "none":
            raise ValueError(
                "guard: got one, and aggregation.strategy none has no global adapter to guard, "
                "expected another strategy or no guard"
            )
        if not self.evaluation.chosen_by(guarded=True):
            raise ValueError(
                "evaluation.validationTasks: got 0, by which a guard can judge nothing, "
                "expected at least 1 or none given"
            )

    @property
    def guarded(self) -> bool:
        """Whether something watches over new adapters."""
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

    def private_storage(self, environment: str) -> Storage | None:
        """Where an environment's experience goes: its own store, or else the federation's."""
        return self.environment(environment).experience_storage or self.storage


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


def differences(old: Any, new: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves that differ between two JSON documents, as (path, old, new)."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            leaf
            for key in sorted(old.keys() | new.keys())
            for leaf in differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if old == new else [(path, old, new)]
