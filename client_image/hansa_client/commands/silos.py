"""The silos of a run with their private stores: where `hansa trajectories` reads episodes.

Each silo is read with its own credentials where a file gives them; nothing is ever written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hansa.api import bucket_keys
from hansa.api.spec import S3, Environment, FederationSpec
from hansa.api.status import Federation
from hansa.core.errors import Unreachable
from hansa.local.credentials import read_credentials
from hansa.local.rundir import RunDir
from hansa.publish.bucket import check_name, open_source, suggest_forward
from hansa.store.base import ObjectStore


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


@contextmanager
def open_silos(source: RunDir | Federation, credentials: Path | None) -> Iterator[list[StoredSilo]]:
    """The silos of a run on this machine, in its own store or in yours, or of a federation."""
    from hansa.local.loop import open_experience

    if isinstance(source, Federation):
        silos = _make_silos(source.spec, credentials)
        for silo in silos:
            check_name(_locate(source.spec, silo.environment))
        try:
            yield silos
        except Unreachable as error:
            hint = suggest_forward(source.spec.storage.s3) if source.spec.storage else ""
            raise Unreachable(error.message, hint=hint) from error
    elif source.store.exists():
        with open_source(source, credentials) as (federation, store):
            spec, where = federation.spec, str(source.store)
            yield [
                StoredSilo(e, open_experience(spec, e.name, store), _locate(spec, e).prefix, where)
                for e in spec.environments
            ]
    else:
        yield _make_silos(source.load().spec, credentials)


def _make_silos(spec: FederationSpec, credentials: Path | None) -> list[StoredSilo]:
    from hansa.local.loop import open_experience, own_store

    given = read_credentials(credentials) if credentials else {}
    silos = []
    for environment in spec.environments:
        place = _locate(spec, environment)
        variables = given.get(environment.name) or given.get("default")
        store = open_experience(spec, environment.name, own_store(spec, variables), variables)
        root = bucket_keys.experience_root(place.prefix, environment.name)
        silos.append(StoredSilo(environment, store, place.prefix, f"s3://{place.bucket}/{root}"))
    return silos


def _locate(spec: FederationSpec, environment: Environment) -> S3:
    """Where an environment's experience is: in its own store, or else in the federation's."""
    own = environment.experience_storage
    return own.s3 if own else spec.require_s3()
