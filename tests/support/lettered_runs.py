"""A run with signed letters, for audits."""

from typing import Any

from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import ClientReport
from hansa.api.bucket_documents import AuditHead, Counts
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, Answer, Reference, Rest, compute_run_id
from hansa.api.spec import FederationSpec
from hansa.crypto.dsse import SigningKey
from hansa.store import audit_log
from tests.support import mail
from tests.support.builders import make_spec
from tests.support.mail import COORDINATOR, SILO
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_server.audited import make_run
from tests.unit.hansa_server.rounds import ENVIRONMENTS, PREFIX, Round

STORAGE = Round().assignment().storage


def spec() -> FederationSpec:
    """The run's spec, in which maze runs elsewhere."""
    remote = {"name": "maze", "member": {"publicKeys": [SILO.public]}}
    own = [{"name": name, "world": name} for name in ENVIRONMENTS if name != "maze"]
    return make_spec(
        environments=[*own, remote],
        exchange={"publicKeys": [COORDINATOR.public]},
        storage={"s3": STORAGE.to_json()},
        model={"sha256": "b" * 64},
        adapter={"shapes": "d" * 64},
    )


RUN = compute_run_id(STORAGE, spec().identity())


class Post:
    """Writes the letters of a run that was made already."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.heads = {ORDERS: Cursor(), ANSWERS: Cursor()}

    def send(self, log: Any, letter: Any, key: SigningKey) -> Reference:
        box = mail.box(log, self.store, prefix=PREFIX, run=RUN, trusted=(key.public,))
        cursor = box.post(letter.model_copy(update={"run": RUN}), self.heads[log], key).cursor
        self.heads[log] = cursor
        return Reference(serial=cursor.serial, digest=cursor.digest)

    def order(self, round_: int, head: AuditHead | None, key: SigningKey = COORDINATOR) -> None:
        """An order of a round, and the silo's answer to it with the update that is stored."""
        work = mail.work(round=round_).model_copy(update={"audit": head})
        about = self.send(ORDERS, work, key)
        stored = self.store.objects[
            bucket_keys.update_folder(PREFIX, "maze", round_) + bucket_keys.MANIFEST
        ]
        report = ClientReport(
            environment=0,
            round=round_,
            trained=True,
            manifest=bucket_documents.sha256(stored),
            adapter="c" * 64,
            counts=Counts(explored=4, succeeded=3),
        )
        self.send(ANSWERS, Answer(order=about, report=report, **mail.FIELDS), SILO)

    def finish(self, head: AuditHead | None) -> None:
        """The order to rest, for all is done."""
        self.send(ORDERS, Rest(why="finished", audit=head, **mail.FIELDS), COORDINATOR)


def lettered(rounds: int, *, finished: bool = True) -> MemoryStore:
    """A run whose orders name the log as it was then."""
    store = make_run(rounds)
    post = Post(store)
    for round_ in range(1, rounds + 1):
        post.order(round_, audit_log.find_head(store, PREFIX, round_))
    if finished:
        post.finish(audit_log.find_head(store, PREFIX, rounds + 1))
    return store
