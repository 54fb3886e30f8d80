"""Options of every command that speaks to a cluster, and the way from them to its federations."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations


class Wide(StrEnum):
    """How an object of the cluster is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the federation.")]
OptionalName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Name of a federation on the cluster.")
]
MemberName = Annotated[
    str | None,
    typer.Option("--member", metavar="NAME", help="A FederationMember instead: a silo's part."),
]
Namespace = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Namespace; default: that of the context.")
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="Context in the kubeconfig; default: the current one."),
]
KubeconfigFile = Annotated[
    str | None,
    typer.Option("--kubeconfig", help="Path of the kubeconfig; default: as kubectl finds it."),
]
OptionalFolder = Annotated[
    Path | None, typer.Option("--out", help="Folder of a run on this machine.")
]
Folder = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
Credentials = Annotated[
    Path | None,
    typer.Option(help="Credentials file, as for `hansa run`; only for a store of your own."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the run; default: runs/NAME.", show_default=False),
]
Parallel = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Jobs at a time; default: by cores, GPUs and memory."),
]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        help="JSON file: {environment|aggregator|default: {AWS_...: value}}; "
        "HANSA_EXPERIENCE_AWS_... are for an environment's experienceStorage, HANSA_EXPERIENCE_KEY "
        "is the file of the key that its experience is sealed to.",
    ),
]
WideOutput = Annotated[
    Wide, typer.Option("-o", "--output", help="How to print it.", case_sensitive=False)
]


def open_federations(
    namespace: str | None, context: str | None, kubeconfig: str | None, *, everywhere: bool = False
) -> "Federations":
    """The federations that the options mean."""
    from hansa.kubernetes import federations

    return federations.open_federations(namespace, context, kubeconfig, everywhere=everywhere)


def open_either(
    name: str | None,
    member: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> "tuple[Federations, str]":
    """Where the one object is that a command line names, and its name."""
    from hansa.kubernetes.federations import FederationMembers

    if name and member:
        raise InputError(f"got NAME ({name}) and --member ({member}), expected one of them")
    if not (chosen := name or member):
        raise InputError("got neither NAME nor --member, expected one of them")
    federations = open_federations(namespace, context, kubeconfig)
    if member:
        return FederationMembers(federations.kube, federations.namespace), chosen
    return federations, chosen


def refuse_unaccepted(federation: dict[str, Any], remedy: str) -> None:
    """Refuse a remedy for a federation whose spec the operator refuses."""
    from hansa.kubernetes.state import find_condition

    accepted = find_condition(federation, "Accepted")
    if accepted.get("status") == "False":
        name = federation["metadata"]["name"]
        raise InputError(
            f"federation {name}: {remedy} cannot fix it: {accepted.get('message')}",
            hint="set the named fields back with `hansa apply -f FILE`",
        )


def require_one_place(name: str | None, out: Path | None) -> None:
    """Refuse a command line that names two places, or none."""
    if bool(name) == bool(out):
        both = f"got NAME ({name}) and --out ({out}), expected one of them"
        raise InputError(
            both if name else "got neither NAME nor --out, expected one of them",
            hint="NAME is a federation on the cluster, --out the folder of a run on this machine",
        )


def now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def parse_timeout(text: str) -> float:
    """A duration as kubectl writes it: 90s, 10m, 1h30m, or plain seconds; 0 is without end."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", text.strip())
    if not match or not any(match.groups()):
        raise InputError(f"--timeout: got {text!r}, expected a duration like 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    return float(total) if total else float("inf")
