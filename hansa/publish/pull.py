"""Pulling an adapter out of a run's folder or a federation's store, into a PEFT folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hansa.adapter import model_card
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.local.credentials import pick_reader, read_credentials
from hansa.local.loop import open_experience
from hansa.local.results import (
    add_storage,
    choose_round,
    choose_served_round,
    open_store,
    pull_files,
    pull_personal,
)
from hansa.local.rundir import RunDir
from hansa.publish.bucket import open_bucket
from hansa.store.base import ObjectStore

Note = Callable[[str], None]


def pull_run(
    out: Path,
    to: Path | None,
    round_: str,
    environment: str | None,
    credentials: Path | None,
    note: Note,
) -> tuple[int, Path, dict[str, Any]]:
    """Copy an adapter of a run on this machine: its round, the folder, and its files.

    `note` is called with a sentence where a silo serves the global adapter itself.
    """
    folder = RunDir(out)
    federation = folder.load()
    choose_round(federation, round_)  # refused before a store is started
    if environment and to is None:
        raise InputError("--to: got nothing, expected a folder for the environment's adapter")
    target = to or folder.adapter
    with open_store(federation, folder, credentials) as store:
        placed = add_storage(federation, folder)
        number, files = _pull(placed, store, target, round_, environment, credentials, note)
    return number, target, files


def pull_federation(
    federation: Federation,
    to: Path,
    round_: str,
    environment: str | None,
    credentials: Path | None,
    note: Note,
) -> tuple[int, dict[str, Any]]:
    """Copy an adapter of a federation on a cluster: its round, and its files."""
    choose_round(federation, round_)  # refused before a store is asked
    with open_bucket(federation.spec, credentials) as store:
        return _pull(federation, store, to, round_, environment, credentials, note)


def _pull(
    federation: Federation,
    store: ObjectStore,
    to: Path,
    round_: str,
    environment: str | None,
    credentials: Path | None,
    note: Note,
) -> tuple[int, dict[str, Any]]:
    """What the environment serves where one is named, else the global adapter; and its card."""
    private = _open_private_store(federation, environment, store, credentials)
    chosen = choose_served_round(federation, round_)
    if served := _pull_served(federation, private, environment, chosen, to, note):
        return chosen, served
    number = choose_round(federation, round_)
    files = pull_files(store, federation.spec.require_s3().prefix, number, to)
    model_card.write(federation, number, to)
    return number, files


def _pull_served(
    federation: Federation,
    store: ObjectStore,
    environment: str | None,
    round_: int,
    to: Path,
    note: Note,
) -> dict[str, Any] | None:
    """What a silo serves itself, of its private place; nothing where that is the global adapter."""
    if environment is None:
        return None
    known = [e.name for e in federation.spec.environments]
    if environment not in known:
        raise InputError(f"--environment: got '{environment}', expected {' or '.join(known)}")
    place = federation.spec.private_storage(environment)
    prefix = place.s3.prefix if place else ""
    files = pull_personal(store, prefix, environment, round_, to)
    if files is None:
        note(f"{environment} serves the global adapter")
    else:
        model_card.write(federation, round_, to, environment)
    return files


def _open_private_store(
    federation: Federation,
    environment: str | None,
    store: ObjectStore,
    credentials: Path | None,
) -> ObjectStore:
    """What has the silo's experience, by its own keys; the federation's store, where no silo is
    asked for."""
    if environment not in [each.name for each in federation.spec.environments]:
        return store
    given = read_credentials(credentials) if credentials else {}
    variables = given.get(environment or "") or pick_reader(given) if given else None
    return open_experience(federation.spec, environment or "", store, variables)
