"""What is told of an image beside it: its packages and its provenance, and how both are checked."""

import hashlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.attested import CODE, NAME, OTHER, PACKAGES, ROOT, SITE, WHEEL, attest, make_layout, tar
from tools.oci import Layout

DIGEST = "sha256:" + "c" * 64


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return make_layout(tmp_path / "layout")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clone with all that provenance speaks of, and the programs that write and check it."""
    folder = tmp_path / "clone"
    names = ("server_image/Dockerfile", "constraints.txt", "pyproject.toml")
    hashed = ("requirements/server.txt", "requirements/build.txt")
    tools = ("tools/attest.py", "tools/oci.py", "tools/provenance.py", "tools/sbom.py")
    for name in (*names, *hashed, *tools):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    dockerfile = folder / "server_image/Dockerfile"
    text = dockerfile.read_text().splitlines()
    named = [f"ARG BASE=base:1@{DIGEST}" if x.startswith("ARG BASE=") else x for x in text]
    dockerfile.write_text("\n".join(named) + "\n")
    (folder / ".gitignore").write_text("__pycache__\n")
    for command in ("init -q", "add .", "commit -q -m first"):
        author = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        subprocess.run(["git", *author, *command.split()], cwd=folder, check=True)
    return folder


def listed(layout: Layout, name: str = NAME) -> dict[str, Any]:
    done = attest(ROOT, "list", layout.folder, name)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def write(
    layout: Layout, repository: Path, folder: Path, *more: str, epoch: str = ""
) -> dict[str, Any]:
    options = ["--part", "server", "--base", f"base:1@{DIGEST}", "--base-digest", DIGEST]
    options += [
        "--builder",
        "buildah version 1",
        "--arguments=server\n--attest\n/somewhere\n--push",
    ]
    options += ["--command", "buildah build\n--tag\nx", *more]
    done = attest(repository, "write", layout.folder, NAME, folder, *options, epoch=epoch)
    assert done.returncode == 0, done.stderr
    return dict(json.loads((folder / "hansa-server.provenance.json").read_text()))


def component(document: dict[str, Any], name: str) -> dict[str, Any]:
    [one] = [each for each in document["components"] if each["name"] == name]
    return dict(one)


# ---- packages ----


def test_packages_of_python_and_debian_are_listed_with_versions(layout: Layout) -> None:
    document = listed(layout)
    assert [(each["name"], each["version"]) for each in document["components"]] == [
        ("debian", "12"),
        ("libc6", "1:2.36-9+deb12u4"),
        ("hansa", "7"),
        ("NumPy", "2"),
        ("rich", "1"),
        ("old", "1"),
    ], "what was removed, by a layer or by dpkg, is not there"
    assert component(document, "libc6")["purl"] == (
        "pkg:deb/debian/libc6@1:2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12"
    )


def test_a_package_has_its_licence_and_the_hashes_that_pip_accepted(layout: Layout) -> None:
    document = listed(layout)
    numpy = component(document, "NumPy")
    assert numpy["purl"] == "pkg:pypi/numpy@2"
    assert numpy["licenses"] == [{"expression": "BSD-3-Clause"}]
    [reference] = numpy["externalReferences"]
    assert [each["content"] for each in reference["hashes"]] == [WHEEL, OTHER]
    record = PACKAGES[f"{SITE}/numpy-2.dist-info/RECORD"].encode()
    assert numpy["properties"][0]["value"] == hashlib.sha256(record).hexdigest()
    assert component(document, "rich")["licenses"] == [{"license": {"name": "MIT License"}}]
    assert component(document, "old")["licenses"] == [{"license": {"name": "MIT"}}]


def test_hansa_itself_is_no_package_of_an_index(layout: Layout) -> None:
    assert component(listed(layout), "hansa")["purl"] == "pkg:generic/hansa@7"


def test_an_image_from_an_environment_claims_no_hashes(layout: Layout) -> None:
    files = {path: text for path, text in PACKAGES.items() if "requirements" not in path}
    layout.add("own:1", tar(files), "base:1")
    document = listed(layout, "own:1")
    assert "externalReferences" not in component(document, "NumPy")
    assert document["metadata"]["properties"][0]["value"] == "an environment, unchecked"


def test_the_same_image_gives_the_same_list(layout: Layout) -> None:
    first = listed(layout)
    layout.add("hansa-server:7", tar(CODE), "packages:1")
    assert listed(layout, "hansa-server:7") == first
    assert "timestamp" not in first["metadata"]
    assert "serialNumber" not in first


def test_a_layer_that_is_no_tar_is_named(layout: Layout) -> None:
    layout.add("broken:1", io.BytesIO(b"x" * 600), "base:1")
    done = attest(ROOT, "list", layout.folder, "broken:1")
    assert done.returncode == 1
    assert "expected a tar that may be compressed by gzip" in done.stderr


# ---- provenance ----


def test_provenance_tells_source_base_hashes_and_commands(
    layout: Layout, repository: Path, tmp_path: Path
) -> None:
    said = write(layout, repository, tmp_path / "out", "--digest", DIGEST)
    [subject] = said["subject"]
    assert subject["name"] == NAME
    assert subject["digest"] == {"sha256": "c" * 64}, "as the registry has it"
    definition = said["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["command"] == ["tools/images", "server", "--push"]
    assert definition["internalParameters"]["command"] == ["buildah build", "--tag", "x"]
    source, base, *files = definition["resolvedDependencies"]
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository, text=True)
    assert source["digest"] == {"gitCommit": head.strip()}
    assert source["annotations"] == {"dirty": False}
    assert base == {"name": f"base:1@{DIGEST}", "digest": {"sha256": "c" * 64}}
    assert {each["name"]: each["digest"]["sha256"] for each in files} == {
        name: hashlib.sha256((repository / name).read_bytes()).hexdigest()
        for name in (
            "server_image/Dockerfile",
            "pyproject.toml",
            "requirements/server.txt",
            "requirements/build.txt",
        )
    }
    [packages] = said["predicate"]["runDetails"]["byproducts"]
    sbom = (tmp_path / "out/hansa-server.cdx.json").read_bytes()
    assert packages["digest"]["sha256"] == hashlib.sha256(sbom).hexdigest()


def test_the_same_build_gives_the_same_documents(
    layout: Layout, repository: Path, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        write(layout, repository, tmp_path / folder)
    for name in ("hansa-server.cdx.json", "hansa-server.provenance.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_time_is_told_only_where_one_is_given(
    layout: Layout, repository: Path, tmp_path: Path
) -> None:
    said = write(layout, repository, tmp_path, epoch="1700000000")
    assert said["predicate"]["runDetails"]["metadata"] == {"finishedOn": "2023-11-14T22:13:20Z"}
    done = attest(repository, "verify", layout.folder, NAME, tmp_path)
    assert done.returncode == 0, "what the image holds does not depend on it"


# ---- checking ----


def test_an_image_that_is_as_told_is_equal(
    layout: Layout, repository: Path, tmp_path: Path
) -> None:
    write(layout, repository, tmp_path)
    done = attest(repository, "verify", layout.folder, NAME, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(": ")[:2] for line in done.stdout.splitlines()] == [
        ["equal", each] for each in ("image", "blobs", "packages", "source", "base", "hashes")
    ]


def test_a_registry_may_pack_layers_in_another_way(
    layout: Layout, repository: Path, tmp_path: Path
) -> None:
    write(layout, repository, tmp_path, "--digest", DIGEST)
    done = attest(repository, "verify", layout.folder, NAME, tmp_path)
    assert done.returncode == 0
    assert "layers are packed in another way" in done.stdout


@pytest.mark.parametrize("changed", ["image", "layer", "list", "source", "base"])
def test_what_was_changed_afterwards_differs_and_is_named(
    layout: Layout, repository: Path, tmp_path: Path, changed: str
) -> None:
    write(layout, repository, tmp_path)
    if changed == "image":
        more = CODE | {f"{SITE}/evil-1.dist-info/METADATA": "Name: evil\nVersion: 1\n"}
        layout.add(NAME, tar(more), "packages:1")
        sentences = ["differs: image: got sha256:", "other than listed: evil 1"]
    elif changed == "layer":
        layer = layout.path(layout.read(layout.require(NAME))["layers"][-1])
        layer.write_bytes(layer.read_bytes().replace(b"Name: hansa", b"Name: hensa"))
        sentences = ["differs: blob: got sha256:"]
    elif changed == "list":
        file = tmp_path / "hansa-server.cdx.json"
        file.write_text(file.read_text().replace('"2"', '"3"'))
        sentences = ["differs: packages: got a list of digest"]
    else:
        file = tmp_path / "hansa-server.provenance.json"
        said = json.loads(file.read_text())
        dependencies = said["predicate"]["buildDefinition"]["resolvedDependencies"]
        dependencies[1 if changed == "base" else -1]["digest"]["sha256"] = "d" * 64
        file.write_text(json.dumps(said))
        sentences = {
            "source": ["differs: source: requirements/build.txt is not that of commit"],
            "base": [f"differs: base: got sha256:{'d' * 64}"],
        }[changed]
    done = attest(repository, "verify", layout.folder, NAME, tmp_path)
    assert done.returncode == 1
    for sentence in sentences:
        assert sentence in done.stdout


def test_the_right_configuration_with_other_layers_differs(
    layout: Layout, repository: Path, tmp_path: Path
) -> None:
    write(layout, repository, tmp_path)
    entry = layout.require(NAME)
    manifest = layout.read(entry)
    evil = tar(CODE | {"opt/hansa/code/hansa/evil.py": "print('not me')\n"})
    manifest["layers"][-1] = layout.put(evil, manifest["layers"][-1]["mediaType"])
    made = layout.put_json(manifest, entry["mediaType"]) | {"annotations": entry["annotations"]}
    layout.save([*layout.others(NAME), made])
    done = attest(repository, "verify", layout.folder, NAME, tmp_path)
    assert done.returncode == 1
    assert "differs: layers: got others than the image's configuration lists" in done.stdout


@pytest.mark.parametrize("reason", ["dirty", "environment", "commit", "base"])
def test_what_nobody_can_check_is_said_and_has_an_exit_of_its_own(
    layout: Layout, repository: Path, tmp_path: Path, reason: str
) -> None:
    if reason == "dirty":
        (repository / "more").write_text("")
    if reason == "base":
        dockerfile = repository / "server_image/Dockerfile"
        dockerfile.write_text(dockerfile.read_text().replace(f"@{DIGEST}", ""))
        author = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        subprocess.run(["git", *author, "commit", "-qam", "x"], cwd=repository, check=True)
    write(layout, repository, tmp_path, *["--from-environment"] * (reason == "environment"))
    if reason == "commit":
        subprocess.run(["rm", "-r", ".git"], cwd=repository, check=True)
    done = attest(repository, "verify", layout.folder, NAME, tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    sentence = {
        "dirty": "changes that are in no commit",
        "environment": "packages come from an environment",
        "commit": "got no commit",
        "base": "the Dockerfile names none by digest",
    }[reason]
    assert f"cannot be checked: {'hashes' if reason == 'environment' else ''}" in done.stdout
    assert sentence in done.stdout


def test_a_folder_without_an_image_is_refused_with_a_sentence(tmp_path: Path) -> None:
    done = attest(ROOT, "verify", tmp_path, NAME, tmp_path)
    assert done.returncode == 2
    assert f"LAYOUT: got {tmp_path}, expected a folder with an index.json" in done.stderr
    assert list(tmp_path.iterdir()) == []
