"""Where served adapters come from: a PEFT folder, a run on this machine, a federation's store."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hansa.adapter.peft_folder import open_folder
from hansa.api import bucket_keys
from hansa.cli.common import say
from hansa.core.errors import Denied, InputError, UnsealError
from hansa.local.credentials import pick_reader, read_credentials
from hansa.local.loop import open_experience
from hansa.local.results import choose_served_round, pull_files, pull_personal
from hansa.local.rundir import RunDir
from hansa.publish.bucket import open_source
from hansa_client.serving.catalogue import BASE, ServedModel

if TYPE_CHECKING:
    from hansa.api.spec import S3
    from hansa.api.status import Federation
    from hansa.store.base import ObjectStore


@dataclass(frozen=True, kw_only=True)
class AdapterSource:
    """What is served."""

    model: str
    """The base model, as in spec.model.source."""
    entries: Sequence[ServedModel]
    """The adapters, the default one first."""
    storage: "S3 | None" = None
    """The store that a model in a bucket is read from."""


def read_folder(path: Path) -> AdapterSource:
    """One adapter, by the name of its folder."""
    config = open_folder(path).config
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    if not isinstance(base, str) or not base:
        raise InputError(
            f"{path / bucket_keys.CONFIG}: got no base_model_name_or_path, expected a model"
        )
    name = path.resolve().name
    entries = [ServedModel(name=name if name != BASE else "adapter", folder=path)]
    return AdapterSource(model=_name_model(base, revision), entries=entries)


def read(source: "RunDir | Federation", credentials: Path | None, into: Path) -> AdapterSource:
    """The adapters of a run or a federation, copied so that its store can be closed."""
    with open_source(source, credentials) as (federation, store):
        return _copy_adapters(federation, store, credentials, into)


def _name_model(base: str, revision: str | None) -> str:
    """A base by PEFT's name as spec.model.source has it: the inverse of `lora.base_name`."""
    if base.startswith(("builtin:", "s3://")):
        return base
    if Path(base).is_dir() or base.startswith((".", "/", "~")):
        return f"path:{base}"
    return f"hf:{base}@{revision}" if revision else f"hf:{base}"


def _copy_adapters(
    federation: "Federation", store: "ObjectStore", credentials: Path | None, into: Path
) -> AdapterSource:
    spec, status = federation.spec, federation.status
    prefix = spec.storage.s3.prefix if spec.storage else ""
    rounds = _list_rounds(store, prefix)
    if not rounds:
        raise InputError(f"{federation.metadata.name}: no round has made an adapter yet")
    folders = {round_: into / f"round-{round_}" for round_ in rounds}
    for round_, folder in folders.items():
        pull_files(store, prefix, round_, folder)
    named = {"final": status.adapter, "best": status.best}
    entries = [
        ServedModel(name=name, folder=folders[point.round])
        for name, point in named.items()
        if point and point.round in folders
    ]
    entries += [
        ServedModel(name=f"round-{round_}", folder=folder) for round_, folder in folders.items()
    ]
    entries += _copy_personal(federation, store, credentials, folders, into)
    return AdapterSource(
        model=spec.model.source, entries=entries, storage=spec.storage.s3 if spec.storage else None
    )


def _list_rounds(store: "ObjectStore", prefix: str) -> list[int]:
    """Rounds with a global adapter, the last first."""
    root = bucket_keys.global_root(prefix)
    made = [
        bucket_keys.parse_round(root, key)
        for key in store.list(root)
        if key.endswith(bucket_keys.MANIFEST)
    ]
    return sorted({round_ for round_ in made if round_}, reverse=True)


def _copy_personal(
    federation: "Federation",
    store: "ObjectStore",
    credentials: Path | None,
    folders: dict[int, Path],
    into: Path,
) -> list[ServedModel]:
    """What each silo serves itself, where silos chose that and these credentials may read it."""
    spec = federation.spec
    if spec.personalization == "none" or federation.status.adapter is None:
        return []
    given = read_credentials(credentials) if credentials else {}
    round_ = choose_served_round(federation, "last")
    entries = []
    for environment in (each.name for each in spec.environments):
        place = spec.private_storage(environment)
        variables = given.get(environment) or pick_reader(given) if given else None
        private = open_experience(spec, environment, store, variables)
        folder = into / f"silo-{environment}"
        prefix = place.s3.prefix if place else ""
        try:
            files = pull_personal(private, prefix, environment, round_, folder)
        except (Denied, InputError, UnsealError) as error:
            say(f"note: {environment}: what it serves itself is not served here ({error.message})")
            continue
        own = folder if files else folders.get(round_)
        if own:
            entries.append(ServedModel(name=f"silo-{environment}", folder=own))
    return entries


def parse_option(text: str) -> AdapterSource:
    """An adapter that is given as NAME=FOLDER."""
    name, equals, folder = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}", name):
        raise InputError(f"--adapter: got {text!r}, expected NAME=FOLDER")
    source = read_folder(Path(folder))
    return AdapterSource(model=source.model, entries=[ServedModel(name=name, folder=Path(folder))])
