"""An adapter of a run with all that a card says of it, read from the run's store."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hansa.api import bucket_keys
from hansa.api.status import Federation
from hansa.local.results import add_storage, choose_round, complete_history, open_store, pull_files
from hansa.local.rundir import RunDir
from hansa.publish.bucket import open_bucket
from hansa.report import data
from hansa.report.run_facts import ReportData
from hansa.store.base import ObjectStore


@dataclass(frozen=True, kw_only=True)
class GlobalAdapter:
    """One global adapter."""

    data: ReportData
    """The run's figures, without any episode."""
    round: int
    """Round that made the adapter."""
    files: Mapping[str, bytes]
    """adapter_model.safetensors and adapter_config.json, checked by the manifest's digests."""


def read_run(folder: RunDir, round_: str, credentials: Path | None) -> GlobalAdapter:
    """An adapter of a run on this machine."""
    federation = folder.load()
    number = choose_round(federation, round_)
    with open_store(federation, folder, credentials) as store:
        return _read(add_storage(federation, folder), number, store)


def read_federation(federation: Federation, round_: str, credentials: Path | None) -> GlobalAdapter:
    """An adapter of a federation on a cluster, with your own credentials."""
    number = choose_round(federation, round_)
    with open_bucket(federation.spec, credentials) as store:
        return _read(federation, number, store)


def _read(federation: Federation, number: int, store: ObjectStore) -> GlobalAdapter:
    with tempfile.TemporaryDirectory(prefix="hansa-push-") as scratch:
        pull_files(store, federation.spec.require_s3().prefix, number, Path(scratch))
        files = {
            name: (Path(scratch) / name).read_bytes()
            for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG)
        }
    facts = data.collect(complete_history(federation, store), store, episodes=False)
    return GlobalAdapter(data=facts, round=number, files=files)
