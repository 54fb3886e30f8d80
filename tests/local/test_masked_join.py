"""A silo on a machine of its own masks its update with the others: its key never leaves it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.crypto import sealing
from hansa.local.objectstore import LocalStore
from hansa.store.private import KEY, SECRET
from tests.support import small
from tests.support.parties import REMOTE, Exchange, Join, Parties, state
from tests.support.processes import until
from tests.support.small import NAME, SPEC

pytestmark = pytest.mark.slow

HERE = ("maze", "second")


class MaskedParties(Parties):
    """Two silos of the coordinator's machine, each with a private store, and one elsewhere."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = Exchange(folder / "exchange", [*HERE, REMOTE], prefix=NAME)
        self.private = LocalStore(folder / "private", HERE, prefix="mine")
        self.masking = {name: sealing.generate_opening_key() for name in (*HERE, REMOTE)}
        (folder / "masking").mkdir()
        for name in HERE:
            (folder / "masking" / f"{name}.key").write_bytes(self.masking[name].pem())
        (folder / "own.key").write_bytes(self.masking[REMOTE].pem())

    def federation(self, digests: dict[str, Any]) -> Path:
        own = {"experienceStorage": {"s3": self.private.s3.to_json()}}
        maze = SPEC["environments"][0]
        silos = [{**maze, "name": name, **own} for name in HERE]
        silos.append({"name": REMOTE, "member": {"publicKeys": [self.keys[REMOTE][1]]}})
        for silo in silos:
            silo["maskingKey"] = self.masking[silo["name"]].public
        return self.manifest(
            digests,
            rounds=1,
            aggregation={"strategy": "mean", "secure": {"clipNorm": 0.5}},
            environments=silos,
        )

    def coordinate(self, manifest: Path) -> small.Run:
        given = {"aggregator": self.store.environ("aggregator")}
        for name in HERE:
            own = self.private.credentials[name]
            private = {KEY: own.access_key, SECRET: own.secret_key}
            given[name] = {**self.store.environ(name), **private}
        path = self.folder / "coordinator.credentials.json"
        path.write_text(json.dumps(given))
        options = ("--credentials", path, "--signing-key", self.keys["coordinator"][0])
        masks = ("--masking-keys", self.folder / "masking")
        return small.Run(manifest, self.folder / "coordinator", *options, *masks)

    def take_part(self, member: Path) -> Join:
        return self.join(member, "--masking-key", str(self.folder / "own.key"))


@pytest.fixture
def parties(tmp_path: Path, model_digests: dict[str, Any]) -> Iterator[MaskedParties]:
    made = MaskedParties(tmp_path)
    with ExitStack() as stack:
        stack.enter_context(made.store)
        stack.enter_context(made.private)
        made.federation(model_digests)
        made.store.restart_with_grants()
        yield made


def test_a_silo_elsewhere_is_in_the_sum_and_killed_on_the_way(parties: MaskedParties) -> None:
    manifest = parties.folder / "federation.yaml"
    member = parties.member(manifest)
    unmasked = small.hansa("join", member, "--key", parties.keys[REMOTE][0])
    assert unmasked.returncode == 2
    assert "--masking-key: got none, expected the file of the silo's masking key" in unmasked.stderr
    with parties.coordinate(manifest) as coordinator:
        with parties.take_part(member) as silo:
            until(lambda: "Working" in state(silo), "the silo to work")
            silo.kill()
        with parties.take_part(member):
            coordinator.finish()
    [entry] = [e for e in small.status(coordinator.out)["history"] if e["round"] == 1]
    # Masks that did not cancel would have made a mean far longer than clipNorm: no adapter.
    assert (entry["outcome"], entry["updates"]) == ("aggregated", "3/3")
    exchange = parties.store.store()
    for name in (*HERE, REMOTE):
        root = bucket_keys.update_root(NAME, name)
        sent = [key.removeprefix(root) for key in exchange.list(root)]
        assert sent == ["00001/manifest.json", "00001/masked-0.bin"]
