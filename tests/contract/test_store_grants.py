"""Who may do what in a store: the policies that `hansa policy` prints, installed on the server."""

from collections.abc import Callable

import pytest

from hansa.api import bucket_keys
from hansa.core.errors import Denied, NotFound, Precondition
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store import access_grants
from hansa.store.base import put_once
from hansa.store.s3 import S3Store
from tests.conftest import ENVIRONMENTS, PREFIX

EXPERIENCE = {name: bucket_keys.experience_shard(PREFIX, name, 1) for name in ENVIRONMENTS}
UPDATE = {
    name: bucket_keys.update_folder(PREFIX, name, 1) + bucket_keys.MANIFEST for name in ENVIRONMENTS
}
EVALUATION = {name: bucket_keys.evaluation(PREFIX, name, 1) for name in ENVIRONMENTS}
GLOBAL = bucket_keys.global_folder(PREFIX, 1) + bucket_keys.MANIFEST
AUDIT = bucket_keys.audit_entry(PREFIX, 1)
FEDERATION = bucket_keys.federation(PREFIX)
OUTSIDE = f"{PREFIX}2/global/00001/manifest.json"
EVERYTHING = [
    *EXPERIENCE.values(),
    *UPDATE.values(),
    *EVALUATION.values(),
    GLOBAL,
    AUDIT,
    FEDERATION,
    OUTSIDE,
]
SHARED = {GLOBAL, AUDIT, FEDERATION}
MAY_READ = {
    "maze": {*SHARED, EXPERIENCE["maze"], UPDATE["maze"], EVALUATION["maze"]},
    "maze2": {*SHARED, EXPERIENCE["maze2"], UPDATE["maze2"], EVALUATION["maze2"]},
    access_grants.AGGREGATOR: {*SHARED, *UPDATE.values()},
}
MAY_WRITE = {
    "maze": {EXPERIENCE["maze"], UPDATE["maze"], EVALUATION["maze"]},
    "maze2": {EXPERIENCE["maze2"], UPDATE["maze2"], EVALUATION["maze2"]},
    access_grants.AGGREGATOR: SHARED,
}
IDENTITIES = list(MAY_READ)


@pytest.fixture(scope="module")
def filled(weed: LocalStore) -> LocalStore:
    for key in EVERYTHING:
        put_once(weed.store(), key, b"there")
    return weed


@pytest.fixture(scope="module")
def stores(filled: LocalStore) -> dict[str, S3Store]:
    return {name: filled.store(name) for name in filled.credentials}


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("key", EVERYTHING)
def test_reading_and_listing_is_for_those_who_may(
    stores: dict[str, S3Store], identity: str, key: str
) -> None:
    mine = stores[identity]
    folder = key.rpartition("/")[0] + "/"
    missing = key.replace("00001", "00404")
    if key in MAY_READ[identity]:
        assert mine.get(key) == b"there"
        assert mine.get_range(key, 1, 2) == b"he"
        assert mine.size(key) == 5
        assert key in mine.list(key if key == FEDERATION else folder)
        if missing != key:
            with pytest.raises(NotFound):
                mine.get(missing)
            with pytest.raises(NotFound):
                mine.size(missing)
        return
    refused: list[Callable[[], object]] = [
        lambda: mine.get(key),
        lambda: mine.get_range(key, 1, 2),
        lambda: mine.size(key),
        lambda: mine.list(key),
        lambda: mine.list(folder),
        lambda: mine.get(missing),
        lambda: mine.size(missing),
    ]
    for verb in refused:
        with pytest.raises(Denied):
            verb()


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("key", EVERYTHING)
def test_writing_is_for_those_who_may(stores: dict[str, S3Store], identity: str, key: str) -> None:
    mine = stores[identity]
    may = key in MAY_WRITE[identity]
    with pytest.raises(Precondition if may else Denied):
        mine.put_if_absent(key, b"mine")
    assert stores[RUNNER].get(key) == b"there"
    new = key.replace("00001", f"9{IDENTITIES.index(identity):04d}")
    if new == key:
        return
    if may:
        assert put_once(mine, new, b"new") == b"new"
    else:
        with pytest.raises(Denied):
            mine.put_if_absent(new, b"new")


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize(
    "prefix",
    ["", PREFIX, f"{PREFIX}/", f"{PREFIX}/experience/", f"{PREFIX}/updates/ma", f"{PREFIX}2/"],
)
def test_nobody_lists_above_what_is_theirs(
    stores: dict[str, S3Store], identity: str, prefix: str
) -> None:
    mine = stores[identity]
    if identity == access_grants.AGGREGATOR and prefix.startswith(f"{PREFIX}/updates/"):
        assert any(mine.list(prefix))
        return
    with pytest.raises(Denied):
        mine.list(prefix)


@pytest.mark.parametrize("identity", IDENTITIES)
def test_everyone_passes_the_check(stores: dict[str, S3Store], identity: str) -> None:
    stores[identity].check()
