"""Letters between a coordinator and the silos of other clusters: their forms, bytes and faults.

Each is bound to its run, its environment and its place in the log, and names the digest of the
letter before it. None contains times or free text: a letter that is written again has equal bytes,
and the other side shows codes only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from hansa.api import bucket_keys, ownership
from hansa.api.assignment import Assignment, ClientReport, EvaluateReport
from hansa.api.bucket_documents import AuditHead, Count, Sha256, StartAdapter, canonical, sha256
from hansa.api.experience import Experience
from hansa.api.ownership import Owner
from hansa.api.secure_aggregation import SecureAggregation
from hansa.api.spec import S3, Adapter, DnsName, Model, ModelSource, Privacy, Seconds
from hansa.api.status import RoundSettings
from hansa.crypto import dsse
from hansa.crypto.dsse import SigningKey, Unverified
from hansa.validation.json_size import is_crowded

Fault = dsse.Fault | Literal["size", "run", "environment", "serial", "chain", "order", "flooded"]
FAULTS: dict[Fault, str] = {
    "size": "the object is longer than a letter may be",
    "malformed": "the object is not a letter that this version can read",
    "payload-type": "the letter is of another kind: an order among answers, or the reverse",
    "unknown-key": "the letter is signed by a key that is not in the list",
    "signature": "the letter is not what the named key has signed",
    "run": "the letter belongs to another run",
    "environment": "the letter is to or of another environment",
    "serial": "the letter belongs to another place in the log",
    "chain": "the letter names another one before it than was read: a fork, or a restored backup",
    "order": "the answer is to another order than was posted under that number",
    "flooded": "too many objects are no letters: the rest is read in the next run",
}
"""What can be wrong with an object in a log; `chain` is reported only, all others are skipped."""

Veto = Literal["differs", "most", "only", "unknown", "place", "budget"]
VETOES: dict[Veto, str] = {
    "differs": "the value is not the one that was agreed on",
    "most": "the value is above what the silo allows",
    "only": "the value is not one of those that the silo allows",
    "unknown": "the field is not part of what was agreed on",
    "place": "the bucket or prefix is another one",
    "budget": "the silo allows no more rounds or episodes",
}
"""Why a silo does not do what an order says."""


def _list_paths(kind: type[Model], above: str) -> Iterator[str]:
    yield above
    for field in kind.model_fields.values():
        path = f"{above}.{field.alias}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, Model):
            yield from _list_paths(field.annotation, path)
        else:
            yield path


SILO_FIELDS = ownership.list_fields(Assignment, Owner.SILO)
"""Fields of an assignment that an order leaves empty, since the silo sets them."""
SILO_EXPERIENCE = ownership.list_fields(Experience, Owner.SILO)
"""The same of its settings."""
PATHS = frozenset(
    {
        *("seed", "rounds", "round", "episodes", "aloneRounds", "demonstrations"),
        *("federation", "environment", "role", "storage.bucket", "storage.prefix"),
        *(ownership.get_alias(Assignment, name) for name in SILO_FIELDS),
        *("masking", "masking.peers", "masking.epoch"),
        *_list_paths(ModelSource, "model"),
        *_list_paths(Adapter, "adapter"),
        *_list_paths(RoundSettings, "settings"),
        *_list_paths(Privacy, "settings.privacy"),
        *_list_paths(SecureAggregation, "settings.aggregation.secure"),
    }
)
"""Fields that a veto may name: a fixed list, so that no free text reaches the other party."""


def _check_path(path: str) -> str:
    if path not in PATHS:
        raise ValueError("a path that no order has")
    return path


class Reference(Model):
    """One letter of the other party."""

    serial: Annotated[int, Field(ge=1, le=2**53)]
    """Its place in the log."""
    digest: Sha256
    """Digest of its signed bytes."""


class Letter(Model):
    """What every letter has."""

    version: Literal[1] = 1
    """Version of this document."""
    run: Sha256
    """The run it belongs to (`run_of`)."""
    environment: DnsName
    """The silo it is to, or of."""
    serial: Count = 0
    """Its place in the log, from 1; 0 before it is posted."""
    previous: Sha256 | Literal[""] = ""
    """Digest of the writer's last letter; empty in the first."""

    def place_at(self, serial: int, previous: str) -> Self:
        """The letter at its place in the log."""
        return self.model_copy(update={"serial": serial, "previous": previous})

    def has_same_content(self, other: "Letter") -> bool:
        """Whether both have the same content, wherever in the log."""
        return self.place_at(0, "") == other.place_at(0, "")


