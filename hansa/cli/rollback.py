"""`hansa rollback`: go back to the adapter of an earlier round, and on from there."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.api import ANNOTATION_ROLLBACK
from hansa.cli import target
from hansa.cli.common import say
from hansa.cli.run import CredentialsFile, Parallel
from hansa.errors import InputError
from hansa.exits import Exit

if TYPE_CHECKING:
    from hansa.status import FederationStatus

Round = Annotated[
    int,
    typer.Option(
        "--to",
        metavar="ROUND",
        min=0,
        max=999_999_999,
        help="Round whose adapter to go back to; 0: the base.",
        show_default=False,
    ),
]


def rollback(
    to: Round,
    name: target.OptionalName = None,
    out: target.OptionalFolder = None,
    parallel: Parallel = None,
    credentials: CredentialsFile = None,
    namespace: target.Namespace = None,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> int:
    """Go back to the adapter of an earlier round; the rounds after it are played again.

    They stay in the history, as `undone`, and in the store; what was explored in them stays
    experience. A federation on the cluster is asked to; a run on this machine (--out) goes on at
    once, with the settings that it has. --parallel and --credentials are those of `hansa run`.
    """
    target.one_of(name, out)
    if out:
        return _roll_back_run(out, to, parallel, credentials)
    for option, value in (("--parallel", parallel), ("--credentials", credentials)):
        if value:
            raise InputError(f"{option}: got it without --out; it is for a run on this machine")
    _roll_back_federation(name or "", to, namespace, context, kubeconfig)
    return int(Exit.DONE)


def _roll_back_run(out: Path, to: int, parallel: int | None, credentials: Path | None) -> int:
    from hansa.cli.run import carry_out
    from hansa.local.credentials import read_credentials
    from hansa.local.loop import Options
    from hansa.local.rundir import RunDir
    from hansa.policy import rollback as policy

    folder = RunDir(out)
    federation = folder.load()
    lost = _lost(federation.status, to)
    if folder.is_running():
        raise InputError(
            f"--out: got {out}, where another `hansa run` is at work",
            hint="stop it with Ctrl-C, which loses nothing, and then go back",
        )
    if lost is None and federation.status.phase == "Succeeded":
        print(f"run {out} unchanged (it ends with round {to} already)")
        return int(Exit.DONE)
    options = Options(
        embedded=folder.store.exists(),
        parallel=parallel,
        credentials=read_credentials(credentials) if credentials else None,
    )
    value = policy.request(to, target.now().isoformat())
    annotations = {**federation.metadata.annotations, ANNOTATION_ROLLBACK: value}
    metadata = federation.metadata.model_copy(update={"annotations": annotations})
    if lost is not None:
        say(f"goes back to round {to}{lost}")
    asked = federation.model_copy(update={"metadata": metadata})
    return carry_out(asked, folder, options, goes_on=f"`hansa retry --out {out}` goes on")


def _roll_back_federation(
    name: str, to: int, namespace: str | None, context: str | None, kubeconfig: str | None
) -> None:
    from hansa.cluster.state import condition, status
    from hansa.policy import rollback as policy

    federations = target.open_federations(namespace, context, kubeconfig)
    federation = federations.get(name)
    accepted = condition(federation, "Accepted")
    if accepted.get("status") == "False":
        raise InputError(
            f"federation {name}: a rollback cannot fix it: {accepted.get('message')}",
            hint="set the named fields back with `hansa apply -f FILE`",
        )
    lost = _lost(_parsed(name, status(federation)), to)
    if lost is None:
        print(f"federation/{name} unchanged (it goes on from round {to} already)")
        return
    value = policy.request(to, target.now().isoformat())
    federations.change(name, {"metadata": {"annotations": {ANNOTATION_ROLLBACK: value}}})
    print(f"federation/{name} goes back to round {to}{lost}")
    say(f"see it run: `hansa watch {federations.call(name)}`")


def _parsed(name: str, status: dict[str, Any]) -> "FederationStatus":
    from pydantic import ValidationError

    from hansa.status import FederationStatus

    try:
        return FederationStatus.model_validate_json(json.dumps(status))
    except ValidationError:
        raise InputError(
            f"federation {name}: its status is of another version of Hansa",
            hint="use the `hansa` of the operator's version",
        ) from None


def _lost(status: "FederationStatus", to: int) -> str | None:
    """What no longer counts after it, in words; nothing where it would change nothing."""
    from hansa.policy import rollback as policy
    from hansa.words import count

    entry = policy.find(status.history, str(to))
    if entry is None:
        raise InputError(f"--to: {policy.refusal(status.history, str(to))}")
    if policy.is_there(status, entry) and not status.failed:
        return None
    rounds = status.completed - policy.undo(status, entry).completed
    return f" (undoes {rounds} of {count(status.completed, 'round')})" if rounds else ""
