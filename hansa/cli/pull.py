"""`hansa pull`: an adapter out of a federation's store, ready for PEFT."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from hansa.cli import target
from hansa.cli.common import Format, Output, print_data, say
from hansa.core.errors import InputError
from hansa.publish.place import is_place, parse

Where = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Folder of a run, name of a federation on the cluster, hf:org/name@revision or "
        "oci://host/repository:tag.",
    ),
]


def pull(
    run: Where,
    access: target.StoreAccess,
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
    output: Output = Format.TABLE,
) -> None:
    """Copy an adapter out of the store; PeftModel.from_pretrained loads the folder.

    For a federation on the cluster it uses your own AWS_* credentials, or those of --credentials.
    Every file is checked by its digest. What `hansa push` has published is pulled by its place.
    """
    from hansa.publish import pull as publish

    if is_place(run):
        _pull_published(run, to, {"--round": round_ != "last", "-e": environment}, output)
        return
    source = access.find_folder(run)
    if not source and to is None:
        raise InputError("--to: got nothing, expected a folder for the adapter")
    number, where, files = publish.pull(
        source or access.find(run), to, round_, environment, access.credentials, say
    )
    if output is not Format.TABLE:
        print_data({"round": number, "path": str(where), "files": files}, output)
        return
    print(where)
    say(f"adapter of round {number}: PeftModel.from_pretrained(base, '{where}')")


def _pull_published(
    name: str, to: Path | None, others: Mapping[str, object], output: Format
) -> None:
    """An adapter on the hub or in a registry, by any publisher."""
    from hansa.publish.pull import pull_published

    for option, given in others.items():
        if given:
            raise InputError(f"{option}: got it with {name}; it is for a run or a federation")
    if to is None:
        raise InputError("--to: got nothing, expected a folder for the adapter")
    version, files = pull_published(parse("RUN", name), to)
    if output is not Format.TABLE:
        print_data({"from": name, "version": version, "path": str(to), "files": files}, output)
        return
    print(to)
    say(f"{name} at {version}: PeftModel.from_pretrained(base, '{to}')")
