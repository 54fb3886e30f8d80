"""Silos that seal their experience: the same comes of it, and the shared bucket shows none."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

from hansa.api import bucket_keys
from hansa.crypto import sealing
from hansa.local.objectstore import LocalStore
from hansa.local.rundir import RunDir
from hansa.store.experience import ENV_EXPERIENCE_KEY, ExperienceStore
from hansa_client.experience import shards
from hansa_client.serving import sources
from tests.support import small

pytestmark = pytest.mark.slow
SEALED = [{**silo, "experienceKeySecret": {"name": "own"}} for silo in small.SPEC["environments"]]


@dataclass
class Place:
    """One bucket for all, and the key of each silo."""

    folder: Path
    exchange: LocalStore

    def key(self, name: str) -> Path:
        path = self.folder / f"{name}.key"
        if not path.exists():
            path.write_bytes(sealing.generate_opening_key().pem())
        return path

    def manifest(self, **changes: Any) -> Path:
        fields = {"storage": {"s3": self.exchange.s3.to_json()}, "environments": SEALED, **changes}
        return small.write_manifest(self.folder, **fields)

    def credentials(self, **key_of: str) -> Path:
        """Of everybody, each with its own key unless another's is asked for; empty: with none."""
        given = {name: self.exchange.environ(name) for name in (*small.ENVIRONMENTS, "aggregator")}
        for name in small.ENVIRONMENTS:
            if owner := key_of.get(name, name):
                given[name][ENV_EXPERIENCE_KEY] = str(self.key(owner))
        path = self.folder / f"credentials-{key_of.get('maze', 'own')}.json"
        path.write_text(json.dumps(given))
        return path

    def turns(self, name: str) -> list[bytes]:
        """What agent and world said in a silo's episodes, by the silo's own key."""
        own = sealing.read_keys(self.key(name).read_bytes(), "")
        opened = ExperienceStore(self.exchange.store(), small.NAME, name, own)
        key = bucket_keys.experience_shard(small.NAME, name, 1)
        episodes = shards.decode(opened.get(key), key).episodes
        said = {turn.text.encode() for episode in episodes for turn in episode.turns}
        return [text for text in said if len(text) > 12]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    names = small.ENVIRONMENTS
    with LocalStore(tmp_path / "exchange", names, prefix=small.NAME) as exchange:
        yield Place(tmp_path, exchange)


def unpacked(data: bytes) -> bytes:
    """What zstd makes of bytes, where they are its own."""
    try:
        return data + zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        return data


@pytest.mark.attack(
    by="a reader of the bucket",
    does="looks for a silo's trajectories, where its experience is sealed",
    result="finds none",
)
def test_nobody_reads_a_trajectory_in_the_bucket_and_a_kill_changes_no_byte(
    place: Place, undisturbed: Path
) -> None:
    manifest, out, own = place.manifest(), place.folder / "run", place.credentials()
    with small.Run(manifest, out, "--credentials", own) as run:
        run.wait_for_phase("train")
        run.kill(signal.SIGKILL)
    (place.folder / "text.key").write_text("no key")
    for other, sentence in {
        "": "--credentials: got no HANSA_EXPERIENCE_KEY for maze, expected the file",
        "text": "HANSA_EXPERIENCE_KEY of maze: ",
        "webshop": "--credentials: maze: small/experience/maze/00000.jsonl.zst: it is sealed to",
    }.items():
        wrong = place.credentials(maze=other)
        refused = small.hansa("run", manifest, "--out", out, "--credentials", wrong)
        assert (refused.returncode, sentence in refused.stderr) == (2, True), refused.stderr
    small.finish(manifest, out, "--credentials", own)
    assert small.adapter(out) == small.adapter(undisturbed)
    store = place.exchange.store()
    everything = {key: store.get(key) for key in store.list("")}
    private = [data for key, data in everything.items() if "/experience/" in key]
    assert private and all(map(sealing.is_sealed, private))
    readable = [unpacked(data) for data in everything.values()]
    for name in small.ENVIRONMENTS:
        said = place.turns(name)
        assert said and not any(text in data for text in said for data in readable)
    _check_tools(place, out)


def _check_tools(place: Place, out: Path) -> None:
    """What reads experience opens it with the key, and says so without."""
    read = ("trajectories", out, "-e", "maze")
    shown = small.hansa(*read, "--credentials", place.credentials())
    assert shown.returncode == 0 and "maze-" in shown.stdout, shown.stderr
    for other, sentence in {
        "": "and HANSA_EXPERIENCE_KEY names no file",
        "webshop": "not at hand",
    }.items():
        refused = small.hansa(*read, "--credentials", place.credentials(maze=other))
        assert sentence in refused.stderr and "maze-" not in refused.stdout, refused.stderr


def test_sealed_updates_and_a_served_adapter_need_no_bucket_of_the_silos_own(place: Place) -> None:
    opening = sealing.generate_opening_key()
    (place.folder / "sealing.key").write_bytes(opening.pem())
    merged = {**small.SPEC["aggregation"], "sealTo": opening.public}
    manifest = place.manifest(rounds=1, personalization="interpolate", aggregation=merged)
    out, own = place.folder / "run", place.credentials()
    arguments = ("--credentials", own, "--sealing-key", place.folder / "sealing.key")
    small.finish(manifest, out, *arguments)
    store = place.exchange.store()
    files = [key for key in store.list("") if key.endswith(bucket_keys.ADAPTER)]
    sealed = [key for key in files if sealing.is_sealed(store.get(key))]
    assert {key for key in files if key not in sealed} == {
        "small/global/00001/" + bucket_keys.ADAPTER
    }
    pulled = ("pull", out, "-e", "maze", "--to", place.folder / "served")
    its_own, file = place.exchange.environ("maze"), place.folder / "maze.json"
    file.write_text(json.dumps({"default": its_own}))
    refused = small.hansa(*pulled, "--credentials", file)
    assert "and HANSA_EXPERIENCE_KEY names no file" in refused.stderr
    assert "silo-maze" not in served(out, file, place.folder / "without")
    with_key = {**its_own, ENV_EXPERIENCE_KEY: str(place.key("maze"))}
    file.write_text(json.dumps({"default": with_key}))
    done = small.hansa(*pulled, "--credentials", file)
    assert done.returncode == 0, done.stderr
    assert "silo-maze" in served(out, file, place.folder / "with")


def served(out: Path, credentials: Path, into: Path) -> list[str]:
    """Names of what `hansa serve` would serve."""
    return [entry.name for entry in sources.read(RunDir(out), credentials, into).entries]
