"""Options of every command that speaks to a cluster, and the way from them to its federations."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.core.errors import InputError
from hansa.publish.bucket import Endpoint, read_known_fields, set_endpoint

if TYPE_CHECKING:
    from hansa.api.status import Federation
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


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The options that choose a cluster and a namespace of it."""

    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", help="Namespace; default: that of the context."),
    ] = None
    context: Annotated[
        str | None, typer.Option(help="Context in the kubeconfig; default: the current one.")
    ] = None
    kubeconfig: Annotated[
        str | None, typer.Option(help="Path of the kubeconfig; default: as kubectl finds it.")
    ] = None

    @property
    def is_chosen(self) -> bool:
        """Whether an option names a cluster, or a namespace of it."""
        return bool(self.namespace or self.context or self.kubeconfig)

    def is_meant(self, name: str) -> bool:
        """Whether a name is one of a federation, since an option chooses its cluster."""
        return self.is_chosen and name == Path(name).name

    def find_run(self, run: str, *, endpoint: str | None = None, **here: object) -> "RunDir | None":
        """The run's folder that is meant; None where it is the name of a federation.

        `endpoint` fits a federation only; `here`, by option, a run on this machine only.
        """
        from hansa.local import rundir

        folder = None if self.is_meant(run) else rundir.find_run(run)
        what, other = ("folder", "a federation") if folder else ("federation", "a run's folder")
        for option, value in ({"endpoint": endpoint} if folder else here).items():
            if value:
                name = f"--{option.replace('_', '-')}"
                raise InputError(f"{name}: got it with the {what} {run}; it is for {other}")
        return folder

    def open(self, *, everywhere: bool = False) -> "Federations":
        """The federations that the options mean."""
        from hansa.kubernetes.federations import open_federations

        return open_federations(
            self.namespace, self.context, self.kubeconfig, everywhere=everywhere
        )

    def open_either(self, name: str | None, member: str | None) -> "tuple[Federations, str]":
        """Where the one object is that a command line names, and its name."""
        from hansa.kubernetes.federations import FederationMembers

        if name and member:
            raise InputError(f"got {name} and --member {member}, expected one of them")
        if not (chosen := name or member):
            raise InputError("got neither a name nor --member, expected one of them")
        if name and self.find_run(name):
            raise InputError(
                f"NAME: got {name}, a run on this machine, expected the name of a federation",
                hint=f"Ctrl-C stops such a run, `hansa retry {name}` resumes it",
            )
        federations = self.open()
        if member:
            return FederationMembers(federations.kube, federations.namespace), chosen
        return federations, chosen


@dataclass(frozen=True, kw_only=True)
class StoreAccess(ClusterOptions):
    """The options by which a command reads the store of a run or of a federation."""

    credentials: Credentials = None
    endpoint: Endpoint = None

    def find_folder(self, run: str) -> "RunDir | None":
        """The run's folder that is meant; None where it is the name of a federation."""
        return self.find_run(run, endpoint=self.endpoint)

    def find(self, run: str) -> "RunDir | Federation":
        """The run's folder, or the federation with its store's address as it is from here."""
        if folder := self.find_folder(run):
            return folder
        return set_endpoint(read_known_fields(self.open().get(run)), self.endpoint)


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
