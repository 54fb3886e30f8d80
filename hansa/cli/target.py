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
    from hansa.local.rundir import RunDir


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
_RUN = "Folder of a run, as runs/demo, or name of a federation on the cluster."
Run = Annotated[str, typer.Argument(metavar="RUN", help=_RUN)]
OptionalRun = Annotated[str | None, typer.Argument(metavar="RUN", help=_RUN)]
MemberName = Annotated[
    str | None,
    typer.Option("--member", metavar="NAME", help="A FederationMember instead: a silo's part."),
]
Manifest = Annotated[Path, typer.Argument(metavar="FILE", help="Manifest, or - for stdin.")]
"""The first argument of a command, as `file`: by this name `PlainCommand` knows its `-f`."""
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
SigningKey = Annotated[
    Path | None,
    typer.Option(help="File of the key that signs orders, for silos that run elsewhere."),
]
SealingKey = Annotated[
    Path | None, typer.Option(help="File of the key that opens updates, where they are sealed.")
]
MaskingKeys = Annotated[
    Path | None, typer.Option(help="Folder with the file NAME.key of each silo's masking key.")
]
WideOutput = Annotated[
    Wide, typer.Option("-o", "--output", help="How to print it.", case_sensitive=False)
]


def find_run(
    run: str, *cluster: str | None, endpoint: str | None = None, **here: object
) -> "RunDir | None":
    """The run's folder that is meant; None where it is the name of a federation.

    An option that chooses a cluster makes a name one of a federation. `endpoint` fits a federation
    only; `here`, by option, a run on this machine only.
    """
    from hansa.local import rundir

    folder = rundir.find_run(run, elsewhere=any(cluster))
    what, other = ("folder", "a federation") if folder else ("federation", "a run's folder")
    for option, value in ({"endpoint": endpoint} if folder else here).items():
        if value:
            name = f"--{option.replace('_', '-')}"
            raise InputError(f"{name}: got it with the {what} {run}; it is for {other}")
    return folder


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
        raise InputError(f"got {name} and --member {member}, expected one of them")
    if not (chosen := name or member):
        raise InputError("got neither a name nor --member, expected one of them")
    if name and find_run(name, namespace, context, kubeconfig):
        raise InputError(
            f"NAME: got {name}, a run on this machine, expected the name of a federation",
            hint=f"Ctrl-C stops such a run, `hansa retry {name}` resumes it",
        )
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
            hint="set the named fields back with `hansa apply FILE`",
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
