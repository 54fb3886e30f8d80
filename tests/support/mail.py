"""Letters of a coordinator and of a silo named maze, in one line each."""

import base64
from typing import Any

from hansa.api import letters
from hansa.api.assignment import Assignment, ClientReport
from hansa.api.bucket_documents import Counts
from hansa.api.letters import Answer, Hello, Letter, LetterLog, Reference, Rest, TakenReply, Work
from hansa.api.spec import S3
from hansa.api.status import RoundSettings
from hansa.crypto.dsse import SigningKey, read_key
from hansa.members.mailbox import Mailbox
from hansa.store.base import ObjectStore
from tests.support.memory_store import MemoryStore

_HEAD = bytes.fromhex("302e020100300506032b657004220420")
"""How PKCS8 begins before the 32 bytes of an Ed25519 key."""


def key_of(text: str) -> SigningKey:
    """A key that is the same in each run of the tests; `text` is one letter."""
    body = base64.b64encode(_HEAD + text.encode() * 32).decode()
    pem = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    return read_key(pem.encode(), text)


COORDINATOR, SILO, THIEF = key_of("C"), key_of("S"), key_of("T")
WRITERS = {letters.ORDERS.payload_type: COORDINATOR, letters.ANSWERS.payload_type: SILO}
ENVIRONMENT = "maze"
RUN = "7" * 64
FIELDS: dict[str, Any] = {"run": RUN, "environment": ENVIRONMENT}
FIRST = Reference(serial=1, digest="a" * 64)


def assignment(**fields: Any) -> Assignment:
    """What a client of the silo is told, as the coordinator may know it."""
    given = {
        "role": "client",
        "federation": "fed",
        "seed": 7,
        "model": {"source": "builtin:tiny"},
        "adapter": {},
        "round": 1,
        "start": {},
        "settings": RoundSettings().to_json(),
        "storage": {"bucket": "bucket", "prefix": "run"},
        "environments": [ENVIRONMENT, "wordle"],
        "environment": ENVIRONMENT,
    }
    return Assignment.model_validate({**given, **fields})


def work(**fields: Any) -> Work:
    """The order to play a round."""
    return Work(assignment=assignment(**fields), start_seconds=600, round_seconds=3600, **FIELDS)


def rest() -> Rest:
    """The order to do nothing."""
    return Rest(why="suspended", **FIELDS)


def hello(program: str = "0.1.0") -> Hello:
    """A silo's first words."""
    return Hello(program=program, **FIELDS)


def taken(order: Reference = FIRST) -> TakenReply:
    """A silo's word that it works on an order."""
    return TakenReply(order=order, **FIELDS)


def answer(order: Reference = FIRST) -> Answer:
    """A silo's word that it has done what an order says."""
    counts = Counts(explored=64, succeeded=9, experience=80, kept=40, steps=20, tokens=9000)
    report = ClientReport(
        environment=0, round=1, trained=True, manifest="b" * 64, adapter="c" * 64, counts=counts
    )
    return Answer(order=order, report=report, evaluations={"00000": "d" * 64}, **FIELDS)


def box(log: LetterLog, store: ObjectStore | None = None, **fields: Any) -> Mailbox:
    """A log in a store, by default an empty one."""
    given = {
        "prefix": "run",
        "run": RUN,
        "environment": ENVIRONMENT,
        "trusted": (WRITERS[log.payload_type].public,),
        "store": store or MemoryStore(),
    }
    return Mailbox(log=log, **{**given, **fields})


def storage() -> S3:
    """Where the federation exchanges adapters and letters."""
    return S3(bucket="bucket", prefix="run")


def sealed(log: LetterLog, letter: Letter, key: SigningKey | None = None) -> bytes:
    """A letter's object."""
    return letters.write_letter(log, letter, key or WRITERS[log.payload_type])
