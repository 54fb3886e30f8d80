"""FederationMember.spec as data: what a silo's owner agreed to, and how far an order may go beyond.

What nobody else may decide stands here and in no order: world, options, demonstrations, the private
store, the image and its Pod template.
"""

from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from hansa.api.constants import RESERVED_ENVIRONMENT_NAMES
from hansa.api.endpoint import Endpoint
from hansa.api.exchange import PollSeconds, PublicKeys
from hansa.api.experience import DemonstrationCount
from hansa.api.secure_aggregation import LEAST, MaskingKey
from hansa.api.spec import (
    MAX_ENVIRONMENTS,
    MAX_SECONDS,
    Adapter,
    DnsName,
    FederationName,
    FileSource,
    Metadata,
    ModelPlace,
    ModelSource,
    QueueName,
    Seconds,
    SecretName,
    Storage,
)
from hansa.api.status import RoundSettings
from hansa.core.model import Model, Sha256
from hansa.validation.json_schema import find_field, flatten_schema

Clock = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
OrderPath = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+(\.[A-Za-z0-9]+)*$", max_length=100)]


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"limits.windows.timeZone: got '{name}', expected a time zone such as Europe/Berlin"
        ) from None
    return name


class Window(Model):
    """Hours in which work may start; what runs when they end is not stopped."""

    days: Annotated[list[Day], Field(min_length=1, max_length=7)] = Field(
        default_factory=lambda: list(DAYS)
    )
    """Days on which it begins."""
    from_: Annotated[Clock, Field(alias="from")]
    """When it begins, as 20:00."""
    to: Clock
    """When it ends; not later than `from`: on the next day."""
    time_zone: Annotated[str, Field(max_length=50), AfterValidator(_check_zone)] = "UTC"
    """Time zone of both, as Europe/Berlin."""


class Agreement(Model):
    """What the invitation said, and the owner agreed to: an order that differs is refused."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)]
    """The federation's seed."""
    rounds: Annotated[int, Field(ge=1, le=10_000)]
    """Rounds that the silo works for."""
    model: ModelSource
    """The base model, by its digest."""
    adapter: Adapter
    """The adapter's shape."""
    settings: RoundSettings
    """How a round explores, trains, evaluates and merges."""
    demonstrations: DemonstrationCount | None = None
    """The silo's own number of demonstrations; absent: that of settings.experience."""
    masking_keys: dict[DnsName, MaskingKey] | None = None
    """Public masking keys of all silos, where updates are masked: an order names no others."""


class AllowedChanges(Model):
    """Fields in which an order may differ from what was agreed."""

    most: Annotated[dict[OrderPath, float], Field(max_length=50)] = Field(default_factory=dict)
    """Numbers that may be up to this, whatever was agreed, as `rounds` or
    `settings.exploration.tasksPerRound`."""
    only: Annotated[
        dict[OrderPath, Annotated[list[Any], Field(min_length=1, max_length=50)]],
        Field(max_length=50),
    ] = Field(default_factory=dict)
    """Fields that may be one of these, as `settings.training.learner`."""
    free: Annotated[list[OrderPath], Field(max_length=50)] = Field(default_factory=list)
    """Fields that may be anything, with all below them."""

    def find_unknown_path(self) -> str:
        """What names no field of the agreement, in a sentence; empty where all do."""
        for kind, paths in (("most", self.most), ("only", self.only), ("free", self.free)):
            for path in paths:
                if not find_field(flatten_schema(Agreement), tuple(path.split("."))):
                    return (
                        f"limits.{kind}: got '{path}', expected a path of spec.agreed, "
                        "such as settings.exploration.tasksPerRound"
                    )
        return ""


class Limits(AllowedChanges):
    """How far an order may go beyond what was agreed; what is not named must be as agreed, but for
    settings of the merge that no client reads."""

    minimum_peers: Annotated[int, Field(ge=LEAST, le=MAX_ENVIRONMENTS)] = LEAST
    """Silos that a masked sum must have at least."""
    episodes: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Most episodes of all rounds together, explored and evaluated; 0: those of the agreed rounds
    and of one evaluation after them."""
    job_seconds: Seconds = 7200
    """How long one Job may take."""
    job_seconds_per_day: Annotated[int, Field(ge=0, le=MAX_SECONDS)] = 0
    """How long all Jobs that start on one day (UTC) may take together; 0: no limit."""
    windows: Annotated[list[Window], Field(max_length=20)] = Field(default_factory=list)
    """When Jobs may start; none: always."""


class Coordinator(Model):
    """The federation that the silo takes part in, as its invitation says."""

    name: FederationName
    """Name of the federation."""
    run: Sha256
    """Which run of it: letters of another are refused."""
    environment: DnsName
    """The silo's name in it."""
    public_keys: PublicKeys
    """Keys that may sign its orders, newest first."""


