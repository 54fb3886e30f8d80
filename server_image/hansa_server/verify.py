"""Checking a run by its audit log: the chain, every manifest and file it names, and the witnesses.

What was changed makes a round differ; what was deleted, or may not be read, leaves it unchecked.

Limits: where no silo runs elsewhere nothing is signed, and who may write everywhere in the bucket
can rewrite the log and what silos saw of it together; the rounds that the federation's status still
has would then differ, and the newest entry that it knows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from hansa.adapter.tensor_file import short
from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import (
    AuditHead,
    FileEntry,
    GlobalManifest,
    Member,
    Refusal,
    UpdateManifest,
)
from hansa.api.spec import S3, Model
from hansa.core.errors import Corrupt, Denied, KeyMissing, NotFound, PluginMissing
from hansa.members.correspondence import Correspondence
from hansa.store.audit_log import AuditEntry, Mismatch, NotRecomputable, find_rounds
from hansa.store.documents import MOST_BYTES, parse
from hansa_server import vouched
from hansa_server.findings import Findings
from hansa_server.readonce import ReadOnce

Document = TypeVar("Document", bound=Model)


@dataclass(frozen=True, kw_only=True)
class Link:
    """An entry as it is stored."""

    entry: AuditEntry | None
    """What it says; None where it cannot be read."""
    sha256: str
    """Digest of its bytes."""


Again = Callable[[AuditEntry, GlobalManifest | None], None]
"""Computes a round again: Mismatch or NotRecomputable where it does not come out as stored."""


class Check:
    """One look at a run's store."""

    def __init__(
        self,
        store: ReadOnce,
        storage: S3,
        adapters: Mapping[int, str] | None = None,
        head: AuditHead | None = None,
        letters: Sequence[Correspondence] = (),
    ) -> None:
        """`adapters` and `head` are what the federation's status has, outside the store."""
        self._store = store
        self._adapters = adapters or {}
        self._head = head
        self._letters = letters
        self._prefix = storage.prefix
        self._findings: dict[int, Findings] = {}
        self._broken: set[int] = set()

    def run(self, again: Again | None = None, only: int | None = None) -> list[Findings]:
        """What there is to say of each round, in order; `only` looks into one round."""
        self._check_chain()
        self._check_signatures()
        wanted = [round_ for round_ in sorted(self.log) if only in (None, round_)]
        for round_ in wanted:
            entry = self.log[round_].entry
            if entry and entry.round == round_:
                self._check_round(entry, again)
                self._make_room(round_)
        self._check_rounds_without_entry()
        for round_ in self._adapters.keys() - self._findings.keys():
            text = "the federation's status has an adapter of it, and the store has none"
            self._of(round_).wrong.append(text)
        self._check_other_witnesses(only)
        return [self._findings[r] for r in sorted(self._findings) if only in (None, r)]

    def _make_room(self, last: int) -> None:
        """Keep the adapter that the next round starts from, as a rule, and no other file."""
        self._store.forget(bucket_keys.updates_root(self._prefix))
        for round_ in self.log:
            if round_ < last:
                self._store.forget(bucket_keys.global_folder(self._prefix, round_))

    # -- the chain --------------------------------------------------------------------------------

    @cached_property
    def log(self) -> dict[int, Link]:
        """All entries, by the round in their keys."""
        return {r: self._read_entry(r) for r in find_rounds(self._store, self._prefix)}

    def _read_entry(self, round_: int) -> Link:
        key = bucket_keys.audit_entry(self._prefix, round_)
        findings, data = self._of(round_), b""
        try:
            data = self._read(key)
            entry = parse(AuditEntry, key, data)
        except NotFound:
            findings.wrong.append(f"{key}: was listed, and is gone")
            return Link(entry=None, sha256="")
        except Corrupt as error:
            findings.wrong.append(error.message)
            return Link(entry=None, sha256=bucket_documents.sha256(data))
        if not _is_whole(entry):
            findings.wrong.append(f"{key}: its digest is not that of what it says")
        if entry.round != round_:
            findings.wrong.append(f"{key}: is the entry of round {entry.round}")
        return Link(entry=entry, sha256=bucket_documents.sha256(data))

    def _check_chain(self) -> None:
        before: int | None = None
        for round_, link in self.log.items():
            if link.entry:
                self._check_link(round_, link.entry, before)
            before = round_

    def _check_signatures(self) -> None:
        """What the status and signed orders say of the log."""
        if self._head:
            self._check_head(self._head, "the federation's status names")
        vouched.check_orders(self._letters, self._check_head)
        log = {round_: (link.entry, link.sha256) for round_, link in self.log.items()}
        signed = vouched.signed_rounds(self._letters, log)
        for round_ in self.log:
            findings = self._of(round_)
            findings.signed = round_ in signed
            order = "" if findings.signed else vouched.left_out(self._letters, round_)
            if order:
                key = bucket_keys.audit_entry(self._prefix, round_)
                findings.unknown.append(f"{key}: {order} is newer, and does not vouch for it")

    def _check_link(self, round_: int, entry: AuditEntry, before: int | None) -> None:
        key = bucket_keys.audit_entry(self._prefix, round_)
        previous = entry.previous
        if previous and self._check_head(previous, f"{key} follows"):
            if previous.round != before:
                self._of(round_).wrong.append(
                    f"{key}: follows round {previous.round}, expected {before}"
                )
        elif not previous and before is not None:
            self._of(round_).wrong.append(f"{key}: follows no entry, expected that of {before}")

    def _check_head(self, head: AuditHead, who: str) -> bool:
        """Compare an entry with what another document says of it; whether it is there."""
        key = bucket_keys.audit_entry(self._prefix, head.round)
        link = self.log.get(head.round)
        if not link:
            self._of(head.round).wrong.append(f"{key}: is missing: it is what {who}")
        elif link.sha256 != head.sha256:
            self._of(head.round).wrong.append(f"{key}: is not what {who}")
        return link is not None

    # -- one round --------------------------------------------------------------------------------

    def _check_round(self, entry: AuditEntry, again: Again | None) -> None:
        findings = self._of(entry.round)
        findings.failed = entry.result is None
        findings.refused = [
            Refusal(environment=short(r.environment), reason=short(r.reason)) for r in entry.refused
        ]
        with self._noting(findings):
            self._check_owner(entry)
        made = self._check_result(entry, findings)
        refused = {refusal.environment for refusal in entry.refused}
        if entry.result:
            names = [member.environment for member in entry.members]
            findings.merged = [short(name) for name in names if name not in refused]
        for member in entry.members:
            is_refused = member.environment in refused
            self._check_update(entry, member, findings, is_refused=is_refused)
        if again and not findings.wrong and not findings.unknown:
            with self._noting(findings):
                again(entry, made)

    def _check_owner(self, entry: AuditEntry) -> None:
        key = bucket_keys.federation(self._prefix)
        if entry.owner and bucket_documents.sha256(self._read(key)) != entry.owner:
            raise Mismatch(f"{key}: got other bytes than the entry names")

    def _check_result(self, entry: AuditEntry, findings: Findings) -> GlobalManifest | None:
        folder = bucket_keys.global_folder(self._prefix, entry.round)
        key = folder + bucket_keys.MANIFEST
        if not entry.result:
            if key in self._committed:
                findings.wrong.append(f"{key}: is there, but by the entry nothing was merged")
            return None
        self._broken.add(entry.round)
        with self._noting(findings):
            made = self._document(GlobalManifest, key, entry.result)
            _check_words(entry, made, key)
            known = self._adapters.get(entry.round)
            if known and known != _adapter(made):
                raise Mismatch(f"{key}: names another adapter than the federation's status")
            count = len(findings.wrong) + len(findings.unknown)
            for name, file in made.files.items():
                with self._noting(findings):
                    self._check_file(folder + name, file)
            if count == len(findings.wrong) + len(findings.unknown):
                self._broken.discard(entry.round)
            self._check_start(made)
            return made
        return None

    def _check_start(self, made: GlobalManifest) -> None:
        """What the round went on from is what an earlier one has made."""
        start = made.start
        if not start.round:
            return
        if start.round in self._broken:
            raise NotRecomputable(
                f"its start, the adapter of round {start.round}, is not as it was made"
            )
        key = bucket_keys.global_folder(self._prefix, start.round) + bucket_keys.MANIFEST
        before = parse(GlobalManifest, key, self._read(key))
        if _adapter(before) != start.sha256:
            raise Mismatch(f"its start is another adapter than that of round {start.round}")

    def _check_update(
        self, entry: AuditEntry, member: Member, findings: Findings, *, is_refused: bool
    ) -> None:
        """A member's manifest and files; why one was refused, the gate finds out again."""
        round_, name = entry.round, bucket_keys.masked_manifest(entry.epoch)
        folder = bucket_keys.update_folder(self._prefix, member.environment, round_)
        with self._noting(findings, unless=is_refused):
            document = self._document(UpdateManifest, folder + name, member.manifest)
            self._check_witness(member.environment, round_, document)
            self._check_answer(round_, member, findings)
            for name, file in document.files.items():
                with self._noting(findings, unless=is_refused):
                    self._check_file(folder + name, file)

    def _check_answer(self, round_: int, member: Member, findings: Findings) -> None:
        """The update of a silo that runs elsewhere is one that it has signed an answer for."""
        why, certain = vouched.unanswered(
            self._letters, member.environment, round_, member.manifest
        )
        if why:
            (findings.wrong if certain else findings.unknown).append(why)

    # -- what belongs to no entry -----------------------------------------------------------------

    @cached_property
    def _committed(self) -> dict[str, int]:
        """Manifests of global adapters and their rounds."""
        root = bucket_keys.global_root(self._prefix)
        rounds = {key: bucket_keys.number(root, key) for key in self._store.list(root)}
        return {
            k: r for k, r in rounds.items() if r is not None and k.endswith(bucket_keys.MANIFEST)
        }

    def _check_rounds_without_entry(self) -> None:
        """The last one may be open.

        One before it was not logged if a rollback stopped its aggregator before it could be, and
        then no later round may have gone on from it.
        """
        last = max(self.log, default=0)
        starts = {_start(link.entry) for link in self.log.values() if link.entry}
        for key, round_ in self._committed.items():
            if round_ in self.log:
                continue
            findings = self._of(round_)
            why = f"{key}: no entry of the audit log names it"
            if round_ < last and round_ in starts:
                findings.wrong.append(why)
            elif round_ < last and not findings.wrong:
                findings.unknown.append(f"{why}, and no later round went on from it")
            elif not findings.wrong:
                findings.unknown.append(why)

    def _check_other_witnesses(self, only: int | None) -> None:
        """Updates that no entry names saw the log, too: late ones, and those of an open round.

        Where one round is looked into, those of the next round saw its entry.
        """
        root = bucket_keys.updates_root(self._prefix)
        next_ = min((r for r in self.log if only is not None and r > only), default=None)
        done = {(round_, m.environment) for round_, m in self._members() if round_ != next_}
        with suppress(Denied):  # who may not list them could check no member, and knows it
            for key in self._store.list(root):
                environment, _, rest = key.removeprefix(root).partition("/")
                round_ = bucket_keys.number("", rest)
                if (
                    key.endswith(bucket_keys.MANIFEST)
                    and round_
                    and (round_, environment) not in done
                ):
                    with suppress(Corrupt, NotFound):  # nobody counted on it
                        document = parse(UpdateManifest, key, self._read(key))
                        self._check_witness(environment, round_, document)

    def _members(self) -> Iterator[tuple[int, Member]]:
        for round_, link in self.log.items():
            for member in link.entry.members if link.entry else ():
                yield round_, member

    def _check_witness(self, environment: str, round_: int, document: UpdateManifest) -> None:
        """A silo that says what it cannot have seen is named for that, in its own round."""
        head, who = document.audit, short(environment)
        if head and head.round < round_:
            self._check_head(head, f"{who} saw in round {round_}")
        elif head:
            self._of(round_).wrong.append(
                f"{who} names an entry of round {head.round}, a later one"
            )

    # -- reading ----------------------------------------------------------------------------------

    def _of(self, round_: int) -> Findings:
        return self._findings.setdefault(round_, Findings(round=round_))

    def _read(self, key: str) -> bytes:
        data = self._store.get_range(key, 0, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Corrupt(f"{key}: got more than {MOST_BYTES} bytes, expected no more")
        return data

    def _document(self, kind: type[Document], key: str, sha256: str) -> Document:
        if bucket_documents.sha256(self._read(key)) != sha256:
            self._store.forget(key)  # the way here may flip a bit: once more
        data = self._read(key)
        if bucket_documents.sha256(data) != sha256:
            raise Mismatch(f"{key}: got other bytes than the entry names")
        return parse(kind, key, data)

    def _check_file(self, key: str, file: FileEntry) -> None:
        if self._store.digest(key, file.size) != file.sha256:
            self._store.forget(key)
        if self._store.digest(key, file.size) != file.sha256:
            raise Mismatch(f"{key}: got other bytes than its manifest names")

    @contextmanager
    def _noting(self, findings: Findings, *, unless: bool = False) -> Iterator[None]:
        """Note what is wrong, or could not be checked, and go on."""
        try:
            yield
        except (Denied, NotRecomputable, KeyMissing, PluginMissing) as error:
            findings.unknown.append(_visible(str(error)))
        except (Mismatch, Corrupt) as error:
            if not unless:
                findings.wrong.append(_visible(str(error)))
        except NotFound as error:
            if not unless:
                findings.unknown.append(_visible(error.message))


def _adapter(made: GlobalManifest) -> str:
    """Digest of the adapter that a manifest names."""
    return made.files[bucket_keys.ADAPTER].sha256 if bucket_keys.ADAPTER in made.files else ""


def _start(entry: AuditEntry) -> int | None:
    """Round whose adapter an entry's round went on from, as far as it names one."""
    start = entry.inputs.get("start")
    round_ = start.get("round") if isinstance(start, dict) else None
    return round_ if isinstance(round_, int) else None


def _is_whole(entry: AuditEntry) -> bool:
    """Whether an entry's digests are those of what it says."""
    try:
        is_known = bucket_documents.fingerprint(entry.inputs) == entry.fingerprint
        return is_known and entry.sha256 == entry.digest()
    except (ValueError, RecursionError):  # what cannot be written down again was not written by us
        return False


def _visible(text: str) -> str:
    """A sentence that may repeat a silo's names, fit for a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _check_words(entry: AuditEntry, made: GlobalManifest, key: str) -> None:
    """The entry and the manifest tell the same story."""
    refused = {refusal.environment for refusal in entry.refused}
    merged = [member for member in entry.members if member.environment not in refused]
    for name, said, written in (
        ("round", entry.round, made.round),
        ("inputs", entry.inputs, made.inputs),
        ("fingerprint", entry.fingerprint, made.fingerprint),
        ("members", merged, made.members),
        ("refused", entry.refused, made.refused),
        ("program", entry.program, made.program),
        ("madeWith", entry.made_with, made.made_with),
    ):
        if said != written:
            raise Mismatch(f"{key}: {name} is not what the entry says")
