"""Where served adapters come from: a PEFT folder, a run on this machine, a federation's store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hansa import keys
from hansa.cli.bucket import check_name, forward_hint
from hansa.cli.common import say
from hansa.errors import Denied, InputError, Unopened, Unreachable
from hansa.local.credentials import of_reader, read_credentials
from hansa.local.loop import own_store, private_store
from hansa.local.results import (
    choose_served,
    open_store,
    pull_files,
    pull_personal,
    with_storage,
)
from hansa.local.rundir import RunDir
from hansa.peftfolder import open_folder
from hansa_client.serving.catalogue import BASE, Entry

if TYPE_CHECKING:
    from hansa.spec import S3
    from hansa.status import Federation
    from hansa.store.base import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is served."""

    model: str
    """The base model, as in spec.model.source."""
    entries: Sequence[Entry]
    """The adapters, the usual one first."""
    storage: S3 | None = None
    """The store that a model in a bucket is read from."""


def of_folder(path: Path) -> Source:
    """One adapter, by the name of its folder."""
    config = open_folder(path).config
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    if not isinstance(base, str) or not base:
        raise InputError(f"{path / keys.CONFIG}: got no base_model_name_or_path, expected a model")
    name = path.resolve().name
    entries = [Entry(name=name if name != BASE else "adapter", folder=path)]
    return Source(model=_model(base, revision), entries=entries)


def of_run(path: Path, credentials: Path | None, into: Path) -> Source:
    """The adapters of a run on this machine, copied: its store is free again afterwards."""
    folder = RunDir(path)
    federation = folder.load()
    with open_store(federation, folder, credentials) as store:
        return _copied(with_storage(federation, folder), store, credentials, into)


def of_federation(federation: Federation, credentials: Path | None, into: Path) -> Source:
    """The adapters of a federation on a cluster, copied with your own credentials."""
    storage = federation.spec.storage
    if storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    check_name(storage.s3)
    variables = of_reader(read_credentials(credentials)) if credentials else None
    try:
        return _copied(federation, own_store(federation.spec, variables), credentials, into)
    except Unreachable as error:
        raise Unreachable(error.message, hint=forward_hint(storage.s3)) from error


def _model(base: str, revision: str | None) -> str:
    """A base by PEFT's name as spec.model.source has it; `hansa.adapter.base_name` turned round."""
    if base.startswith(("builtin:", "s3://")):
        return base
    if Path(base).is_dir() or base.startswith((".", "/", "~")):
        return f"path:{base}"
    return f"hf:{base}@{revision}" if revision else f"hf:{base}"


def _copied(
    federation: Federation, store: ObjectStore, credentials: Path | None, into: Path
) -> Source:
    spec, status = federation.spec, federation.status
    prefix = spec.storage.s3.prefix if spec.storage else ""
    rounds = _rounds(store, prefix)
    if not rounds:
        raise InputError(f"{federation.metadata.name}: no round has made an adapter yet")
    folders = {round_: into / f"round-{round_}" for round_ in rounds}
    for round_, folder in folders.items():
        pull_files(store, prefix, round_, folder)
    named = {"final": status.adapter, "best": status.best}
    entries = [
        Entry(name=name, folder=folders[point.round])
        for name, point in named.items()
        if point and point.round in folders
    ]
    entries += [Entry(name=f"round-{round_}", folder=folder) for round_, folder in folders.items()]
    entries += _personal(federation, store, credentials, folders, into)
    return Source(
        model=spec.model.source, entries=entries, storage=spec.storage.s3 if spec.storage else None
    )


def _rounds(store: ObjectStore, prefix: str) -> list[int]:
    """Rounds with a global adapter, the last first."""
    root = keys.global_root(prefix)
    made = [keys.number(root, key) for key in store.list(root) if key.endswith(keys.MANIFEST)]
    return sorted({round_ for round_ in made if round_}, reverse=True)


def _personal(
    federation: Federation,
    store: ObjectStore,
    credentials: Path | None,
    folders: dict[int, Path],
    into: Path,
) -> list[Entry]:
    """What each silo serves itself, where silos chose that and these credentials open it."""
    spec = federation.spec
    if spec.personalization == "none" or federation.status.adapter is None:
        return []
    given = read_credentials(credentials) if credentials else {}
    round_ = choose_served(federation, "last")
    entries = []
    for environment in (each.name for each in spec.environments):
        place = spec.private_storage(environment)
        variables = given.get(environment) or of_reader(given) if given else None
        private = private_store(spec, environment, store, variables)
        folder = into / f"silo-{environment}"
        prefix = place.s3.prefix if place else ""
        try:
            files = pull_personal(private, prefix, environment, round_, folder)
        except (Denied, InputError, Unopened) as error:
            say(f"note: {environment}: what it serves itself is not served here ({error.message})")
            continue
        own = folder if files else folders.get(round_)
        if own:
            entries.append(Entry(name=f"silo-{environment}", folder=own))
    return entries


def of_option(text: str) -> Source:
    """An adapter that is given as NAME=FOLDER."""
    name, equals, folder = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}", name):
        raise InputError(f"--adapter: got {text!r}, expected NAME=FOLDER")
    source = of_folder(Path(folder))
    return Source(model=source.model, entries=[Entry(name=name, folder=Path(folder))])
