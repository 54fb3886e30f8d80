"""`hansa pull`: an adapter out of a federation's store, ready for PEFT."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.bucket import Endpoint, at_endpoint, check_name, forward_hint, readable
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
    endpoint: Endpoint = None,
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
        federation = at_endpoint(readable(document), endpoint)
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
    check_name(storage.s3)
    variables = of_reader(read_credentials(credentials)) if credentials else None
    try:
        return number, pull_files(
            own_store(federation.spec, variables), storage.s3.prefix, number, to
        )
    except Unreachable as error:
        raise Unreachable(error.message, hint=forward_hint(storage.s3)) from error
