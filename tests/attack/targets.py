"""Every parser of bytes that another party wrote, each as one function that the fuzz tests call."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hansa.adapter import lora, second_moments, tensor_file
from hansa.adapter.tensor_file import AdapterError
from hansa.api import bucket_documents, bucket_keys, letters
from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.bucket_documents import EvaluationDocument, Member, StartAdapter
from hansa.api.reports import decode_report, encode_report
from hansa.core.errors import Corrupt, InvalidDocument
from hansa.crypto import dsse
from hansa.members import mailbox
from hansa.plan.federation import plan
from hansa.store import claims, documents
from hansa.store.audit_log import AuditEntry, NotRecomputable
from hansa_operator.observe import observe
from hansa_server import gate
from hansa_server import moments as server_moments
from hansa_server.readonce import ReadOnce
from hansa_server.recompute import rebuild_assignment
from hansa_server.verify import AuditCheck
from tests.attack import foreign
from tests.support import mail
from tests.support.builders import NOW, make_job, make_report
from tests.support.memory_store import MemoryStore
from tests.support.merging import draw_moments
from tests.support.simulated_cluster import Cluster
from tests.support.terminal import is_tame
from tests.unit.hansa_operator.objects import live_job, live_pod, terminated
from tests.unit.hansa_server.audited import make_run
from tests.unit.hansa_server.masking import masked_round
from tests.unit.hansa_server.rounds import PREFIX, SHAPES, full_round, tensors


@dataclass(frozen=True)
class Target:
    """One parser, and bytes to try it with."""

    read: Callable[[bytes], str]
    """Reads bytes as the program does: `taken` or `refused`; any other end is a failure."""
    sound: Callable[[], Any]
    """What an honest party sends: a document, or bytes."""
    strategy: Callable[[Any], st.SearchStrategy[bytes]] = foreign.documents
    """Makes hostile bytes of that."""
    most: int = documents.MOST_BYTES
    """Bytes that the program reads at most."""

    @cached_property
    def hostile(self) -> st.SearchStrategy[bytes]:
        """Bytes to try."""
        return self.strategy(self.sound())


_FOLDER = tempfile.TemporaryDirectory(prefix="hansa-attack-")  # removed when Python ends


def _file(data: bytes) -> Path:
    path = Path(_FOLDER.name) / "file"
    path.write_bytes(data)
    return path


def read_adapter(data: bytes) -> str:
    """As the gate opens an update's file, and as clients decode a global adapter."""
    try:
        with lora.open_file(_file(data), most=MOST_HEAD) as file:
            assert sum(file.read(name).nbytes for name in file.layout) <= len(data)
    except AdapterError as error:
        assert error.message.isprintable()
        return "refused"
    assert lora.encode(lora.decode(data))
    return "taken"


MOST_HEAD = 2**17
"""As long as the gate lets the header of so small an adapter be."""


@cache
def _round() -> Any:
    return full_round().assignment()


def read_manifest(data: bytes) -> str:
    """As the gate reads the manifest of a member."""
    member = Member(environment="maze", manifest=bucket_documents.sha256(data))
    try:
        gate.read_manifest(data, member, _round())
    except gate.UpdateRefused as refusal:
        assert refusal.reason in gate.HELP
        return "refused"
    return "taken"


def _manifest() -> Any:
    round_ = full_round()
    return _json(round_.store.objects[round_.key("maze", bucket_keys.MANIFEST)])


@cache
def _cluster() -> Any:
    """In the second round, so that there is success to rewrite."""
    return Cluster("maze", "wordle", rounds=4).run_round().turn()


JOB = "fed-r2-maze-a1"


def read_report(data: bytes) -> str:
    """As an executor reads a report, and plans on with it."""
    report = decode_report(data)
    if report is None:
        return "refused"
    cluster = _cluster()
    request = cluster.requests[JOB]
    jobs = {**cluster.jobs, JOB: make_job(request, "succeeded", report=report)}
    next_ = plan(cluster.federation, list(jobs.values()), NOW)
    assert len(next_.status.model_dump_json()) < 2**17
    before, after = cluster.status.history[0], next_.status.history[0]
    assert after == before, "the first round is over"
    is_own = isinstance(report, ClientReport | EvaluateReport)
    return "taken" if is_own and report.answers(request.assignment) else "refused"


