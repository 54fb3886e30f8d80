"""What tests of this folder share: small disks, and parties with a bucket between them."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import small
from tests.support.parties import Quick


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts small or read-only disks, where this user may."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        path = tmp_path / f"disk{len(mounted)}"
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount")
        mounted.append(path)
        return path

    yield make
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=False)


@pytest.fixture(scope="session")
def in_one_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the small federation with one round, which nothing disturbed."""
    folder = tmp_path_factory.mktemp("in-one-place")
    small.finish(small.write_manifest(folder, rounds=1), folder / "run")
    return folder


@pytest.fixture(scope="session")
def model_digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all parties agree on: `model` and `adapter` of a spec, with their digests."""
    manifest = small.write_manifest(tmp_path_factory.mktemp("model"))
    printed = small.hansa("model", "-f", manifest, "-o", "json")
    assert printed.returncode == 0, printed.stderr
    spec = json.loads(printed.stdout)
    return {part: {**small.SPEC.get(part, {}), **spec[part]} for part in ("model", "adapter")}


@pytest.fixture
def silos(tmp_path: Path, model_digests: dict[str, Any]) -> Iterator[Quick]:
    """A coordinator and a silo elsewhere, about to play one round."""
    made = Quick(tmp_path)
    with made.store:
        made.manifest(model_digests, rounds=1)
        made.store.restart_with_grants()
        yield made
