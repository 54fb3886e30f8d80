"""Checking a run by its audit log: the chain, and every manifest and file that it names.

What was changed makes a round differ; what was deleted, or may not be read, leaves it unchecked.

Limits: nothing is signed where no silo runs elsewhere. Then anyone who can write everywhere in the
bucket can rewrite the log together with what silos recorded of it; only the rounds and the newest
entry that the federation's status still has would differ.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TypeVar

from hansa.adapter.tensor_file import clip_printable
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
from hansa_server.vouched import Link

Document = TypeVar("Document", bound=Model)


Again = Callable[[AuditEntry, GlobalManifest | None], None]
"""Computes a round again: Mismatch or NotRecomputable where the result is not as stored."""


class AuditCheck:
    """A check of a run's store."""

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
        """Findings of each round, in order; `only` restricts the check to one round."""
        for before, (round_, link) in zip([None, *self.log], self.log.items(), strict=False):
            if link.entry:
                self._check_link(round_, link.entry, before)
        self._check_signatures()
        wanted = [round_ for round_ in sorted(self.log) if only in (None, round_)]
        for round_ in wanted:
            entry = self.log[round_].entry
            if entry and entry.round == round_:
                self._check_round(entry, again)
                self._forget_files(round_)
        self._check_rounds_without_entry()
        for round_ in self._adapters.keys() - self._findings.keys():
            text = "the federation's status has an adapter of it, and the store has none"
            self._get_findings(round_).wrong.append(text)
        self._check_other_witnesses(only)
        return [self._findings[r] for r in sorted(self._findings) if only in (None, r)]

    def _forget_files(self, last: int) -> None:
        """Drop the cached files that later rounds will not need, to limit disk use."""
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
        findings, data = self._get_findings(round_), b""
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

    def _check_signatures(self) -> None:
        """Compare the log with the federation's status and with signed orders."""
        if self._head:
            self._check_head(self._head, "the federation's status names")
        for silo in self._letters:
            for order in silo.vouched:
                if order.head:
                    who = f"order {order.serial} to {silo.environment} names"
                    self._check_head(order.head, who)
        signed = vouched.find_signed_rounds(self._letters, self.log)
        for round_ in self.log:
            findings = self._get_findings(round_)
            findings.signed = round_ in signed
            newer = vouched.find_contradicting_order(self._letters, round_)
            if newer and not findings.signed:
                key = bucket_keys.audit_entry(self._prefix, round_)
                findings.unknown.append(f"{key}: {newer} is newer, and does not vouch for it")

    def _check_link(self, round_: int, entry: AuditEntry, before: int | None) -> None:
        key = bucket_keys.audit_entry(self._prefix, round_)
        previous = entry.previous
        if previous and self._check_head(previous, f"{key} follows"):
            if previous.round != before:
                self._get_findings(round_).wrong.append(
                    f"{key}: follows round {previous.round}, expected {before}"
                )
        elif not previous and before is not None:
            self._get_findings(round_).wrong.append(
                f"{key}: follows no entry, expected that of {before}"
            )

    def _check_head(self, head: AuditHead, who: str) -> bool:
        """Compare an entry with what another document says of it; whether it exists."""
        key = bucket_keys.audit_entry(self._prefix, head.round)
        link = self.log.get(head.round)
        if not link:
            self._get_findings(head.round).wrong.append(f"{key}: is missing: it is what {who}")
        elif link.sha256 != head.sha256:
            self._get_findings(head.round).wrong.append(f"{key}: is not what {who}")
        return link is not None

    # -- one round --------------------------------------------------------------------------------

    def _check_round(self, entry: AuditEntry, again: Again | None) -> None:
        findings = self._get_findings(entry.round)
        findings.failed = entry.result is None
        findings.refused = [
            Refusal(environment=clip_printable(r.environment), reason=clip_printable(r.reason))
            for r in entry.refused
        ]
        with self._note_errors(findings):
            key = bucket_keys.federation(self._prefix)
            if entry.owner and bucket_documents.sha256(self._read(key)) != entry.owner:
                raise Mismatch(f"{key}: got other bytes than the entry names")
        made = self._check_result(entry, findings)
        refused = {refusal.environment for refusal in entry.refused}
        if entry.result:
            names = [member.environment for member in entry.members]
            findings.merged = [clip_printable(name) for name in names if name not in refused]
        for member in entry.members:
            is_refused = member.environment in refused
            self._check_update(entry, member, findings, is_refused=is_refused)
        if again and not findings.wrong and not findings.unknown:
            with self._note_errors(findings):
                again(entry, made)

    def _check_result(self, entry: AuditEntry, findings: Findings) -> GlobalManifest | None:
        folder = bucket_keys.global_folder(self._prefix, entry.round)
        key = folder + bucket_keys.MANIFEST
        if not entry.result:
            if key in self._committed:
                findings.wrong.append(f"{key}: is there, but by the entry nothing was merged")
            return None
        self._broken.add(entry.round)
        with self._note_errors(findings):
            made = self._read_document(GlobalManifest, key, entry.result)
            _compare_manifest(entry, made, key)
            known = self._adapters.get(entry.round)
            if known and known != _get_adapter_digest(made):
                raise Mismatch(f"{key}: names another adapter than the federation's status")
            count = len(findings.wrong) + len(findings.unknown)
            for name, file in made.files.items():
                with self._note_errors(findings):
                    self._check_file(folder + name, file)
            if count == len(findings.wrong) + len(findings.unknown):
                self._broken.discard(entry.round)
            self._check_start(made)
            return made
        return None

    def _check_start(self, made: GlobalManifest) -> None:
        """The round started from the adapter that an earlier round made."""
        start = made.start
        if not start.round:
            return
        if start.round in self._broken:
            raise NotRecomputable(
                f"its start, the adapter of round {start.round}, is not as it was made"
            )
        key = bucket_keys.global_folder(self._prefix, start.round) + bucket_keys.MANIFEST
        before = parse(GlobalManifest, key, self._read(key))
        if _get_adapter_digest(before) != start.sha256:
            raise Mismatch(f"its start is another adapter than that of round {start.round}")

    def _check_update(
        self, entry: AuditEntry, member: Member, findings: Findings, *, is_refused: bool
    ) -> None:
        """Check a member's manifest and files; merging again finds out why one was refused."""
        round_, name = entry.round, bucket_keys.masked_manifest(entry.epoch)
        folder = bucket_keys.update_folder(self._prefix, member.environment, round_)
        with self._note_errors(findings, unless=is_refused):
            document = self._read_document(UpdateManifest, folder + name, member.manifest)
            self._check_witness(member.environment, round_, document)
            why, certain = vouched.explain_unanswered(
                self._letters, member.environment, round_, member.manifest
            )
            if why:
                (findings.wrong if certain else findings.unknown).append(why)
            for name, file in document.files.items():
                with self._note_errors(findings, unless=is_refused):
                    self._check_file(folder + name, file)

    # -- what belongs to no entry -----------------------------------------------------------------

    @cached_property
    def _committed(self) -> dict[str, int]:
        """Manifests of global adapters and their rounds."""
        root = bucket_keys.global_root(self._prefix)
        rounds = {key: bucket_keys.parse_round(root, key) for key in self._store.list(root)}
        return {
            k: r for k, r in rounds.items() if r is not None and k.endswith(bucket_keys.MANIFEST)
        }

    def _check_rounds_without_entry(self) -> None:
        """Report committed rounds without an entry; the last one may still be open.

        An earlier one has no entry if a rollback stopped its aggregator before it could write one,
        and then no later round may have started from it.
        """
        last = max(self.log, default=0)
        starts = {_get_start_round(link.entry) for link in self.log.values() if link.entry}
        for key, round_ in self._committed.items():
            if round_ in self.log:
                continue
            findings = self._get_findings(round_)
            why = f"{key}: no entry of the audit log names it"
            if round_ < last and round_ in starts:
                findings.wrong.append(why)
            elif not findings.wrong:
                more = ", and no later round continued from it" if round_ < last else ""
                findings.unknown.append(why + more)

    def _check_other_witnesses(self, only: int | None) -> None:
        """Check the log's head in updates that no entry names: late ones, or of an open round.

        Where only one round is checked, updates of the next round name its entry.
        """
        root = bucket_keys.updates_root(self._prefix)
        next_ = min((r for r in self.log if only is not None and r > only), default=None)
        done = {
            (round_, member.environment)
            for round_, link in self.log.items()
            for member in (link.entry.members if link.entry and round_ != next_ else ())
        }
        with suppress(Denied):  # then no member could be checked, which is reported already
            for key in self._store.list(root):
                environment, _, rest = key.removeprefix(root).partition("/")
                round_ = bucket_keys.parse_round("", rest)
                if (
                    key.endswith(bucket_keys.MANIFEST)
                    and round_
                    and (round_, environment) not in done
                ):
                    with suppress(Corrupt, NotFound):  # it was not merged
                        document = parse(UpdateManifest, key, self._read(key))
                        self._check_witness(environment, round_, document)

    def _check_witness(self, environment: str, round_: int, document: UpdateManifest) -> None:
        """Compare the log's head that a silo recorded in its update with the log."""
        head, who = document.audit, clip_printable(environment)
        if head and head.round < round_:
            self._check_head(head, f"{who} saw in round {round_}")
        elif head:
            self._get_findings(round_).wrong.append(
                f"{who} names an entry of round {head.round}, a later one"
            )

    # -- reading ----------------------------------------------------------------------------------

    def _get_findings(self, round_: int) -> Findings:
        return self._findings.setdefault(round_, Findings(round=round_))

    def _read(self, key: str) -> bytes:
        data = self._store.get_range(key, 0, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Corrupt(f"{key}: got more than {MOST_BYTES} bytes, expected no more")
        return data

    def _read_document(self, kind: type[Document], key: str, sha256: str) -> Document:
        if bucket_documents.sha256(self._read(key)) != sha256:
            self._store.forget(key)  # a bit may have flipped in transfer: read again
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
    def _note_errors(self, findings: Findings, *, unless: bool = False) -> Iterator[None]:
        """Record what is wrong, or could not be checked, and continue."""
        try:
            yield
        except (Denied, NotRecomputable, KeyMissing, PluginMissing) as error:
            findings.unknown.append(_sanitize(str(error)))
        except (Mismatch, Corrupt, NotFound) as error:
            if not unless:
                noted = findings.unknown if isinstance(error, NotFound) else findings.wrong
                noted.append(_sanitize(str(error)))


def _get_adapter_digest(made: GlobalManifest) -> str:
    """Digest of the adapter that a manifest names."""
    return made.files[bucket_keys.ADAPTER].sha256 if bucket_keys.ADAPTER in made.files else ""


def _get_start_round(entry: AuditEntry) -> int | None:
    """The round whose adapter an entry's round started from, if it names one."""
    start = entry.inputs.get("start")
    round_ = start.get("round") if isinstance(start, dict) else None
    return round_ if isinstance(round_, int) else None


def _is_whole(entry: AuditEntry) -> bool:
    """Whether an entry's digests are those of what it says."""
    try:
        is_known = bucket_documents.fingerprint(entry.inputs) == entry.fingerprint
        return is_known and entry.sha256 == entry.digest()
    except (ValueError, RecursionError):  # cannot be serialised, so no aggregator wrote it
        return False


def _sanitize(text: str) -> str:
    """The text without control characters, which names from silos may have."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _compare_manifest(entry: AuditEntry, made: GlobalManifest, key: str) -> None:
    """Compare the entry with the round's manifest."""
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