class OrderLetter(Letter):
    """What every letter of the coordinator has."""

    instance: Annotated[str, Field(max_length=64)] = ""
    """Random id of the coordinator's object. Where a bucket was emptied and a run begun anew, the
    same orders have other digests, so old answers are answers to other orders."""


class Work(OrderLetter):
    """An order to play a round, or to evaluate an adapter."""

    kind: Literal["work"] = "work"
    """Which letter this is."""
    assignment: Assignment
    """What to do; `without_the_silos_own` has left out what the silo decides by itself."""
    start_seconds: Seconds
    """How long the coordinator waits for the order to be taken."""
    round_seconds: Seconds
    """How long the round waits for all."""
    audit: AuditHead | None = None
    """Newest entry of the audit log, which the coordinator vouches for by its signature."""

    @model_validator(mode="after")
    def _check_assignment(self) -> Self:
        work = self.assignment
        if work.role not in ("client", "evaluate") or work.members:
            raise ValueError("assignment.role: expected client or evaluate")
        if work.environment != self.environment or self.environment not in work.environments:
            raise ValueError("assignment.environment: expected that of the letter")
        bare = strip_silo_fields(work).model_copy(update={"settings": work.settings})
        if work != bare:
            raise ValueError("assignment: expected nothing that the silo decides by itself")
        return self


def strip_silo_fields(assignment: Assignment) -> Assignment:
    """An assignment as an order has it: world, files, stores and addresses are the silo's own."""
    settings = assignment.settings
    experience = ownership.clear_fields(settings.experience, SILO_EXPERIENCE)
    place = S3(bucket=assignment.storage.bucket, prefix=assignment.storage.prefix)
    shared = {"storage": place, "settings": settings.model_copy(update={"experience": experience})}
    return ownership.clear_fields(assignment, SILO_FIELDS).model_copy(update=shared)


class Rest(OrderLetter):
    """There is nothing to do; a later order may say otherwise."""

    kind: Literal["rest"] = "rest"
    """Which letter this is."""
    why: Literal["suspended", "finished", "removed", "missed"]
    """Why there is nothing; `missed`: its last order was not taken in time, and is taken back."""
    adapter: StartAdapter | None = None
    """The global adapter that counts; absent: none was made."""
    audit: AuditHead | None = None
    """Newest entry of the audit log, as in an order to work."""


class Hello(Letter):
    """The silo is there."""

    kind: Literal["hello"] = "hello"
    """Which letter this is."""
    program: Annotated[str, Field(pattern=r"^[0-9A-Za-z.+-]{1,40}$")]
    """Version of its program."""


class Reply(Letter):
    """What a silo says to one order."""

    order: Reference
    """The order."""


class TakenReply(Reply):
    """The silo works on the order."""

    kind: Literal["taken"] = "taken"
    """Which letter this is."""


class WaitsReply(Reply):
    """The silo will work on the order later."""

    kind: Literal["waits"] = "waits"
    """Which letter this is."""
    code: Literal["window", "budget", "queue", "start"]
    """What it waits for."""
    seconds: Count
    """How long, as far as it knows; nobody counts on it."""


class RefusedReply(Reply):
    """The silo's limits do not allow the order; what they are stays in the silo."""

    kind: Literal["refused"] = "refused"
    """Which letter this is."""
    code: Veto
    """Why not."""
    path: Annotated[str, AfterValidator(_check_path)]
    """The field of the order that it is about."""


