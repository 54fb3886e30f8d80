"""An adapter of a run with all that a card says of it, read from the run's store."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hansa import keys
from hansa.errors import InputError, Unreachable
from hansa.local.rundir import RunDir
from hansa.report import data
from hansa.report.facts import ReportData
from hansa.status import Federation
from hansa.storage import S3
from hansa.store.base import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Result:
    """One global adapter."""

    data: ReportData
    """The run's figures, without any episode."""
    round: int
    """Round that made the adapter."""
    files: Mapping[str, bytes]
    """adapter_model.safetensors and adapter_config.json, checked by the manifest's digests."""


def of_run(folder: RunDir, round_: str, credentials: Path | None) -> Result:
    """An adapter of a run on this machine."""
    from hansa.local.results import choose_round, open_store, with_storage

    federation = folder.load()
    number = choose_round(federation, round_)
    with open_store(federation, folder, credentials) as store:
        return _read(with_storage(federation, folder), number, store)


def of_federation(federation: Federation, round_: str, credentials: Path | None) -> Result:
    """An adapter of a federation on a cluster, with your own credentials."""
    from hansa.cli.bucket import check_name, forward_hint
    from hansa.local.credentials import of_reader, read_credentials
    from hansa.local.loop import own_store
    from hansa.local.results import choose_round

    number = choose_round(federation, round_)
    place = _place(federation)
    check_name(place)
    variables = of_reader(read_credentials(credentials)) if credentials else None
    try:
        return _read(federation, number, own_store(federation.spec, variables))
    except Unreachable as error:
        raise Unreachable(error.message, hint=forward_hint(place)) from error


def _read(federation: Federation, number: int, store: ObjectStore) -> Result:
    from hansa.local.results import every_round, pull_files

    prefix = _place(federation).prefix
    history = federation.status.history
    if [entry.round for entry in history] != list(range(len(history))):
        history = every_round(federation, store, prefix)
    status = federation.status.model_copy(update={"history": history})
    whole = federation.model_copy(update={"status": status})
    with tempfile.TemporaryDirectory(prefix="hansa-push-") as scratch:
        pull_files(store, prefix, number, Path(scratch))
        files = {name: (Path(scratch) / name).read_bytes() for name in (keys.ADAPTER, keys.CONFIG)}
    facts = data.collect(whole, store, episodes=False)
    return Result(data=facts, round=number, files=files)


def _place(federation: Federation) -> S3:
    if federation.spec.storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    return federation.spec.storage.s3
