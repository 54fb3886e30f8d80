"""A federation whose updates are sealed: the same bytes come of it, and the bucket shows none."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.crypto import sealing
from hansa.local.objectstore import LocalStore
from tests.local import identities
from tests.support import small

pytestmark = pytest.mark.slow


@dataclass
class Place:
    """An exchange, a private store for each silo, and the aggregator's key."""

    folder: Path
    exchange: LocalStore
    private: LocalStore

    @property
    def key(self) -> Path:
        return self.folder / "sealing.key"

    def manifest(self, model: dict[str, Any], **changes: Any) -> Path:
        [opening] = sealing.read_keys(self.key.read_bytes(), "")
        own = {"s3": self.private.s3.to_json()}
        fields = {
            "aggregation": {**small.SPEC["aggregation"], "sealTo": opening.public},
            "storage": {"s3": self.exchange.s3.to_json()},
            "environments": [
                {**silo, "experienceStorage": own} for silo in small.SPEC["environments"]
            ],
            **model,
            **changes,
        }
        return small.write_manifest(self.folder, **fields)

    def credentials(self) -> Path:
        names = (*small.ENVIRONMENTS, "aggregator")
        return identities.write(self.folder, names, self.exchange, self.private)

    def options(self) -> list[str | Path]:
        return ["--credentials", self.credentials(), "--sealing-key", self.key]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    names = small.ENVIRONMENTS
    made = small.hansa("keys", "new", tmp_path / "sealing.key", "--sealing")
    assert made.returncode == 0 and made.stdout.startswith("x25519:"), made.stderr
    with (
        LocalStore(tmp_path / "exchange", names, prefix=small.NAME) as exchange,
        LocalStore(tmp_path / "private", names, prefix="mine") as private,
    ):
        yield Place(tmp_path, exchange, private)


def values(place: Place, name: str) -> list[bytes]:
    """Long stretches of a silo's weights, as its private store has them."""
    store = place.private.store()
    root = bucket_keys.sealed_updates("mine", name)
    found = [store.get(key) for key in store.list(root) if key.endswith(bucket_keys.ADAPTER)]
    return [a.tobytes()[:64] for data in found for a in lora.decode(data).values() if a.any()]


@pytest.mark.attack(
    by="a reader of the bucket",
    does="looks for a silo's update, where it is sealed",
    result="finds none",
)
def test_a_sealed_run_gives_the_same_adapter_and_nobody_reads_an_update(
    place: Place, model_digests: dict[str, Any], undisturbed: Path
) -> None:
    manifest, out = place.manifest(model_digests), place.folder / "run"
    with small.Run(manifest, out, *place.options()) as run:
        run.wait_for_phase("train")
        run.kill(signal.SIGKILL)
    small.finish(manifest, out, *place.options())
    assert small.adapter(out) == small.adapter(undisturbed)
    exchange = place.exchange.store()
    updates = [exchange.get(key) for key in exchange.list(bucket_keys.updates_root(small.NAME))]
    sealed = [data for data in updates if sealing.is_sealed(data)]
    assert len(sealed) == 2 * len(small.ENVIRONMENTS)
    everything = [exchange.get(key) for key in exchange.list("")]
    for name in small.ENVIRONMENTS:
        own = values(place, name)
        assert own and not any(part in data for part in own for data in everything)
    audits = {
        "the aggregator's key": (("--sealing-key", place.key), 0),
        "no key": ((), 3),
    }
    for said, (arguments, code) in audits.items():
        done = small.hansa("audit", out, "--credentials", place.credentials(), *arguments)
        assert done.returncode == code, (said, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        pytest.param("none", "--sealing-key: got none, expected the file of the key", id="none"),
        pytest.param("missing", "No such file", id="missing"),
        pytest.param("other", "--sealing-key: got x25519:", id="another key"),
        pytest.param("text", "got no private keys that can open", id="no key"),
    ],
)
def test_a_key_that_opens_nothing_is_refused_before_anything_starts(
    tmp_path: Path, wrong: str, sentence: str
) -> None:
    public = sealing.generate_opening_key().public
    (tmp_path / "text").write_text("no key")
    (tmp_path / "other").write_bytes(sealing.generate_opening_key().pem())
    own = {"s3": {"endpoint": "http://127.0.0.1:9", "bucket": "private"}}
    manifest = small.write_manifest(
        tmp_path,
        aggregation={"sealTo": public},
        storage={"s3": {"endpoint": "http://127.0.0.1:9", "bucket": "shared", "prefix": "p"}},
        environments=[{**silo, "experienceStorage": own} for silo in small.SPEC["environments"]],
    )
    arguments = () if wrong == "none" else ("--sealing-key", tmp_path / wrong)
    done = small.hansa("run", manifest, "--out", tmp_path / "run", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    embedded = small.hansa("run", manifest, "--embedded-store", "--out", tmp_path / "run2")
    assert embedded.returncode == 2
    assert "spec.aggregation.sealTo: got a key, and the embedded store" in embedded.stderr
