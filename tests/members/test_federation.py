"""Parties that share nothing but a bucket evolve one agent: byte for byte that of one place."""

import base64
import json
from collections.abc import Iterator

import pytest
import zstandard

from hansa.api import bucket_keys
from hansa.core.errors import Denied
from hansa.crypto import sealing
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store import access_grants
from hansa.store.s3 import S3Store
from tests.cluster.audit import OPERATOR
from tests.members.parties import CLINIC, LONE, PARTIES, Apart, Join, Place, secrets_of
from tests.support import small
from tests.support.federation_results import result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "apart"


@pytest.fixture(scope="module")
def joined(federations: dict[str, Apart]) -> Iterator[Join]:
    """All three at work, until the coordinator's end."""
    apart = federations[NAME]
    apart.coordinate()
    apart.serve()
    with apart.join() as join:
        apart.at.hq.finish(NAME)
        yield join
    apart.end()


@pytest.fixture(scope="module")
def apart(federations: dict[str, Apart], joined: Join) -> Apart:
    """The federation, which has come to its end."""
    return federations[NAME]


@pytest.fixture(scope="module")
def trajectories(apart: Apart, joined: Join) -> list[bytes]:
    """What the silos keep to themselves, text by text."""
    lone = LocalStore(joined.out / "store", [LONE])
    joined.kill()
    with lone:
        shards = [*_shards(lone.store()), *_shards(apart.at.private.store())]
    texts = {
        turn["text"]
        for shard in shards
        for line in shard.splitlines()[1:]
        for turn in json.loads(line)["turns"]
    }
    return sorted(text.encode() for text in texts if len(text) > 20)


def _shards(store: S3Store) -> list[bytes]:
    unpack = zstandard.ZstdDecompressor().decompress
    return [unpack(store.get(key)) for key in store.list("") if key.endswith(".jsonl.zst")]


def test_the_result_is_that_of_one_place(apart: Apart, reference: dict[str, bytes]) -> None:
    assert result(apart) == reference
    status = apart.at.hq.status(NAME)
    assert {each["name"]: each["state"] for each in status["members"]} == {
        CLINIC: "Present",
        LONE: "Present",
    }


def test_both_logs_of_each_silo_verify_to_the_bytes(apart: Apart) -> None:
    owner, file = apart.at.exchange.environ(RUNNER), apart.folder / "federation.yaml"
    for silo in (CLINIC, LONE):
        mail = small.hansa("mail", silo, "-f", file, "--check", **owner)
        assert mail.returncode == 0, mail.stderr
        assert "every object that a letter names is there as it says" in mail.stderr


def test_every_update_in_the_bucket_is_sealed(apart: Apart) -> None:
    objects = apart.at.exchange.objects()
    adapters = [key for key in objects if "/updates/" in key and key.endswith(bucket_keys.ADAPTER)]
    assert len(adapters) == 2 * len((CLINIC, LONE))
    assert all(sealing.is_sealed(objects[key]) for key in adapters)


def test_the_bucket_has_no_byte_of_a_trajectory(apart: Apart, trajectories: list[bytes]) -> None:
    assert len(trajectories) > 50, "the silos played"
    objects = apart.at.exchange.objects()
    assert not [key for key in objects if "experience" in key]
    for key, data in objects.items():
        for text in (data, *_opened(data)):
            found = [each for each in trajectories if each in text]
            assert not found, f"{key} has {found[0]!r}"


def _opened(data: bytes) -> Iterator[bytes]:
    """What is hidden in an object by its form: a compressed one, and payloads of letters."""
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        yield zstandard.ZstdDecompressor().decompress(data)
    if data.startswith(b"{") and b'"payload"' in data:
        yield base64.b64decode(json.loads(data)["payload"])


def test_the_coordinators_cluster_has_no_secret_of_a_silo(apart: Apart) -> None:
    hq, clinic = (secrets_of(each.cluster) for each in (apart.at.hq, apart.at.clinic))
    consents = {base64.b64encode(b"yes").decode()}
    theirs = {value for data in hq.values() for value in data.values()}
    own = {
        value for name, data in clinic.items() if "sh.helm" not in name for value in data.values()
    }
    assert any(name.endswith(f"/{apart.identity(CLINIC)}") for name in clinic)
    assert own & theirs == consents
    lone = apart.keys[LONE][0].read_bytes()
    pair = apart.at.exchange.credentials[apart.identity(LONE)]
    for private in (lone, pair.access_key.encode(), pair.secret_key.encode()):
        for data in (hq, clinic):
            assert base64.b64encode(private).decode() not in json.dumps(data)


@pytest.mark.parametrize("where", ["hq", "clinic"])
def test_neither_operator_has_a_right_on_secrets(apart: Apart, where: str) -> None:
    cluster = getattr(apart.at, where).cluster
    output = cluster.kubectl("auth", "can-i", "--list", f"--as={OPERATOR}").stdout
    assert "jobs.batch" in output and "secrets" not in output
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete"):
        answer = cluster.kubectl("auth", "can-i", verb, "secrets", "-A", f"--as={OPERATOR}")
        assert answer.stdout.strip() == "no", verb


def _may(party: str, key: str) -> tuple[bool, bool]:
    """Whether a party may read an object and write beside it, as the page of the bucket says."""
    prefix = NAME
    shared = (
        bucket_keys.federation(prefix),
        bucket_keys.global_root(prefix),
        bucket_keys.audit_root(prefix),
    )
    if party == access_grants.AGGREGATOR:
        write = (*shared, bucket_keys.orders_root(prefix))
        read = (*write, bucket_keys.updates_root(prefix), bucket_keys.answers_root(prefix))
    else:
        roots = (bucket_keys.update_root, bucket_keys.evaluation_root, bucket_keys.answer_root)
        write = tuple(root(prefix, party) for root in roots)
        read = (*shared, *write, bucket_keys.order_root(prefix, party))
    return key.startswith(read), key.startswith(write)


@pytest.mark.parametrize("party", PARTIES)
def test_no_party_opens_what_is_anothers(apart: Apart, party: str) -> None:
    exchange = apart.at.exchange
    before, store = exchange.objects(), exchange.store(apart.identity(party))
    assert {(True, True), (False, False)} <= {_may(party, key) for key in before}
    for key, data in before.items():
        may_read, may_write = _may(party, key)
        if may_read:
            assert store.get(key) == data
        else:
            with pytest.raises(Denied):
                store.get(key)
        if not may_write:
            with pytest.raises(Denied):
                store.put_if_absent(f"{key}-forged", b"forged")
    assert exchange.objects() == before


def test_keys_of_one_store_open_no_other(place: Place, apart: Apart) -> None:
    """The silo's courier and the coordinator have no way to its trajectories."""
    own = place.private.credentials[CLINIC]
    key = bucket_keys.experience_shard(NAME, CLINIC, 1)
    place.private.store(CLINIC).get(key)
    for party in PARTIES:
        pair = place.exchange.credentials[apart.identity(party)]
        with pytest.raises(Denied):
            S3Store(place.private.s3, credentials=pair).get(key)
    with pytest.raises(Denied):
        S3Store(place.exchange.s3, credentials=own).get(bucket_keys.federation(NAME))
