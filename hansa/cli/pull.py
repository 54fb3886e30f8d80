"""`hansa pull`: an adapter out of a federation's store, ready for PEFT."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.status import Credentials
from hansa.cli.target import (
    Context,
    KubeconfigFile,
    Namespace,
    OptionalFolder,
    OptionalName,
    one_of,
    open_federations,
)
from hansa.errors import InputError, Unreachable

if TYPE_CHECKING:
    from hansa.spec import S3
    from hansa.status import Federation


def pull(
    name: OptionalName = None,
    out: OptionalFolder = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write; default: in the run's folder.")
    ] = None,
    round_: Annotated[
        str, typer.Option("--round", help="A round's number, `last` or `best`.")
    ] = "last",
    credentials: Credentials = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Address of the store from here (a port-forward, say).")
    ] = None,
    output: Output = Format.TABLE,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Copy a global adapter out of the store; PeftModel.from_pretrained loads the folder.

    For a federation on the cluster: with your own AWS_* credentials, or those of --credentials.
    """
    one_of(name, out)
    if out:
        if endpoint:
            raise InputError("--endpoint: got it with --out; it is for a federation on a cluster")
        number, where, files = _pull_run(out, to, round_, credentials)
    else:
        if to is None:
            raise InputError("--to: got nothing, expected a folder for the adapter")
        document = open_federations(namespace, context, kubeconfig).get(name or "")
        federation = _at(_needed(document), endpoint)
        number, files = _pull_federation(federation, to, round_, credentials)
        where = to
    if output is not Format.TABLE:
        print_data({"round": number, "path": str(where), "files": files}, output)
        return
    print(where)
    say(f"adapter of round {number}: PeftModel.from_pretrained(base, '{where}')")


def _pull_run(
    out: Path, to: Path | None, round_: str, credentials: Path | None
) -> tuple[int, Path, dict[str, Any]]:
    from hansa.local.results import choose_round, open_store, pull_adapter
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    number = choose_round(federation, round_)
    with open_store(federation, folder, credentials) as store:
        manifest = pull_adapter(federation, folder, store, number, to or folder.adapter)
    return number, to or folder.adapter, manifest


# -- from a cluster -------------------------------------------------------------------------------


def _needed(document: dict[str, Any]) -> "Federation":
    """The parts of the object that matter here; a newer operator may say more than we know."""
    from hansa.status import Federation

    status = document.get("status") or {}
    known = {key: status[key] for key in ("adapter", "best") if status.get(key)}
    needed = {key: document[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    return Federation.model_validate({**needed, "status": known})


def _at(federation: "Federation", endpoint: str | None) -> "Federation":
    """The federation with the store's address as it is from here."""
    storage = federation.spec.storage
    if endpoint is None or storage is None:
        return federation
    from pydantic import ValidationError

    from hansa.spec import S3, Storage

    try:
        place = S3.model_validate({**storage.s3.to_json(), "endpoint": endpoint})
    except ValidationError:
        fits = "an address like http://127.0.0.1:9000"
        raise InputError(f"--endpoint: got {endpoint!r}, expected {fits}") from None
    spec = federation.spec.model_copy(update={"storage": Storage(s3=place)})
    return federation.model_copy(update={"spec": spec})


def _pull_federation(
    federation: "Federation", to: Path, round_: str, credentials: Path | None
) -> tuple[int, dict[str, Any]]:
    from hansa.local.credentials import of_reader, read_credentials
    from hansa.local.loop import own_store
    from hansa.local.results import choose_round, pull_files

    storage = federation.spec.storage
    if storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    number = choose_round(federation, round_)
    _check_name(storage.s3)
    variables = of_reader(read_credentials(credentials)) if credentials else None
    try:
        return number, pull_files(
            own_store(federation.spec, variables), storage.s3.prefix, number, to
        )
    except Unreachable as error:
        raise Unreachable(error.message, hint=_forward(storage.s3)) from error


def _check_name(s3: "S3") -> None:
    """Refuse a name of the cluster's own DNS at once, instead of after a minute of trying."""
    host = urlsplit(s3.endpoint or "").hostname
    if not host:
        return
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        raise InputError(
            f"spec.storage.s3.endpoint: got {s3.endpoint}, which this machine cannot resolve",
            hint=_forward(s3),
        ) from None


def _forward(s3: "S3") -> str:
    """How to reach a store that only the cluster reaches."""
    parts = urlsplit(s3.endpoint or "")
    service, _, rest = (parts.hostname or "").partition(".")
    space = f" -n {rest.partition('.')[0]}" if rest else ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    local = port if port > 1023 else port + 9000
    return (
        f"if it is a Service of the cluster: kubectl port-forward{space} "
        f"service/{service} {local}:{port}, then --endpoint {parts.scheme}://127.0.0.1:{local}"
    )
