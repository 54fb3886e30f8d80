"""The exchange and a silo's private store with keys and authorities of their own, on real servers.

Whatever happens, neither store is shown a key of the other.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hansa.api.assignment import Assignment
from hansa.api.spec import S3
from hansa.core.errors import Denied, HansaError, PermanentError
from hansa.local.objectstore import LocalStore
from hansa.store.private import CA_BUNDLE, KEY, SECRET, TOKEN, open_private
from hansa.store.retry import ENV_PATIENCE
from hansa_client.__main__ import work
from hansa_client.experience import agentgym_format, demonstrations
from hansa_client.experience.agentgym_format import Conversation, ConversationTurn
from tests.support import small
from tests.support.doors import Door
from tests.unit.hansa_client.rounds import make_assignment

pytestmark = pytest.mark.slow

PLAIN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE")
OWN = (KEY, SECRET, TOKEN, CA_BUNDLE)
FIELD = "environments[maze].experienceStorage.s3"


@dataclass(frozen=True)
class Stores:
    """Two servers that know nothing of each other's keys, each behind a door of its own."""

    exchange: LocalStore
    private: LocalStore
    to_exchange: Door
    to_private: Door

    def forget(self) -> None:
        self.to_exchange.forget()
        self.to_private.forget()

    def at_exchange(self) -> S3:
        return self.exchange.s3.model_copy(update={"endpoint": self.to_exchange.endpoint})

    def at_private(self) -> S3:
        return self.private.s3.model_copy(update={"endpoint": self.to_private.endpoint})

    def variables(self, name: str) -> dict[str, str]:
        """All that a silo's client is given."""
        shared, own = self.exchange.credentials[name], self.private.credentials[name]
        return {
            "AWS_ACCESS_KEY_ID": shared.access_key,
            "AWS_SECRET_ACCESS_KEY": shared.secret_key,
            "AWS_CA_BUNDLE": str(self.to_exchange.authority),
            "AWS_EC2_METADATA_DISABLED": "true",
            KEY: own.access_key,
            SECRET: own.secret_key,
            CA_BUNDLE: str(self.to_private.authority),
        }


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    folder = tmp_path_factory.mktemp("stores")
    names = small.ENVIRONMENTS
    with (
        LocalStore(folder / "exchange", names, prefix="two") as exchange,
        LocalStore(folder / "private", names, prefix="mine") as private,
        Door(exchange.s3.endpoint or "", folder, "exchange") as to_exchange,
        Door(private.s3.endpoint or "", folder, "private") as to_private,
    ):
        yield Stores(exchange, private, to_exchange, to_private)


