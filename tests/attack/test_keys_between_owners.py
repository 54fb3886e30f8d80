"""Each owner's S3 keys against the others' objects, on a real S3 server with printed policies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.api import bucket_keys
from hansa.api.spec import FederationSpec
from hansa.core.errors import Denied
from hansa.local.objectstore import LocalStore
from hansa.store import access_grants
from hansa.store.access_grants import AGGREGATOR
from tests.support.mail import COORDINATOR, SILO

pytestmark = pytest.mark.slow

PREFIX = "run"
MINE, OTHER = "maze", "maze2"
"""The other's name begins with the attacker's: a policy by prefixes must tell them apart."""
SPEC = {
    "rounds": 1,
    "model": {"source": "builtin:tiny", "sha256": "b" * 64},
    "adapter": {"shapes": "d" * 64},
    "storage": {"s3": {"bucket": "hansa", "prefix": PREFIX}},
    "exchange": {"publicKeys": [COORDINATOR.public]},
    "environments": [{"name": n, "member": {"publicKeys": [SILO.public]}} for n in (MINE, OTHER)],
}
OBJECTS = {
    "own order": bucket_keys.order(PREFIX, MINE, 1),
    "own answer": bucket_keys.answer(PREFIX, MINE, 1),
    "own update": bucket_keys.update_folder(PREFIX, MINE, 1) + bucket_keys.ADAPTER,
    "own evaluation": bucket_keys.evaluation(PREFIX, MINE, 1),
    "own experience": bucket_keys.experience_shard(PREFIX, MINE, 1),
    "other's order": bucket_keys.order(PREFIX, OTHER, 1),
    "other's answer": bucket_keys.answer(PREFIX, OTHER, 1),
    "other's update": bucket_keys.update_folder(PREFIX, OTHER, 1) + bucket_keys.ADAPTER,
    "other's evaluation": bucket_keys.evaluation(PREFIX, OTHER, 1),
    "other's experience": bucket_keys.experience_shard(PREFIX, OTHER, 1),
    "global adapter": bucket_keys.global_folder(PREFIX, 1) + bucket_keys.ADAPTER,
}
UPDATES = {"own update", "other's update"}
OWN = {"own answer", "own update", "own evaluation", "own experience"}
LETTERS = {"own order", "own answer", "other's order", "other's answer"}
READS = {
    MINE: {*OWN, "own order", "global adapter"},
    AGGREGATOR: {*LETTERS, *UPDATES, "global adapter"},
}
WRITES = {
    MINE: OWN,
    AGGREGATOR: {"own order", "other's order", "global adapter"},
}


class Between(LocalStore):
    """The bucket between two owners."""

    def _granted(self, name: str) -> list[access_grants.Grant]:
        return access_grants.list_grants(FederationSpec.model_validate(SPEC), name)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    folder: Path = tmp_path_factory.mktemp("between")
    with Between(folder / "store", [MINE, OTHER], prefix=PREFIX) as store:
        owner = store.store()
        for key in OBJECTS.values():
            owner.put_if_absent(key, b"as it was")
        yield store


@pytest.mark.attack(
    by="a writer of the bucket",
    does="has one owner's S3 keys, and tries them on what is another's",
    result="denied",
)
@pytest.mark.parametrize("identity", [MINE, AGGREGATOR])
@pytest.mark.parametrize("what", OBJECTS)
def test_keys_of_one_owner_open_what_is_theirs_and_nothing_else(
    bucket: LocalStore, identity: str, what: str
) -> None:
    mine, key = bucket.store(identity), OBJECTS[what]
    if what in READS[identity]:
        assert mine.get(key)
    else:
        with pytest.raises(Denied):
            mine.get(key)
    beside = f"{key}.{identity}"
    if what in WRITES[identity]:
        mine.put_if_absent(beside, b"as its writer says")
    else:
        with pytest.raises(Denied):
            mine.put_if_absent(beside, b"as a thief says")
    with pytest.raises(Denied):
        mine.remove(key)