def _report() -> Any:
    return _json(encode_report(make_report(_cluster().requests[JOB])))


def read_evaluation(data: bytes) -> str:
    """As status, report page and comparisons read what a silo says of an adapter."""
    store, key = MemoryStore(), bucket_keys.evaluation(PREFIX, "maze", 1)
    store.put_if_absent(key, data)
    try:
        document = documents.read_document(EvaluationDocument, store, key)
        documents.read_with_checksum(EvaluationDocument, store, key)
    except InvalidDocument as error:
        assert is_tame(error.message)
        return "refused"
    worth = document.effective()
    assert worth is None or 0 <= worth <= max(document.episodes, 2**60)
    assert document.ratio is None or 0 <= document.ratio <= 1
    return "taken"


def _evaluation() -> Any:
    inputs = {"seed": 7, "environment": "maze", "options": {"size": 5}}
    return EvaluationDocument(
        program="0",
        environment="maze",
        adapter=StartAdapter(round=1, sha256="a" * 64),
        fingerprint=bucket_documents.fingerprint(inputs),
        inputs=inputs,
        temperature=1.0,
        episodes=4,
        successes=3,
        task_count=2,
        worth=2.5,
    ).to_json()


@cache
def _live(code: int) -> Any:
    return live_job("client", ("Complete", "") if code == 0 else ("Failed", "BackoffLimitExceeded"))


def read_last_words(data: bytes) -> str:
    """As the operator reads a Pod's termination log, by each exit that it reads it for."""
    text = data.decode("utf-8", "surrogatepass" if _is_utf8(data) else "replace")
    for code in (0, 1, 42, 43):
        pod = live_pod(terminated(code, text), phase="Failed")
        observed = observe(_live(code), [pod])
        assert observed is not None
        assert observed.state == ("succeeded" if code == 0 else "failed")
        assert is_tame(observed.message)
        assert len(observed.message) <= 600
    return "taken"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _last_words() -> Any:
    return {"time": "now", "level": "error", "event": "stopped", "message": "no", "hint": "try"}


@cache
def _masked_round() -> Any:
    return masked_round()


def read_masked_manifest(data: bytes) -> str:
    """As the gate reads the manifest of a member whose update is masked."""
    member = Member(environment="maze", manifest=bucket_documents.sha256(data))
    try:
        gate.read_manifest(data, member, _masked_round().assignment())
    except gate.UpdateRefused as refusal:
        assert refusal.reason in gate.HELP
        return "refused"
    return "taken"


def _masked_manifest() -> Any:
    round_ = _masked_round()
    return _json(round_.store.objects[round_.key("maze", bucket_keys.MANIFEST)])


def read_masked_head(data: bytes) -> str:
    """As the aggregator learns the shapes of a first round from what begins a masked update."""
    try:
        head = data[: lora.head_size(data, MOST_HEAD)]
        lora.parse_shapes(head, None)
    except AdapterError as error:
        assert is_tame(error.message)
        return "refused"
    return "taken"


def _masked_body() -> bytes:
    body: bytes = _masked_round().body("maze")
    return body


def read_claim(data: bytes) -> str:
    """As the aggregator reads what stands where a silo claims its place in a sum."""
    store, place = MemoryStore(), (PREFIX, "maze", 1, 0)
    store.put_if_absent(bucket_keys.claim(*place), data)
    standing = claims.put_claim(store, *place, claims.TOMBSTONE)
    return "taken" if standing.sha256 or standing.tombstone else "refused"


def read_moments(data: bytes) -> str:
    """As the gate opens the moments that come with an update."""
    known = second_moments.input_widths(SHAPES)
    try:
        with server_moments.open_moments(_file(data), known, 128, True, MOST_HEAD) as file:
            for layers in second_moments.parse_inputs(file.layout):
                server_moments.read_moments(file, layers).read()
    except gate.UpdateRefused as refusal:
        assert refusal.reason == "moments"
        return "refused"
    return "taken"


@cache
def _run() -> MemoryStore:
    return make_run(2)


