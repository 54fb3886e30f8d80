"""`hansa mail`: both logs of letters between the coordinator and one silo, each letter verified."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.target import Credentials
from hansa.core.errors import InputError
from hansa.publish.bucket import Endpoint, open_source, set_endpoint

if TYPE_CHECKING:
    from hansa.api.status import Federation
    from hansa.local.rundir import RunDir
    from hansa.members.mailbox import Mailbox
    from hansa.store.base import ObjectStore

DIFFERS = 1
"""Exit code where an object is not a letter, or the chain is broken; like that of `hansa audit`."""


def mail(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Manifest, - for stdin, or folder of a run."),
    ],
    environment: Annotated[
        str, typer.Argument(metavar="ENVIRONMENT", help="The silo whose letters to print.")
    ],
    orders_key: Annotated[
        list[str] | None,
        typer.Option("--orders-key", help="Public key of the coordinator, not the manifest's."),
    ] = None,
    answers_key: Annotated[
        list[str] | None,
        typer.Option("--answers-key", help="Public key of the silo, not the manifest's."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare what letters name with the bytes in the bucket."),
    ] = False,
    credentials: Credentials = None,
    endpoint: Endpoint = None,
    output: Output = Format.TABLE,
) -> None:
    """Print the letters between the coordinator and a silo, each verified.

    Only what the manifest's publicKeys, or the given keys, signed is believed. Exit code 1 when an
    object is not a letter, or names another letter before it than there is.
    """
    from hansa.crypto.keys import parse_public_key

    for key in (*(orders_key or ()), *(answers_key or ())):
        parse_public_key("ed25519", key)
    with open_source(_find_source(file, endpoint), credentials) as (federation, store):
        logs = _open_logs(federation, store, environment, orders_key, answers_key)
        lines = [{"log": name, **line} for name, box in logs.items() for line in _lines(box)]
        differ = _list_contradictions(store, environment, logs) if check else []
    wrong = sum(not line.get("follows", False) for line in lines)
    if output is not Format.TABLE:
        print_data(lines, output)
    elif lines:
        _show(lines)
    if not lines:
        say(f"there are no letters to or of {environment}: nothing is signed here")
    for sentence in differ:
        say(sentence)
    if check and not differ:
        say("every object that a letter names is there as it says")
    if wrong:
        say(f"{wrong} of {len(lines)} objects are no letters, or break the chain")
    if wrong or differ:
        raise typer.Exit(DIFFERS)


def _show(lines: list[dict[str, Any]]) -> None:
    """A row per letter; a reply is about the round of its order."""
    from hansa.cli.screen import show, table
    from hansa.cli.views.federation import RowTable

    rounds: dict[int, str] = {}
    rows = []
    for line in lines:
        letter = line.get("letter", {})
        order = line["serial"] if line["log"] == "orders" else letter.get("order", {}).get("serial")
        if "assignment" in letter:
            rounds[order] = str(letter["assignment"]["round"])
        broken = "yes" if line.get("follows") else "no: it names another letter before it"
        verified = f"no: {line['means']}" if "fault" in line else broken
        kind = letter.get("kind", "")
        rows.append((line["log"], str(line["serial"]), kind, rounds.get(order, ""), verified))
    show(table(RowTable(titles=("LOG", "SERIAL", "KIND", "ROUND", "VERIFIED"), rows=rows)))


def _open_logs(
    federation: "Federation",
    store: "ObjectStore",
    silo: str,
    orders: list[str] | None,
    answers: list[str] | None,
) -> "dict[str, Mailbox]":
    """Both logs with the keys that are believed: those given, or the manifest's."""
    from hansa.api.letters import ANSWERS, ORDERS
    from hansa.members.correspondence import open_mailbox

    known = [each.name for each in federation.spec.environments]
    if silo not in known:
        raise InputError(f"ENVIRONMENT: got '{silo}', expected {' or '.join(known)}")
    exchange, member = federation.spec.exchange, federation.spec.environment(silo).member
    logs = {
        "orders": (ORDERS, orders or (exchange.public_keys if exchange else [])),
        "answers": (ANSWERS, answers or (member.public_keys if member else [])),
    }
    for name, (_, keys) in logs.items():
        if not keys:
            raise InputError(
                f"--{name}-key: got none, and the manifest names no publicKeys for {silo}, "
                "expected a public key"
            )
    return {
        name: open_mailbox(federation.spec, store, silo, log, keys)
        for name, (log, keys) in logs.items()
    }


def _list_contradictions(store: "ObjectStore", name: str, logs: "dict[str, Mailbox]") -> list[str]:
    """What is not in the bucket as a verified letter names it."""
    from hansa.members.correspondence import walk_objects
    from hansa.members.evidence import find_contradictions
    from hansa.members.mailbox import LogEntry

    wrong: list[str] = []
    for box in logs.values():
        objects = (each for each, _ in walk_objects(box))
        letters = (each.letter for each in objects if isinstance(each, LogEntry))
        wrong += find_contradictions(store, box.prefix, name, letters)
    return wrong


def _find_source(file: Path, endpoint: str | None) -> "RunDir | Federation":
    """A run's folder, or the federation of a manifest."""
    from hansa.local.rundir import RunDir
    from hansa.manifests.load import load

    if not file.is_dir():
        return set_endpoint(load(file, here=False), endpoint)
    if endpoint:
        raise InputError(f"--endpoint: got it with the folder {file}; it is for a manifest")
    return RunDir(file)


def _lines(box: "Mailbox") -> Iterator[dict[str, Any]]:
    """Every object of a log: the letter, or what is wrong with it."""
    from hansa.api.letters import FAULTS
    from hansa.members.correspondence import walk_objects
    from hansa.members.mailbox import NoEntry

    for entry, follows in walk_objects(box):
        line: dict[str, Any] = {"serial": entry.serial}
        if isinstance(entry, NoEntry):
            yield {**line, "fault": entry.fault, "means": FAULTS[entry.fault]}
        else:
            letter = entry.letter.to_json()
            yield {**line, "digest": entry.digest, "follows": follows, "letter": letter}
