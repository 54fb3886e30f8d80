"""`hansa audit`: was every round merged from what its silos sent, and is all of it still there?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.bucket import Endpoint, at_endpoint, check_name, forward_hint, readable
from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.status import Credentials
from hansa.errors import InputError, Unreachable

if TYPE_CHECKING:
    from hansa.spec import S3
    from hansa.status import Federation
    from hansa.store.base import ObjectStore
    from hansa_server.verify import Findings

DIFFERS = 1
CANNOT_BE = 3
"""Exit codes; 0: every round is equal."""


def audit(
    name: target.OptionalName = None,
    out: target.OptionalFolder = None,
    round_: Annotated[
        int | None, typer.Option("--round", min=1, help="Look into this round only.")
    ] = None,
    credentials: Credentials = None,
    endpoint: Endpoint = None,
    output: Output = Format.TABLE,
    namespace: target.Namespace = None,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> int:
    """Check a run by its audit log, and merge each round again.

    Exit 0: all rounds are equal. 1: something differs. 3: something cannot be checked.
    """
    target.one_of(name, out)
    if out and endpoint:
        raise InputError("--endpoint: got it with --out; it is for a federation on a cluster")
    place = (
        _open_run(out, credentials)
        if out
        else _open_federation(name or "", credentials, endpoint, namespace, context, kubeconfig)
    )
    with place as (federation, store, storage):
        findings = _check(store, storage, round_)
    if round_ is not None and not findings:
        raise InputError(f"--round: got {round_}, which no entry of the audit log is about")
    if output is Format.TABLE:
        _print_lines(findings)
    else:
        print_data({"federation": federation.metadata.name, "rounds": _data(findings)}, output)
    return _tell(findings)


def _check(store: ObjectStore, storage: S3, round_: int | None) -> list[Findings]:
    from functools import partial

    from hansa_server.recompute import merge_again
    from hansa_server.verify import Check

    with TemporaryDirectory(prefix="hansa-") as scratch:
        check = Check(store, storage, Path(scratch))
        return check.run(partial(merge_again, store, storage), round_)


def _print_lines(findings: list[Findings]) -> None:
    for each in findings:
        first, *rest = [*each.wrong, *each.unknown] or [_in_words(each)]
        print(f"round {each.round}: {each.verdict}: {first}")
        for more in rest:
            print(f"  {more}")


def _in_words(each: Findings) -> str:
    if each.failed:
        what = "too few updates passed the gate"
    else:
        what = f"{each.members} update{'s' * (each.members != 1)} merged"
    return f"{what}, refused: {', '.join(each.refused)}" if each.refused else what


def _data(findings: list[Findings]) -> list[dict[str, Any]]:
    return [
        {
            "round": each.round,
            "verdict": each.verdict,
            "differs": each.wrong,
            "cannotBe": each.unknown,
            "refused": each.refused,
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
def _open_run(out: Path, credentials: Path | None) -> Iterator[tuple[Federation, ObjectStore, S3]]:
    from hansa.local.results import open_store, with_storage
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    with open_store(federation, folder, credentials) as store:
        yield federation, store, _storage(with_storage(federation, folder))


@contextmanager
def _open_federation(
    name: str,
    credentials: Path | None,
    endpoint: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> Iterator[tuple[Federation, ObjectStore, S3]]:
    from hansa.local.credentials import of_reader, read_credentials
    from hansa.local.loop import own_store

    document = target.open_federations(namespace, context, kubeconfig).get(name)
    federation = at_endpoint(readable(document), endpoint)
    storage = _storage(federation)
    check_name(storage)
    variables = of_reader(read_credentials(credentials)) if credentials else None
    try:
        yield federation, own_store(federation.spec, variables), storage
    except Unreachable as error:
        raise Unreachable(error.message, hint=forward_hint(storage)) from error


def _storage(federation: Federation) -> S3:
    if federation.spec.storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    return federation.spec.storage.s3
