"""Pulling an adapter of a run, a federation or a publisher into a folder that PEFT loads safely."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hansa.adapter import model_card, peft_folder
from hansa.api import bucket_keys
from hansa.api.status import Federation
from hansa.core.errors import InputError
from hansa.core.files import explain_os_errors, replace_file
from hansa.local.credentials import pick_reader, read_credentials
from hansa.local.loop import open_experience
from hansa.local.results import (
    choose_round,
    choose_served_round,
    pull_files,
    pull_personal,
)
from hansa.local.rundir import RunDir
from hansa.publish import registry
from hansa.publish.bucket import open_source
from hansa.publish.hub import Hub
from hansa.publish.parcel import Item
from hansa.publish.place import HubPlace, RegistryPlace
from hansa.store.base import ObjectStore

Note = Callable[[str], None]


def pull(
    source: RunDir | Federation,
    to: Path | None,
    round_: str,
    environment: str | None,
    credentials: Path | None,
    note: Note,
) -> tuple[int, Path, dict[str, Any]]:
    """Copy an adapter of a run here, or of a federation: its round, the folder, and its files.

    `note` is called with a sentence where a silo serves the global adapter itself.
    """
    # Refused before a store is asked.
    choose_round(source if isinstance(source, Federation) else source.load(), round_)
    if to is None:
        if environment or isinstance(source, Federation):
            raise InputError("--to: got nothing, expected a folder for the adapter")
        to = source.adapter
    with open_source(source, credentials) as (federation, store):
        number, files = _pull(federation, store, to, round_, environment, credentials, note)
    return number, to, files


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
    if environment is not None:
        served = choose_served_round(federation, round_)
        known = [e.name for e in federation.spec.environments]
        if environment not in known:
            raise InputError(f"--environment: got '{environment}', expected {' or '.join(known)}")
        given = read_credentials(credentials) if credentials else {}
        variables = given.get(environment) or pick_reader(given) if given else None
        private = open_experience(federation.spec, environment, store, variables)
        place = federation.spec.private_storage(environment)
        if files := pull_personal(
            private, place.s3.prefix if place else "", environment, served, to
        ):
            model_card.write(federation, served, to, environment)
            return served, files
        note(f"{environment} serves the global adapter")
    number = choose_round(federation, round_)
    files = pull_files(store, federation.spec.require_s3().prefix, number, to)
    model_card.write(federation, number, to)
    return number, files


def pull_published(place: HubPlace | RegistryPlace, to: Path) -> tuple[str, dict[str, Any]]:
    """Write the files of a published adapter; the commit or digest they are of, and what they are.

    Nothing is written where a digest differs, or where the files are no plain LoRA adapter.
    """
    if isinstance(place, HubPlace):
        version, items = Hub("RUN").pull(place)
    else:
        version, items = registry.pull(place)
    _check(place, items)
    with explain_os_errors(f"--to: got {to}"):
        to.mkdir(parents=True, exist_ok=True)
        for item in sorted(items, key=lambda item: item.name == bucket_keys.CONFIG):
            replace_file(to / item.name, item.content)  # the config last: PEFT looks for it first
    return version, {
        item.name: {"sha256": item.sha256, "size": len(item.content)} for item in items
    }


def _check(place: HubPlace | RegistryPlace, items: list[Item]) -> None:
    names = {item.name for item in items}
    if missing := [name for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG) if name not in names]:
        raise InputError(f"RUN: got {place}, which has no {missing[0]}, {peft_folder.FITS}")
    with tempfile.TemporaryDirectory(prefix="hansa-pull-") as scratch:
        for item in items:
            (Path(scratch) / item.name).write_bytes(item.content)
        try:
            peft_folder.open_folder(Path(scratch))
        except InputError as error:
            why = error.message.replace(f"{scratch}/", "").replace(scratch, "it")
            raise InputError(f"RUN: got {place}: {why}") from None
