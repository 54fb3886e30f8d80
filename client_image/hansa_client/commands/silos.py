"""The silos of a run with their private stores: where `hansa trajectories` reads episodes.

Each silo is read with its own credentials where a file gives them; nothing is ever written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hansa.api import bucket_keys
from hansa.api.spec import Environment, FederationSpec, Storage
from hansa.api.status import Federation
from hansa.core.errors import InputError, Unreachable
from hansa.local.credentials import read_credentials
from hansa.local.rundir import RunDir
from hansa.publish.bucket import check_name, forward_hint
from hansa.store.base import ObjectStore
from hansa_client.experience import shards
from hansa_client.experience.shards import Shard


@dataclass(frozen=True)
class StoredSilo:
    """One environment and the store that holds its experience."""

    environment: Environment
    store: ObjectStore
    prefix: str
    """The private prefix in that store."""
    where: str
    """The place in words, for a person."""

    @property
    def name(self) -> str:
        """Name of the environment."""
        return self.environment.name

    def rounds(self) -> list[int]:
        """Rounds with a shard; 0 holds the demonstrations."""
        root = bucket_keys.experience_root(self.prefix, self.name)
        names = [key.removeprefix(root).partition(".")[0] for key in self.store.list(root)]
        return sorted(int(name) for name in names if name.isdecimal())

    def shard(self, round_: int) -> Shard:
        """One round's episodes."""
        key = bucket_keys.experience_shard(self.prefix, self.name, round_)
        return shards.decode(self.store.get(key), key)


@contextmanager
def of_run(out: Path, credentials: Path | None) -> Iterator[list[StoredSilo]]:
    """The silos of a run on this machine: in its own store, or in yours."""
    from hansa.local.results import open_store, with_storage

    folder = RunDir(out)
    federation = folder.load()
    if not folder.store.exists():
        yield _silos(federation.spec, credentials)
        return
    spec = with_storage(federation, folder).spec
    prefix = spec.storage.s3.prefix if spec.storage else ""
    with open_store(federation, folder) as store:
        yield [StoredSilo(e, store, prefix, str(folder.store)) for e in spec.environments]


@contextmanager
def of_federation(federation: Federation, credentials: Path | None) -> Iterator[list[StoredSilo]]:
    """The silos of a federation on a cluster, with your own credentials."""
    silos = _silos(federation.spec, credentials)
    for silo in silos:
        check_name(_place(federation.spec, silo.environment).s3)
    try:
        yield silos
    except Unreachable as error:
        hint = forward_hint(federation.spec.storage.s3) if federation.spec.storage else ""
        raise Unreachable(error.message, hint=hint) from error


def _silos(spec: FederationSpec, credentials: Path | None) -> list[StoredSilo]:
    from hansa.local.loop import own_store, private_store

    given = read_credentials(credentials) if credentials else {}
    silos = []
    for environment in spec.environments:
        place = _place(spec, environment)
        variables = given.get(environment.name) or given.get("default")
        store = private_store(spec, environment.name, own_store(spec, variables), variables)
        root = bucket_keys.experience_root(place.s3.prefix, environment.name)
        silos.append(
            StoredSilo(environment, store, place.s3.prefix, f"s3://{place.s3.bucket}/{root}")
        )
    return silos


def _place(spec: FederationSpec, environment: Environment) -> Storage:
    place = spec.private_storage(environment.name)
    if place is None:
        raise InputError("spec.storage: got nothing, expected storage.s3")
    return place
