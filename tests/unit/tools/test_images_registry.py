"""Images that go to a registry stand on a base by digest.

Real builds and pushes with Docker or buildah; the registry is one of this machine.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa.version import __version__
from tests.support.registry import Registry, registry
from tests.support.sources import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("buildah"), reason="buildah, as root"),
]
TOOLS = ("images", "oci.py", "python", "setup")
TAG = "3.12-slim"


def tar(files: dict[str, str]) -> io.BytesIO:
    """A layer."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, text in files.items():
            header = tarfile.TarInfo(f"./{path}")
            header.size = len(text)
            archive.addfile(header, io.BytesIO(text.encode()))
    made.seek(0)
    return made


FIRST = f"sha256:{hashlib.sha256(tar({'hello': 'first'}).getvalue()).hexdigest()}"
"""The base's layer, before its tag names another."""


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry() as running:
        running.add_index(f"python:{TAG}", tar({"hello": "first"}).getvalue())
        yield running


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project's builder, with Dockerfiles that only copy a file: their base has no program."""
    folder = tmp_path / "clone"
    copied = ("pyproject.toml", "constraints.txt", "requirements/build.txt", "hansa/version.py")
    hashed = tuple(f"requirements/{part}.txt" for part in ("server", "operator", "client", "torch"))
    for name in (*copied, *hashed, *(f"tools/{each}" for each in TOOLS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for part in ("operator", "client_image", "server_image"):
        text = f"ARG BASE=python:{TAG}\nFROM ${{BASE}}\nCOPY pyproject.toml /\n"
        (folder / part).mkdir(exist_ok=True)
        (folder / part / "Dockerfile").write_text(text)
    (folder / ".dockerignore").write_text("*\n!pyproject.toml\n")
    (folder / ".gitignore").write_text(".cache/\n__pycache__/\n")
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    author = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder, text=True)
    return head.strip()


def run(clone: Path, server: Registry, command: list[str]) -> str:
    """A command in the clone, by a builder that keeps its images there."""
    storage = clone.parent / "storage.conf"
    places = f'graphroot = "{clone.parent}/storage"\nrunroot = "{clone.parent}/run"'
    storage.write_text(f'[storage]\ndriver = "vfs"\n{places}\n')
    done = subprocess.run(
        command,
        cwd=clone,
        env=os.environ
        | {"HANSA_PYTHON": sys.executable, "CONTAINERS_STORAGE_CONF": str(storage)}
        | {
            f"GIT_{who}_{what}": "x"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        | server.settings(clone.parent / "registries.conf"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def images(clone: Path, server: Registry, *args: str) -> str:
    return run(clone, server, [str(clone / "tools/images"), *args])


def bases(clone: Path) -> set[str]:
    texts = [file.read_text() for file in clone.glob("*/Dockerfile")]
    return {line for text in texts for line in re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE)}


def test_the_digest_of_a_base_is_written_into_all_dockerfiles(
    clone: Path, server: Registry
) -> None:
    first = server.tags[f"python:{TAG}"]
    name = f"{server.host}/python:{TAG}"
    images(clone, server, "--lock-base", "--base", name)
    assert bases(clone) == {f"{name}@{first}"}, "of all machines' images, not of this one's"
    second = server.add_index(f"python:{TAG}", tar({"hello": "second"}).getvalue())
    images(clone, server, "--lock-base")
    assert bases(clone) == {f"{name}@{second}"}


def test_a_base_that_cannot_be_pulled_is_named(clone: Path, server: Registry) -> None:
    with pytest.raises(AssertionError) as failure:
        images(clone, server, "--lock-base", "--base", f"{server.host}/nobody:1")
    assert f"error: base: got '{server.host}/nobody:1', which cannot be pulled" in str(
        failure.value
    )
    assert bases(clone) == {f"python:{TAG}"}


def test_what_is_pushed_stands_on_the_base_that_was_locked(clone: Path, server: Registry) -> None:
    images(clone, server, "--lock-base", "--base", f"{server.host}/python:{TAG}")
    server.add_index(f"python:{TAG}", tar({"hello": "later"}).getvalue())
    images(clone, server, "server", "--registry", f"{server.host}/you", "--tag", "7", "--push")
    assert layers(server, "you/hansa-server:7")[0] == FIRST, "whatever the tag names by now"


def test_the_page_can_be_typed_by_who_publishes(clone: Path, server: Registry) -> None:
    for dockerfile in clone.glob("*/Dockerfile"):
        text = dockerfile.read_text().replace("python:", f"{server.host}/python:")
        dockerfile.write_text(text)
    commit(clone)
    page = (ROOT / "docs/supply-chain.md").read_text()
    commands = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        run(clone, server, ["bash", "-c", command.replace("YOURS", f"{server.host}/you")])
    for part in ("operator", "client", "server"):
        assert layers(server, f"you/hansa-{part}:{__version__}")[0] == FIRST
        assert (clone / f"packages/hansa-{part}.cdx.json").is_file()


def layers(server: Registry, name: str) -> list[str]:
    """Digests of an image's layers, unpacked, the base's first."""
    manifest = json.loads(server.blobs[server.tags[name]][0])
    config = json.loads(server.blobs[manifest["config"]["digest"]][0])
    digests: list[str] = config["rootfs"]["diff_ids"]
    return digests