@pytest.fixture(autouse=True)
def no_foreign_keys(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In every test: each door has seen its own server's keys, and no other's."""
    for name in (*PLAIN, *OWN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(ENV_PATIENCE, "1")
    stores.forget()
    yield
    for own, other, door in (
        (stores.exchange, stores.private, stores.to_exchange),
        (stores.private, stores.exchange, stores.to_private),
    ):
        foreign = {pair.access_key for pair in other.credentials.values()}
        assert not foreign & set(door.keys)
        seen = b"".join(door.heads)
        for pair in (*own.credentials.values(), *other.credentials.values()):
            assert pair.secret_key.encode() not in seen


def assign(stores: Stores, **fields: Any) -> Assignment:
    places = {"storage": stores.at_exchange(), "experience_storage": stores.at_private()}
    return make_assignment(round=7, **places, **fields)


def test_a_run_shows_each_store_its_own_keys_and_gives_the_same_bytes(
    stores: Stores, tmp_path: Path, undisturbed: Path
) -> None:
    found = small.hansa("model", "-f", small.write_manifest(tmp_path), "-o", "json")
    own = {"s3": stores.at_private().to_json()}
    silos = [{**silo, "experienceStorage": own} for silo in small.SPEC["environments"]]
    shared = {"s3": stores.at_exchange().to_json()}
    named = json.loads(found.stdout)
    manifest = small.write_manifest(tmp_path, storage=shared, environments=silos, **named)
    given = {name: stores.variables(name) for name in (*small.ENVIRONMENTS, "aggregator")}
    credentials = tmp_path / "credentials.json"
    credentials.write_text(json.dumps(given))
    bundle = str(stores.to_exchange.authority)
    with small.Run(
        manifest, tmp_path / "run", "--credentials", credentials, AWS_CA_BUNDLE=bundle
    ) as run:
        run.finish()
    assert small.adapter(tmp_path / "run") == small.adapter(undisturbed)
    silos_own = {stores.private.credentials[name].access_key for name in small.ENVIRONMENTS}
    assert set(stores.to_private.keys) == silos_own  # not the aggregator's, which has no use for it
    for name in small.ENVIRONMENTS:
        experience = f"/experience/{name}/"
        assert stores.to_private.count("PUT", experience)
        assert not stores.to_exchange.count(contains=experience)
    assert not stores.to_private.count(contains="/updates/")
    out = tmp_path / "run"
    command = ("trajectories", out, "-e", "maze", "--credentials", credentials)
    done = small.hansa(*command, AWS_CA_BUNDLE=bundle)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "wrong, field",
    [
        pytest.param({"AWS_ACCESS_KEY_ID": "stranger"}, "storage.s3", id="key of the exchange"),
        pytest.param({"AWS_SECRET_ACCESS_KEY": "x"}, "storage.s3", id="secret of the exchange"),
        pytest.param({KEY: "stranger"}, FIELD, id="key of the private store"),
        pytest.param({SECRET: "x"}, FIELD, id="secret of the private store"),
    ],
)
def test_a_wrong_pair_is_told_with_the_store_that_refused_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], field: str
) -> None:
    for name, value in {**stores.variables("maze"), **wrong}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Denied, match=r"refused: the (access|secret) key|may not read") as refused:
        work(assign(stores))
    assert refused.value.message.startswith(f"{field}: s3://")
    is_private = field == FIELD
    stranger = next(iter(wrong.values()))
    assert (stranger in stores.to_private.keys) <= is_private
    assert (stranger in stores.to_exchange.keys) <= (not is_private)


@pytest.mark.parametrize(
    "wrong, field",
    [
        pytest.param({"AWS_CA_BUNDLE": "to_private"}, "storage.s3", id="of the exchange"),
        pytest.param({CA_BUNDLE: "to_exchange"}, FIELD, id="of the private store"),
        pytest.param({CA_BUNDLE: ""}, FIELD, id="the exchange's vouches for no private store"),
    ],
)
def test_an_authority_vouches_for_its_own_store_alone(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], field: str
) -> None:
    given = {n: str(getattr(stores, door).authority) if door else "" for n, door in wrong.items()}
    variables = {**stores.variables("maze"), **given}
    if field == FIELD:  # an exchange whose authority vouches for both, if it were asked
        both = Path(variables["AWS_CA_BUNDLE"]).with_name("both.crt")
        doors = (stores.to_exchange, stores.to_private)
        both.write_text("".join(door.authority.read_text() for door in doors))
        variables["AWS_CA_BUNDLE"] = str(both)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HansaError, match="shows a certificate nobody here trusts") as refused:
        work(assign(stores))
    assert refused.value.message.startswith(f"{field}.endpoint: https://")
    variable = CA_BUNDLE if field == FIELD else "AWS_CA_BUNDLE"
    assert refused.value.hint.endswith(f"{field}.caSecret, or in the variable {variable}")


@pytest.mark.parametrize("half", [{KEY: ""}, {SECRET: ""}, {KEY: None}, {SECRET: None}])
def test_half_a_pair_is_refused_before_any_store_is_asked(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, half: dict[str, str | None]
) -> None:
    given = {**stores.variables("maze"), **half}
    for name, value in given.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(PermanentError, match=f"^{re.escape(FIELD)}: got no .*expected both"):
        work(assign(stores))
    assert stores.to_exchange.keys == stores.to_private.keys == []


def test_demonstrations_beside_the_experience_are_read_with_the_private_stores_keys(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Conversation(
        "maze_1",
        (ConversationTurn("human", "Reach the goal."), ConversationTurn("gpt", "up", True)),
    )
    data = agentgym_format.write([talk])
    place = stores.private.s3.model_copy(update={"bucket": "shown", "prefix": ""})
    owner = stores.private.store()
    beside = type(owner)(place, credentials=stores.private.credentials["_runner"])
    beside.ensure_bucket()
    beside.put_if_absent("maze.jsonl", data)
    pair = stores.private.credentials["_runner"]
    variables = stores.variables("maze")
    variables |= {KEY: pair.access_key, SECRET: pair.secret_key}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assignment = assign(stores, demonstrations_from="s3://shown/maze.jsonl")
    file = demonstrations.read(assignment, owner)
    assert file and file.conversations == [talk]
    assert set(stores.to_private.keys) == {pair.access_key}
    assert stores.to_exchange.keys == []


def test_a_token_that_expires_reaches_the_store_that_issued_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {**stores.variables("maze"), "AWS_SESSION_TOKEN": "of-the-exchange"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    store = open_private(stores.at_private(), "maze", {**variables, TOKEN: "of-the-silo"})
    with pytest.raises(HansaError):
        store.get("mine/experience/maze/nothing")
    heads = b"".join(stores.to_private.heads)
    assert b"of-the-silo" in heads and b"of-the-exchange" not in heads
    stores.forget()
    without = open_private(stores.at_private(), "maze", variables)
    with pytest.raises(HansaError):
        without.get("mine/experience/maze/nothing")
    assert b"oken" not in b"".join(stores.to_private.heads)