class MemberSpec(Model):
    """One silo's part in a federation that somebody else coordinates."""

    federation: Coordinator
    """What it takes part in."""
    storage: Storage
    """The bucket between the parties, by the silo's own address and credentials."""
    signing_secret: SecretName | None = None
    """Secret with the silo's own key as `signing.key`; only its courier gets it."""
    masking_secret: SecretName | None = None
    """Secret with the silo's masking key as `masking.key`, where updates are masked; only its
    clients get it. `hansa join` takes a file instead (--masking-key)."""
    public_keys: PublicKeys
    """The silo's own keys, newest first, by which it knows its own letters."""
    world: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$", max_length=63)]
    """World it plays."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Handed to the world as they are."""
    demonstrations_from: FileSource | None = None
    """File of demonstrations in AgentGym's format, read with the silo's own credentials."""
    experience_storage: Storage | None = None
    """The silo's private store for trajectories; `hansa join` starts one of its own when absent."""
    experience_key_secret: SecretName | None = None
    """Secret with the silo's own key as `sealing.key`: all of its experience is sealed to it, from
    the first round on, in the shared bucket where experienceStorage is absent; only its clients
    get it. `hansa join` takes a file instead (HANSA_EXPERIENCE_KEY in --credentials)."""
    endpoint: Endpoint | None = None
    """The silo's own server for the agent's turns; absent: the client writes them itself."""
    model_from: ModelPlace | None = None
    """Where this silo has the base model; absent: where the order says. Its digest decides."""
    agreed: Agreement
    """What the owner agreed to, as the invitation has it."""
    limits: Limits = Field(default_factory=Limits)
    """How far an order may go beyond that."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    """New attempts after a Job failed; disruptions and a dead store do not count."""
    start_timeout_seconds: Seconds = 600
    """How long a Job may wait to start before that attempt has failed."""
    poll_seconds: PollSeconds = 15
    """How often the bucket is asked for a new order."""
    suspend: bool = False
    """Stops running Jobs and asks for no orders while true; nothing is lost."""
    leave: bool = False
    """Tells the coordinator that the silo takes no further part, and stops."""
    pod_template: dict[str, Any] = Field(default_factory=dict)
    """Merged into the client Jobs; its image is the silo's own."""
    queue_name: QueueName | None = None
    """Kueue LocalQueue that its Jobs wait in."""

    @property
    def most_rounds(self) -> float:
        """Rounds that the owner allows."""
        return self.limits.most.get("rounds", self.agreed.rounds)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.federation.environment in RESERVED_ENVIRONMENT_NAMES:
            raise ValueError(
                f"federation.environment: got '{self.federation.environment}', which Hansa keeps "
                "for itself"
            )
        digests = {
            "model.sha256": self.agreed.model.sha256,
            "adapter.shapes": self.agreed.adapter.shapes,
        }
        for path, digest in digests.items():
            if digest is None:
                raise ValueError(
                    f"agreed.{path}: got nothing, expected the digest that `hansa model` prints"
                )
        if wrong := self.limits.find_unknown_path():
            raise ValueError(wrong)
        self._check_private_store()
        return self

    def _check_private_store(self) -> None:
        """What privacy and masks keep to the silo must not lie where updates are exchanged."""
        settings, private = self.agreed.settings, self.experience_storage
        asks = {
            "privacy": settings.privacy is not None,
            "aggregation.secure": settings.aggregation.secure is not None,
        }
        field = next((name for name, is_set in asks.items() if is_set), None)
        if field is None or private is None:
            return  # a client without a private store refuses, and `hansa join` starts one
        exchange, own = self.storage.s3, private.s3
        if (own.endpoint, own.bucket) == (exchange.endpoint, exchange.bucket):
            raise ValueError(
                f"experienceStorage.s3.bucket: got {own.bucket}, where updates are exchanged, "
                f"expected another bucket or endpoint with {field}: it must be the silo's alone"
            )


class MemberObject(Model):
    """The whole object, as kubectl would print it."""

    api_version: Literal["hansa.dev/v1alpha1"] = "hansa.dev/v1alpha1"
    """API group and version."""
    kind: Literal["FederationMember"] = "FederationMember"
    """Kind of object."""
    metadata: Metadata
    """Name and generation."""
    spec: MemberSpec
    """What the silo's owner wants."""