def read_entry(data: bytes) -> str:
    """As an audit reads an entry of the log, and what a merge is made again from."""
    store, key = MemoryStore(), bucket_keys.audit_entry(PREFIX, 2)
    store.objects = {**_run().objects, key: data}
    storage = full_round().assignment().storage
    findings = AuditCheck(ReadOnce(store, Path(_FOLDER.name)), storage).run()
    second = next(each for each in findings if each.round == 2)
    for each in findings:
        refused = [text for r in each.refused for text in (r.environment, r.reason)]
        assert all(text.isprintable() for text in (*each.wrong, *each.unknown, *refused))
    try:
        rebuild_assignment(documents.parse(AuditEntry, key, data), storage)
    except (Corrupt, NotRecomputable):
        assert second.verdict != "equal"
    return "taken" if second.verdict == "equal" else "refused"


def _entry() -> Any:
    return _json(_run().objects[bucket_keys.audit_entry(PREFIX, 2)])


def read_envelope(data: bytes) -> str:
    """As a mailbox reads an object of a log, in which anybody with the bucket's key may write."""
    try:
        letter, digest = letters.read_letter(
            letters.ORDERS,
            data,
            trusted=[mail.COORDINATOR.public],
            run=mail.RUN,
            environment=mail.ENVIRONMENT,
            serial=1,
        )
    except letters.InvalidLetter as refusal:
        assert refusal.code in letters.FAULTS
        return "refused"
    assert letter == mail.work().place_at(1, ""), "nobody else has the key"
    assert digest == letters.digest_letter(letter)
    return "taken"


def _envelope() -> Any:
    return _json(mail.sealed(letters.ORDERS, mail.work().place_at(1, "")))


def _read_letter(log: letters.LetterLog, payload: bytes) -> str:
    """As a mailbox reads what a hostile party has signed with its own good key."""
    key = mail.WRITERS[log.payload_type]
    box = mail.box(log)
    box.store.put_if_absent(
        log.key("run", mail.ENVIRONMENT, 1), dsse.sign_envelope(key, log.payload_type, payload)
    )
    entry = box.look(1)
    if not isinstance(entry, mailbox.LogEntry):
        return "refused"
    document = entry.letter.to_json()
    assert len(bucket_documents.canonical(document)) < 2 * log.limit
    if log is letters.ANSWERS:  # codes and numbers: they go into statuses, events and metrics
        assert is_tame(json.dumps(document, ensure_ascii=False))
    return "taken"


def read_order(payload: bytes) -> str:
    """The coordinator's."""
    return _read_letter(letters.ORDERS, payload)


def read_answer(payload: bytes) -> str:
    """A silo's."""
    return _read_letter(letters.ANSWERS, payload)


def _json(data: bytes) -> Any:
    return json.loads(data)


TARGETS: dict[str, Target] = {
    "safetensors header": Target(
        read_adapter, lambda: lora.encode(tensors(1)), foreign.files, MOST_HEAD
    ),
    "update manifest": Target(read_manifest, _manifest, most=gate.MAX_MANIFEST),
    "client report": Target(read_report, _report, most=4096),
    "evaluation document": Target(read_evaluation, _evaluation),
    "termination log": Target(read_last_words, _last_words, most=4096),
    "moments": Target(
        read_moments,
        lambda: tensor_file.encode(draw_moments(1, SHAPES)),
        foreign.files,
        MOST_HEAD,
    ),
    "masked manifest": Target(read_masked_manifest, _masked_manifest, most=gate.MAX_MANIFEST),
    "masked update": Target(read_masked_head, _masked_body, foreign.files, MOST_HEAD),
    "claim": Target(read_claim, lambda: {"sha256": "a" * 64}, most=claims.MOST_BYTES),
    "audit entry": Target(read_entry, _entry),
    "envelope": Target(read_envelope, _envelope, most=letters.ORDERS.limit),
    "signed order": Target(
        read_order, lambda: mail.work().place_at(1, "").to_json(), most=letters.ORDERS.limit
    ),
    "signed answer": Target(
        read_answer, lambda: mail.answer().place_at(1, "").to_json(), most=letters.ANSWERS.limit
    ),
}
