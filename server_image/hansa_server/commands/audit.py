"""`hansa audit`: was every round merged from what its silos sent, and is all of it still there?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.bucket import Endpoint, at_endpoint, check_name, forward_hint, readable
from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.status import Credentials
from hansa.errors import InputError, Unreachable
from hansa.words import count

if TYPE_CHECKING:
    from hansa.exchange.correspondence import Correspondence
    from hansa.manifest import AuditHead
    from hansa.spec import S3
    from hansa.status import Federation
    from hansa.store.base import ObjectStore
    from hansa_server.findings import Findings
    from hansa_server.verify import Again

DIFFERS = 1
CANNOT_BE = 3
"""Exit codes; 0: every round is equal."""


def audit(
    name: target.OptionalName = None,
    out: target.OptionalFolder = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, help="Look into this round only.")
    ] = None,
    silo: Annotated[
        str,
        typer.Option(
            help="Check this environment's updates alone, and train them again on the CPU from its "
            "private experience; for the silo itself."
        ),
    ] = "",
    credentials: Credentials = None,
    endpoint: Endpoint = None,
    sealing_key: Annotated[
        Path | None, typer.Option(help="File of the key that opens sealed updates.")
    ] = None,
    output: Output = Format.TABLE,
    namespace: target.Namespace = None,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> int:
    """Check a run by its audit log, and merge each round again.

    With --silo: that silo's own updates, trained again, and the log as it saw it.
    Exit 0: all rounds are equal. 1: something differs. 3: something cannot be checked.
    """
    target.one_of(name, out)
    if out and endpoint:
        raise InputError("--endpoint: got it with --out; it is for a federation on a cluster")
    place = (
        _open_run(out, credentials, silo)
        if out
        else _open_federation(
            name or "", credentials, silo, endpoint, namespace, context, kubeconfig
        )
    )
    with place as opened:
        letters = _letters(opened, silo)
        findings = _check(opened, silo, round_, letters, sealing_key)
    if round_ is not None and not findings:
        raise InputError(f"--round: got {round_}, which no entry of the audit log is about")
    if output is Format.TABLE:
        _print_lines(findings, silo, opened.undone)
        _print_letters(letters)
    else:
        name = opened.federation.metadata.name
        rounds, counted = _data(findings, opened.undone), [_counted(each) for each in letters]
        data = {"federation": name, "rounds": rounds}
        print_data({**data, **({"letters": counted} if letters else {})}, output)
    return _tell(findings)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A run and where it lies."""

    federation: Federation
    """The object."""
    storage: S3
    """Place of its exchange."""
    store: ObjectStore
    """The exchange, as it is read from here."""
    adapters: dict[int, str] = field(default_factory=dict)
    """Digests of adapters by round, as far as the status still has them."""
    head: AuditHead | None = None
    """Newest entry of the audit log that the status knows of."""
    undone: frozenset[int] = frozenset()
    """Rounds that a person has gone back from, as far as the status still has them."""
    variables: dict[str, str] | None = None
    """Credentials that were given; None: the usual AWS chain's, or the run's own."""


def _letters(opened: Opened, silo: str) -> list[Correspondence]:
    """The letters of every silo that runs elsewhere; a silo can read its own alone."""
    from hansa.exchange.correspondence import correspondence

    spec = opened.federation.spec
    names = [e.name for e in spec.environments if e.member and silo in ("", e.name)]
    return [correspondence(spec, opened.store, name) for name in names]


def _check(
    opened: Opened,
    silo: str,
    round_: int | None,
    letters: list[Correspondence],
    sealing_key: Path | None,
) -> list[Findings]:
    from functools import partial

    from hansa_server.readonce import ReadOnce
    from hansa_server.recompute import merge_again
    from hansa_server.verify import Check

    with TemporaryDirectory(prefix="hansa-") as scratch:
        store = ReadOnce(_unsealed(opened, silo, sealing_key), Path(scratch))
        again = (
            _retraining(opened, silo, store)
            if silo
            else partial(merge_again, store, opened.storage)
        )
        check = Check(store, opened.storage, silo, opened.adapters, opened.head, letters)
        return check.run(again, round_)


def _unsealed(opened: Opened, silo: str, sealing_key: Path | None) -> ObjectStore:
    """The exchange with what is in sealed updates: by the aggregator's key, or the silo's copy."""
    from hansa.keys import sealed_updates, update_root
    from hansa.store.sealed import OpenedStore, SealingStore, read_opening_keys

    prefix = opened.storage.prefix
    if not silo:
        opening = read_opening_keys(sealing_key, "--sealing-key") if sealing_key else []
        return OpenedStore(opened.store, prefix, opening, all_are_sealed=False)
    private, place = _private(opened, silo)
    own = sealed_updates((place or opened.storage).prefix, silo)
    root = update_root(prefix, silo)
    return SealingStore(opened.store, private, root=root, private_root=own, public="")


