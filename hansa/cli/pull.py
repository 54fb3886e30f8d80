"""`hansa pull`: an adapter out of a federation's store, ready for PEFT."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.bucket import Endpoint, at_endpoint, check_name, forward_hint, readable
from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.status import Credentials
from hansa.errors import InputError, Unreachable
from hansa.sharing.place import is_place, parse

if TYPE_CHECKING:
    from hansa.status import Federation
    from hansa.store.base import ObjectStore


Where = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="A federation on the cluster, or hf:org/name@revision or oci://host/repository:tag.",
    ),
]


def pull(
    name: Where = None,
    out: target.OptionalFolder = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write; default: in the run's folder.")
    ] = None,
    round_: Annotated[
        str, typer.Option("--round", help="Which adapter: a round's number, last or best.")
    ] = "last",
    environment: Annotated[
        str | None,
        typer.Option(
            "-e",
            "--environment",
            help="Copy the adapter that this environment serves itself (spec.personalization).",
        ),
    ] = None,
    credentials: Credentials = None,
    endpoint: Endpoint = None,
    output: Output = Format.TABLE,
    namespace: target.Namespace = None,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> None:
    """Copy an adapter out of the store; PeftModel.from_pretrained loads the folder.

    For a federation on the cluster it uses your own AWS_* credentials, or those of --credentials.
    Every file is checked by its digest. What `hansa push` has published is pulled by its place.
    """
    target.one_of(name, out)
    if name and is_place(name):
        _pull_published(name, to, {"--round": round_ != "last", "-e": environment}, output)
        return
    if out:
        if endpoint:
            raise InputError("--endpoint: got it with --out; it is for a federation on a cluster")
        number, where, files = pull_run(out, to, round_, environment, credentials)
    else:
        if to is None:
            raise InputError("--to: got nothing, expected a folder for the adapter")
        document = target.open_federations(namespace, context, kubeconfig).get(name or "")
        federation = at_endpoint(readable(document), endpoint)
        number, files = pull_federation(federation, to, round_, environment, credentials)
        where = to
    if output is not Format.TABLE:
        print_data({"round": number, "path": str(where), "files": files}, output)
        return
    print(where)
    say(f"adapter of round {number}: PeftModel.from_pretrained(base, '{where}')")


def _pull_published(
    name: str, to: Path | None, others: Mapping[str, object], output: Format
) -> None:
    """An adapter of a hub or a registry, whoever has put it there."""
    from hansa.sharing import fetch

    for option, given in others.items():
        if given:
            raise InputError(f"{option}: got it with {name}; it is for a run or a federation")
    if to is None:
        raise InputError("--to: got nothing, expected a folder for the adapter")
    version, files = fetch.pull(parse("NAME", name), to)
    if output is not Format.TABLE:
        print_data({"from": name, "version": version, "path": str(to), "files": files}, output)
        return
    print(to)
    say(f"{name} at {version}: PeftModel.from_pretrained(base, '{to}')")


def pull_run(
    out: Path, to: Path | None, round_: str, environment: str | None, credentials: Path | None
) -> tuple[int, Path, dict[str, Any]]:
    """Copy an adapter of a run on this machine: its round, the folder, and its files."""
    from hansa.local.results import (
        choose_round,
        choose_served,
        open_store,
        pull_adapter,
        with_storage,
    )
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    number = choose_round(federation, round_)
    if environment and to is None:
        raise InputError("--to: got nothing, expected a folder for the environment's adapter")
    destination = to or folder.adapter
    with open_store(federation, folder, credentials) as store:
        placed = with_storage(federation, folder)
        private = _private_store(placed, environment, store, credentials)
        chosen = choose_served(federation, round_)
        if served := _pull_served(placed, private, environment, chosen, destination):
            return chosen, destination, served
        return number, destination, pull_adapter(federation, folder, store, number, destination)


def _pull_served(
    federation: "Federation", store: "ObjectStore", environment: str | None, round_: int, to: Path
) -> dict[str, Any] | None:
    """What a silo serves itself, of its private place; nothing where that is the global adapter."""
    from hansa import card
    from hansa.local.results import pull_personal

    if environment is None:
        return None
    known = [e.name for e in federation.spec.environments]
    if environment not in known:
        raise InputError(f"--environment: got '{environment}', expected {' or '.join(known)}")
    place = federation.spec.private_storage(environment)
    prefix = place.s3.prefix if place else ""
    files = pull_personal(store, prefix, environment, round_, to)
    if files is None:
        say(f"{environment} serves the global adapter")
    else:
        card.write(federation, round_, to, environment)
    return files


# -- from a cluster -------------------------------------------------------------------------------


def pull_federation(
    federation: "Federation",
    to: Path,
    round_: str,
    environment: str | None,
    credentials: Path | None,
) -> tuple[int, dict[str, Any]]:
    """Copy an adapter of a federation on a cluster: its round, and its files."""
    from hansa import card
    from hansa.local.credentials import of_reader, read_credentials
    from hansa.local.loop import own_store
    from hansa.local.results import choose_round, choose_served, pull_files

    storage = federation.spec.storage
    if storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    number = choose_round(federation, round_)
    check_name(storage.s3)
    variables = of_reader(read_credentials(credentials)) if credentials else None
    try:
        store = own_store(federation.spec, variables)
        private = _private_store(federation, environment, store, credentials)
        chosen = choose_served(federation, round_)
        if served := _pull_served(federation, private, environment, chosen, to):
            return chosen, served
        files = pull_files(store, storage.s3.prefix, number, to)
    except Unreachable as error:
        raise Unreachable(error.message, hint=forward_hint(storage.s3)) from error
    card.write(federation, number, to)
    return number, files


def _private_store(
    federation: "Federation",
    environment: str | None,
    store: "ObjectStore",
    credentials: Path | None,
) -> "ObjectStore":
    """What has the silo's experience, by its own keys; the federation's store, where no silo is
    asked for."""
    from hansa.local.credentials import of_reader, read_credentials
    from hansa.local.loop import private_store

    if environment not in [each.name for each in federation.spec.environments]:
        return store
    given = read_credentials(credentials) if credentials else {}
    variables = given.get(environment or "") or of_reader(given) if given else None
    return private_store(federation.spec, environment or "", store, variables)
