"""The store of a run, or of a federation on a cluster as it is reached from this machine."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from hansa.core.errors import InputError, Unreachable

if TYPE_CHECKING:
    from hansa.api.spec import S3, FederationSpec
    from hansa.api.status import Federation
    from hansa.local.rundir import RunDir
    from hansa.store.base import ObjectStore

Endpoint = Annotated[
    str | None, typer.Option(help="Address of the store from here, for example of a port-forward.")
]


def read_known_fields(
    document: dict[str, Any], wanted: Sequence[str] = ("adapter", "best")
) -> "Federation":
    """The object with these fields of its status; a newer operator may write unknown ones."""
    from hansa.api.status import Federation

    status = document.get("status") or {}
    known = {key: status[key] for key in wanted if key in status}
    needed = {key: document[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    return Federation.model_validate({**needed, "status": known})


def set_endpoint(federation: "Federation", endpoint: str | None) -> "Federation":
    """The federation with the store's address as it is from here."""
    from pydantic import ValidationError

    from hansa.api.spec import S3, ExchangeStorage

    storage = federation.spec.storage
    if endpoint is None or storage is None:
        return federation
    try:
        place = S3.model_validate({**storage.s3.to_json(), "endpoint": endpoint})
    except ValidationError:
        fits = "an address like http://127.0.0.1:9000"
        raise InputError(f"--endpoint: got {endpoint!r}, expected {fits}") from None
    spec = federation.spec.model_copy(update={"storage": ExchangeStorage(s3=place)})
    return federation.model_copy(update={"spec": spec})


@contextmanager
def open_source(
    source: "RunDir | Federation", credentials: Path | None
) -> "Iterator[tuple[Federation, ObjectStore]]":
    """A run on this machine or a federation on a cluster, with its place, and its store."""
    from hansa.api.status import Federation
    from hansa.local.results import add_storage, open_store

    if isinstance(source, Federation):
        with open_bucket(source.spec, credentials) as store:
            yield source, store
        return
    federation = source.load()
    with open_store(federation, source, credentials) as store:
        yield add_storage(federation, source), store


@contextmanager
def open_bucket(spec: "FederationSpec", credentials: Path | None) -> "Iterator[ObjectStore]":
    """The store of a federation on a cluster, read with your own credentials."""
    from hansa.local.credentials import pick_reader, read_credentials
    from hansa.local.loop import own_store

    s3 = spec.require_s3()
    check_name(s3)
    variables = pick_reader(read_credentials(credentials)) if credentials else None
    try:
        yield own_store(spec, variables)
    except Unreachable as error:
        raise Unreachable(error.message, hint=suggest_forward(s3)) from error


def check_name(s3: "S3") -> None:
    """Refuse a name that only the cluster's DNS resolves, before a minute of retries."""
    host = urlsplit(s3.endpoint or "").hostname
    if not host:
        return
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        raise InputError(
            f"spec.storage.s3.endpoint: got {s3.endpoint}, which this machine cannot resolve",
            hint=suggest_forward(s3),
        ) from None


def suggest_forward(s3: "S3") -> str:
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
