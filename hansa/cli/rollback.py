"""`hansa rollback`: go back to the adapter of an earlier round, and on from there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.api.constants import ANNOTATION_ROLLBACK
from hansa.cli import run as runner
from hansa.cli import target
from hansa.cli.common import say
from hansa.core.errors import InputError
from hansa.core.exits import Exit
from hansa.publish.bucket import Endpoint, open_bucket, read_known_fields, set_endpoint

if TYPE_CHECKING:
    from hansa.api.status import Federation, FederationStatus, HistoryEntry
    from hansa.kubernetes.federations import Federations
    from hansa.local.rundir import RunDir
    from hansa.store.base import ObjectStore

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
    run: target.Run,
    to: Round,
    given: runner.RunArguments,
    cluster: target.ClusterOptions,
    endpoint: Endpoint = None,
) -> int:
    """Go back to the adapter of an earlier round; the rounds after it are played again.

    They stay in the history, as `undone`, and in the store; what was explored in them stays
    experience. A federation on the cluster is asked to; a run on this machine resumes at once,
    with the settings that it has. --parallel and the keys are those of `hansa run`; for a
    federation on the cluster, --credentials lets the store be asked first whether it has it.
    """
    here = {**vars(given), "credentials": None}  # which a federation's store takes as well
    if folder := cluster.find_run(run, endpoint=endpoint, **here):
        return _roll_back_run(folder, to, given)
    _roll_back_federation(cluster.open(), run, to, given.credentials, endpoint)
    return int(Exit.DONE)


def _roll_back_run(folder: "RunDir", to: int, given: runner.RunArguments) -> int:
    from hansa.local.results import add_storage, open_store
    from hansa.plan.policy import rollback as policy

    federation = folder.load()
    lost = _describe_lost_rounds(federation.status, to)
    if folder.is_running():
        raise InputError(
            f"{folder.path}: another `hansa run` is at work in this folder",
            hint="stop it with Ctrl-C, which loses nothing, and then go back",
        )
    if lost is None and federation.status.phase == "Succeeded":
        print(f"run {folder.path} unchanged (it ends with round {to} already)")
        return int(Exit.DONE)
    with open_store(federation, folder, given.credentials) as store:
        _check_there(add_storage(federation, folder), store, to)
    given = replace(given, embedded=folder.store.exists())
    value = policy.format_request(to, target.now().isoformat())
    annotations = {**federation.metadata.annotations, ANNOTATION_ROLLBACK: value}
    metadata = federation.metadata.model_copy(update={"annotations": annotations})
    if lost is not None:
        say(f"goes back to round {to}{lost}")
    asked = federation.model_copy(update={"metadata": metadata})
    goes_on = f"`{given.format_retry(folder)}` resumes it"
    return runner.carry_out(asked, folder, given, goes_on=goes_on)


def _roll_back_federation(
    federations: "Federations", name: str, to: int, credentials: Path | None, endpoint: str | None
) -> None:
    from hansa.kubernetes.state import get_status
    from hansa.plan.policy import rollback as policy

    federation = federations.get(name)
    target.refuse_unaccepted(federation, "a rollback")
    parsed = _parse_status(name, get_status(federation))
    lost = _describe_lost_rounds(parsed, to)
    if lost is None:
        print(f"federation/{name} unchanged (it continues from round {to} already)")
        return
    if credentials or endpoint:
        placed = set_endpoint(read_known_fields(federation), endpoint)
        with open_bucket(placed.spec, credentials) as store:
            _check_there(placed.model_copy(update={"status": parsed}), store, to)
    elif to:
        say(
            f"note: the store was not asked whether it still has round {to}, which the operator "
            "cannot see; --credentials FILE asks it before anything is changed"
        )
    value = policy.format_request(to, target.now().isoformat())
    federations.change(name, {"metadata": {"annotations": {ANNOTATION_ROLLBACK: value}}})
    print(f"federation/{name} goes back to round {to}{lost}")
    say(f"see it run: `hansa watch {federations.call(name)}`")


def _parse_status(name: str, status: dict[str, Any]) -> "FederationStatus":
    from pydantic import ValidationError

    from hansa.api.status import FederationStatus

    try:
        return FederationStatus.model_validate_json(json.dumps(status))
    except ValidationError:
        raise InputError(
            f"federation {name}: its status is of another version of Hansa",
            hint="use the `hansa` of the operator's version",
        ) from None


def _check_there(federation: "Federation", store: "ObjectStore", to: int) -> None:
    """Refuse a round whose adapter somebody, or a lifecycle rule, has removed from the store."""
    from hansa.plan.policy import rollback as policy

    entry = policy.find_target(federation.status.history, str(to))
    storage = federation.spec.storage
    if not to or entry is None or storage is None:
        return
    why = _missing(store, storage.s3.prefix, entry)
    if why:
        raise InputError(
            f"--to: got {to}, whose adapter the store no longer has ({why}), "
            "expected a round that it still has"
        )


def _missing(store: "ObjectStore", prefix: str, entry: "HistoryEntry") -> str:
    """What of a round's adapter is not there as it was; empty: all of it is."""
    from hansa.api import bucket_keys
    from hansa.api.bucket_documents import GlobalManifest
    from hansa.core.errors import InvalidDocument, NotFound
    from hansa.store import documents

    folder = bucket_keys.global_folder(prefix, entry.round)
    key = folder + bucket_keys.MANIFEST
    try:
        files = documents.read_document(GlobalManifest, store, key).files
        for name in sorted(files):
            key = folder + name
            store.size(key)
    except NotFound:
        return f"{key} is gone"
    except InvalidDocument as error:
        return error.message
    tensors = files.get(bucket_keys.ADAPTER)
    if tensors is None or tensors.sha256 != entry.adapter:
        return f"what is in {folder} is not the one that round {entry.round} made"
    return ""


def _describe_lost_rounds(status: "FederationStatus", to: int) -> str | None:
    """What no longer counts after it, in words; nothing where it would change nothing."""
    from hansa.core.text import count
    from hansa.plan.policy import rollback as policy

    entry = policy.find_target(status.history, str(to))
    if entry is None:
        raise InputError(f"--to: {policy.explain_refusal(status.history, str(to))}")
    if policy.is_already_there(status, entry) and not status.failed:
        return None
    rounds = status.completed - policy.undo(status, entry).completed
    return f" (undoes {rounds} of {count(status.completed, 'round')})" if rounds else ""
