"""Images that go to a registry stand on a base by digest, and their provenance names what is there.

Real builds and pushes with Docker or buildah; the registry is one of this machine.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa import __version__
from tests.attested import ROOT, attest, page_commands, tar
from tests.registry import Registry, registry
from tools.oci import LAYER, MANIFEST, REFERENCE, Layout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("buildah"), reason="buildah, as root"),
]
TOOLS = ("images", "images_supply_chain", "python", "setup")
PROGRAMS = ("attest.py", "oci.py", "provenance.py", "sbom.py")
TAG = "3.12-slim"
VERDICTS = ["image", "blobs", "packages", "source", "base", "hashes"]


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry() as running:
        running.add_index(f"python:{TAG}", tar({"hello": "first"}).getvalue())
        yield running


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project's builder, with Dockerfiles that only copy a file: their base has no program."""
    folder = tmp_path / "clone"
    copied = ("pyproject.toml", "constraints.txt", "requirements/build.txt", "hansa/__init__.py")
    hashed = tuple(f"requirements/{part}.txt" for part in ("server", "operator", "client", "torch"))
    for name in (*copied, *hashed, *(f"tools/{each}" for each in (*TOOLS, *PROGRAMS))):
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


def test_provenance_names_the_digests_of_the_registry_and_of_the_base(
    clone: Path, server: Registry, tmp_path: Path
) -> None:
    name = f"{server.host}/python:{TAG}"
    images(clone, server, "--lock-base", "--base", name)
    head = commit(clone)
    locked = server.tags[f"python:{TAG}"]
    server.add_index(f"python:{TAG}", tar({"hello": "later"}).getvalue())
    where = f"{server.host}/you"
    told = tmp_path / "told"
    options = ("--registry", where, "--tag", "7", "--attest", str(told))
    images(clone, server, "server", *options, "--push")
    said = json.loads((told / "hansa-server.provenance.json").read_text())
    [subject] = said["subject"]
    pushed = server.tags["you/hansa-server:7"]
    assert (subject["name"], f"sha256:{subject['digest']['sha256']}") == (
        f"{where}/hansa-server:7",
        pushed,
    )
    manifest = json.loads(server.blobs[pushed][0])
    assert subject["annotations"]["config"] == manifest["config"]["digest"]
    source, base, *_ = said["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source == {
        "name": "source",
        "annotations": {"dirty": False},
        "digest": {"gitCommit": head},
    }
    assert base["name"] == f"{name}@{locked}", "whatever the tag names by now"
    assert f"sha256:{base['digest']['sha256']}" == locked

    pulled = pull(server, f"{where}/hansa-server:7", tmp_path / "pulled")
    done = attest(clone, "verify", pulled, f"{where}/hansa-server:7", told)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"equal: base: {locked}" in done.stdout


def test_the_page_can_be_typed_by_who_publishes_and_by_who_checks(
    clone: Path, server: Registry
) -> None:
    for dockerfile in clone.glob("*/Dockerfile"):
        text = dockerfile.read_text().replace("python:", f"{server.host}/python:")
        dockerfile.write_text(text)
    (clone / ".gitignore").write_text(".cache/\n__pycache__/\ntold/\npulled/\n")
    commit(clone)
    said = ""
    for command in [*page_commands("Publish"), *page_commands("Check a published image")]:
        typed = command.replace("YOURS", f"{server.host}/you").replace("VERSION", __version__)
        said = run(clone, server, ["bash", "-c", typed])
    shown = (ROOT / "docs/supply-chain.md").read_text()
    begin = [line.split(": ")[:2] for line in said.splitlines()]
    assert begin == [["equal", each] for each in VERDICTS]
    assert re.findall(r"^equal: (\w+): ", shown, re.MULTILINE) == VERDICTS


def test_a_build_that_is_not_pushed_records_what_its_tag_named(
    clone: Path, server: Registry, tmp_path: Path
) -> None:
    name = f"{server.host}/python:{TAG}"
    images(clone, server, "server", "--base", name, "--attest", str(tmp_path))
    said = json.loads((tmp_path / "hansa-server.provenance.json").read_text())
    base = said["predicate"]["buildDefinition"]["resolvedDependencies"][1]
    assert base["name"] == f"{name}@{server.tags[f'python:{TAG}']}"


def pull(server: Registry, name: str, folder: Path) -> Path:
    """The registry's image as files, with the digests that it has there."""
    made = Layout(folder)
    repository, _, tag = name.removeprefix(f"{server.host}/").rpartition(":")
    digest = server.tags[f"{repository}:{tag}"]
    for content, _ in server.blobs.values():
        made.put(io.BytesIO(content), LAYER)
    entry = {"mediaType": MANIFEST, "digest": digest, "size": len(server.blobs[digest][0])}
    made.save([entry | {"annotations": {REFERENCE: name}}])
    return folder