def _private(opened: Opened, silo: str) -> tuple[ObjectStore, S3 | None]:
    """A silo's own store and its place; no place: it lies in the exchange."""
    from hansa.local.loop import private_store

    spec = opened.federation.spec
    known = sorted(environment.name for environment in spec.environments)
    if silo not in known:
        raise InputError(f"--silo: got '{silo}', expected {' or '.join(known)}")
    own = spec.environment(silo).experience_storage
    private = private_store(spec, silo, opened.store, opened.variables)
    return private, own.s3 if own else None


def _retraining(opened: Opened, silo: str, exchange: ObjectStore) -> Again:
    """What trains a silo's updates again; it lives in the client's package, which has torch."""
    from hansa.cli.main import Listing, load_function

    private, place = _private(opened, silo)
    listing = Listing(target="hansa_client.audit:Retraining", summary="", extra="client")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # equal bytes are promised of CPUs alone
    make = load_function("audit --silo", listing)
    again: Again = make(exchange, opened.storage, private, place, silo)
    return again


def _print_lines(findings: list[Findings], silo: str, undone: frozenset[int]) -> None:
    for each in findings:
        first, *rest = [*each.wrong, *each.unknown] or [_in_words(each, silo)]
        more = "; a rollback has undone it" if each.round in undone else ""
        print(f"round {each.round}: {each.verdict}: {first}{more}")
        for more in rest:
            print(f"  {more}")


def _print_letters(letters: list[Correspondence]) -> None:
    for each in letters:
        what = f"{count(each.orders, 'order')} and {count(each.answers, 'answer')} verified"
        refused = ", ".join(f"{number} {code}" for code, number in sorted(each.refused.items()))
        line = each.denied or f"{what}, refused: {refused or 'none'}"
        print(f"letters of {each.environment}: {line}")


def _counted(each: Correspondence) -> dict[str, Any]:
    return {
        "environment": each.environment,
        "orders": each.orders,
        "answers": each.answers,
        "refused": dict(sorted(each.refused.items())),
        **({"denied": each.denied} if each.denied else {}),
    }


def _in_words(each: Findings, silo: str) -> str:
    if silo:
        is_member = silo in each.merged or silo in {r.environment for r in each.refused}
        return f"the update of {silo}, trained again" if is_member else f"no update of {silo}"
    what = f"{count(len(each.merged), 'update')} merged"
    if each.failed:
        what = "too few updates passed the gate"
    refused = ", ".join(f"{r.environment} ({r.reason})" for r in each.refused)
    what = f"{what}, refused: {refused}" if refused else what
    return f"{what}; signed" if each.signed else what


def _data(findings: list[Findings], undone: frozenset[int]) -> list[dict[str, Any]]:
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


def _tell(findings: list[Findings]) -> int:
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
def _open_run(out: Path, credentials: Path | None, silo: str) -> Iterator[Opened]:
    from hansa.local.results import open_store, with_storage
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = with_storage(folder.load(), folder)
    known = _known({"status": federation.status.to_json()})
    if not folder.store.exists():
        yield replace(_own(federation, _variables(credentials, silo)), **known)
        return
    with open_store(folder.load(), folder) as store:
        yield Opened(federation=federation, storage=_storage(federation), store=store, **known)


@contextmanager
def _open_federation(
    name: str,
    credentials: Path | None,
    silo: str,
    endpoint: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> Iterator[Opened]:
    document = target.open_federations(namespace, context, kubeconfig).get(name)
    federation = at_endpoint(readable(document), endpoint)
    storage = _storage(federation)
    check_name(storage)
    try:
        opened = _own(federation, _variables(credentials, silo))
        yield replace(opened, **_known(document))
    except Unreachable as error:
        raise Unreachable(error.message, hint=forward_hint(storage)) from error


def _known(document: dict[str, Any]) -> dict[str, Any]:
    """What the status says of its rounds; a newer operator may say more than we know."""
    from hansa.manifest import AuditHead

    status = document.get("status") or {}
    history, head = status.get("history") or [], status.get("audit")
    return {
        "head": AuditHead(round=head["round"], sha256=head["sha256"]) if head else None,
        "adapters": {entry["round"]: entry["adapter"] for entry in history if entry.get("adapter")},
        "undone": frozenset(e["round"] for e in history if e.get("outcome") == "undone"),
    }


def _own(federation: Federation, variables: dict[str, str] | None) -> Opened:
    """A run in a store of the user's own."""
    from hansa.local.loop import own_store

    return Opened(
        federation=federation,
        storage=_storage(federation),
        store=own_store(federation.spec, variables),
        variables=variables,
    )


def _variables(credentials: Path | None, silo: str) -> dict[str, str] | None:
    """Whose credentials of the file are used: the silo's own, or a reader's."""
    from hansa.local.credentials import of_reader, read_credentials

    if not credentials:
        return None
    given = read_credentials(credentials)
    return given.get(silo) or of_reader(given)


def _storage(federation: Federation) -> S3:
    if federation.spec.storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    return federation.spec.storage.s3