class FailedReply(Reply):
    """The silo tried, and gave up."""

    kind: Literal["failed"] = "failed"
    """Which letter this is."""
    exit: Annotated[int, Field(ge=0, le=255)]
    """Exit code of its last attempt."""
    attempts: Count
    """How often it tried."""


class Answer(Reply):
    """The silo did what the order says."""

    kind: Literal["answer"] = "answer"
    """Which letter this is."""
    report: Annotated[ClientReport | EvaluateReport, Field(discriminator="kind")]
    """What its client reports; `manifest` in it is the digest that the gate asks for."""
    evaluations: Annotated[
        dict[Annotated[str, Field(pattern=r"^[0-9]{5,9}(-own)?$")], Sha256], Field(max_length=4)
    ] = Field(default_factory=dict)
    """Digests of the evaluations it wrote, by the names of their objects."""


class Leave(Letter):
    """The silo leaves the federation."""

    kind: Literal["leave"] = "leave"
    """Which letter this is."""


Order = Work | Rest
Answers = Hello | TakenReply | WaitsReply | RefusedReply | FailedReply | Answer | Leave


@dataclass(frozen=True, kw_only=True)
class LetterLog:
    """One of the two kinds of logs."""

    payload_type: str
    """What its envelopes say they hold."""
    limit: int
    """Bytes of an envelope at most."""
    key: Callable[[str, str, int], str]
    """Where a letter lies: prefix, environment, serial."""
    kinds: TypeAdapter[Any]
    """Letters that may be in it."""


ORDERS = LetterLog(
    payload_type="application/vnd.hansa.order.v1+json",
    limit=64 * 1024,
    key=bucket_keys.order,
    kinds=TypeAdapter(Annotated[Order, Field(discriminator="kind")]),
)
ANSWERS = LetterLog(
    payload_type="application/vnd.hansa.answer.v1+json",
    limit=8 * 1024,
    key=bucket_keys.answer,
    kinds=TypeAdapter(Annotated[Answers, Field(discriminator="kind")]),
)


class InvalidLetter(Exception):
    """Bytes that are no letter of this place in this log."""

    def __init__(self, code: Fault) -> None:
        super().__init__(FAULTS[code])
        self.code: Fault = code


def compute_run_id(storage: S3, identity: dict[str, Any]) -> str:
    """Which run letters belong to: its place and its immutable fields.

    So an object that was deleted and applied again continues the same logs.
    """
    place = {"bucket": storage.bucket, "prefix": storage.prefix}
    return sha256(canonical({**place, "identity": identity}))


def digest_letter(letter: Letter) -> str:
    """Digest of the bytes that are signed, which a chain and a reply name."""
    return sha256(canonical(letter.to_json()))


def write_letter(log: LetterLog, letter: Letter, key: SigningKey) -> bytes:
    """The letter's object; the same bytes each time."""
    log.kinds.validate_python(letter)
    data = dsse.sign_envelope(key, log.payload_type, canonical(letter.to_json()))
    if len(data) > log.limit:
        raise ValueError(f"letter has {len(data)} bytes, expected at most {log.limit}")
    return data


def read_letter(
    log: LetterLog, data: bytes, *, trusted: Sequence[str], run: str, environment: str, serial: int
) -> tuple[Letter, str]:
    """A letter and its digest; NoLetter where it is not signed, or belongs elsewhere.

    Verified before it is parsed: a payload without a trusted signature is never parsed.
    """
    if len(data) > log.limit:
        raise InvalidLetter("size")
    try:
        payload = dsse.verify_envelope(data, log.payload_type, trusted)
    except Unverified as refusal:
        raise InvalidLetter(refusal.code) from None
    if is_crowded(payload):
        raise InvalidLetter("malformed")
    try:
        letter: Letter = log.kinds.validate_json(payload)
    except ValidationError:
        raise InvalidLetter("malformed") from None
    if letter.run != run:
        raise InvalidLetter("run")
    if letter.environment != environment:
        raise InvalidLetter("environment")
    if letter.serial != serial:
        raise InvalidLetter("serial")
    return letter, sha256(payload)
