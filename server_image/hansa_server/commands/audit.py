"""`hansa audit`: was every round merged from what its silos sent, and is all of it still there?"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.common import Format, Output, print_data, say
from hansa.core.errors import InputError
from hansa.core.text import count
from hansa.publish.bucket import open_source, read_known_fields, set_endpoint

if TYPE_CHECKING:
    from hansa.api.bucket_documents import AuditHead
    from hansa.api.spec import S3
    from hansa.api.status import Federation
    from hansa.members.correspondence import Correspondence
    from hansa.store.base import ObjectStore
    from hansa_server.findings import Findings

DIFFERS = 1
CANNOT_BE = 3
"""Exit codes; 0: every round is equal."""


def audit(
    run: target.Run,
    access: target.StoreAccess,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, help="Look into this round only.")
    ] = None,
    sealing_key: Annotated[
        Path | None, typer.Option(help="File of the key that opens sealed updates.")
    ] = None,
    output: Output = Format.TABLE,
) -> int:
    """Check a run by its audit log, and merge each round again.

    Exit 0: all rounds are equal. 1: something differs. 3: something cannot be checked.
    """
    with _open(run, access) as opened:
        letters = _read_letters(opened)
        findings = _check(opened, round_, letters, sealing_key)
    if round_ is not None and not findings:
        raise InputError(f"--round: got {round_}, which no entry of the audit log is about")
    if output is Format.TABLE:
        _print_lines(findings, opened.undone)
        _print_letters(letters)
    else:
        rounds = _build_data(findings, opened.undone)
        data = {"federation": opened.federation.metadata.name, "rounds": rounds}
        if letters:
            data["letters"] = [_count_letters(each) for each in letters]
        print_data(data, output)
    return _conclude(findings)


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """A run whose exchange is open."""

    federation: "Federation"
    """The object."""
    storage: "S3"
    """Location of its exchange."""
    store: "ObjectStore"
    """The exchange."""
    adapters: dict[int, str]
    """Digests of adapters by round, as far as the status still has them."""
    head: "AuditHead | None"
    """Newest entry of the audit log that the status names."""
    undone: frozenset[int]
    """Rounds that `hansa rollback` has undone, as far as the status still has them."""


def _read_letters(opened: OpenedRun) -> "list[Correspondence]":
    """The letters of every silo that runs elsewhere."""
    from hansa.members.correspondence import read_correspondence

    spec = opened.federation.spec
    return [read_correspondence(spec, opened.store, e.name) for e in spec.environments if e.member]


def _check(
    opened: OpenedRun,
    round_: int | None,
    letters: "list[Correspondence]",
    sealing_key: Path | None,
) -> "list[Findings]":
    from hansa_server.readonce import ReadOnce
    from hansa_server.recompute import merge_again
    from hansa_server.verify import AuditCheck

    with TemporaryDirectory(prefix="hansa-") as scratch:
        store = ReadOnce(_open_sealed(opened, sealing_key), Path(scratch))
        check = AuditCheck(store, opened.storage, opened.adapters, opened.head, letters)
        return check.run(partial(merge_again, store, opened.storage), round_)


def _open_sealed(opened: OpenedRun, sealing_key: Path | None) -> "ObjectStore":
    """The exchange with sealed updates opened by the aggregator's key, if it is given."""
    from hansa.store.sealed import UnsealingStore, read_opening_keys

    opening = read_opening_keys(sealing_key, "--sealing-key") if sealing_key else []
    return UnsealingStore(opened.store, opened.storage.prefix, opening, all_are_sealed=False)


def _print_lines(findings: "list[Findings]", undone: frozenset[int]) -> None:
    for each in findings:
        first, *rest = [*each.wrong, *each.unknown] or [_summarize(each)]
        more = "; a rollback has undone it" if each.round in undone else ""
        print(f"round {each.round}: {each.verdict}: {first}{more}")
        for more in rest:
            print(f"  {more}")


def _print_letters(letters: "list[Correspondence]") -> None:
    for each in letters:
        what = f"{count(each.orders, 'order')} and {count(each.answers, 'answer')} verified"
        refused = ", ".join(f"{number} {code}" for code, number in sorted(each.refused.items()))
        line = each.denied or f"{what}, refused: {refused or 'none'}"
        print(f"letters of {each.environment}: {line}")


def _count_letters(each: "Correspondence") -> dict[str, Any]:
    return {
        "environment": each.environment,
        "orders": each.orders,
        "answers": each.answers,
        "refused": dict(sorted(each.refused.items())),
        **({"denied": each.denied} if each.denied else {}),
    }


def _summarize(each: "Findings") -> str:
    what = f"{count(len(each.merged), 'update')} merged"
    if each.failed:
        what = "too few updates passed the gate"
    refused = ", ".join(f"{r.environment} ({r.reason})" for r in each.refused)
    what = f"{what}, refused: {refused}" if refused else what
    return f"{what}; signed" if each.signed else what


def _build_data(findings: "list[Findings]", undone: frozenset[int]) -> list[dict[str, Any]]:
    return [
        {
            "round": each.round,
            "verdict": each.verdict,
            "differs": each.wrong,
            "cannotBe": each.unknown,
            "refused": [refusal.to_json() for refusal in each.refused],
            "undone": each.round in undone,
            "signed": each.signed,
        }
        for each in findings
    ]


def _conclude(findings: "list[Findings]") -> int:
    """The end in a sentence, and the exit code."""
    verdicts = [each.verdict for each in findings]
    if not verdicts:
        say("no round has been merged yet: there is nothing to audit")
        return CANNOT_BE
    counts = {verdict: verdicts.count(verdict) for verdict in ("equal", "differs", "cannot be")}
    say(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if counts["differs"]:
        return DIFFERS
    return CANNOT_BE if counts["cannot be"] else 0


@contextmanager
def _open(run: str, access: target.StoreAccess) -> Iterator[OpenedRun]:
    folder = access.find_folder(run)
    document = folder.load().to_json() if folder else access.open().get(run)
    source = folder or set_endpoint(read_known_fields(document), access.endpoint)
    with open_source(source, access.credentials) as (federation, store):
        yield _build_opened(federation, store, document.get("status") or {})


def _build_opened(
    federation: "Federation", store: "ObjectStore", status: dict[str, Any]
) -> OpenedRun:
    """The run, with the rounds of its status; a newer operator may have written more fields."""
    from hansa.api.bucket_documents import AuditHead

    history, head = status.get("history") or [], status.get("audit")
    return OpenedRun(
        federation=federation,
        storage=federation.spec.require_s3(),
        store=store,
        head=AuditHead(round=head["round"], sha256=head["sha256"]) if head else None,
        adapters={entry["round"]: entry["adapter"] for entry in history if entry.get("adapter")},
        undone=frozenset(e["round"] for e in history if e.get("outcome") == "undone"),
    )
