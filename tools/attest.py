"""Writes and checks what is told of an image beside it: its packages, and where it comes from.

    tools/python tools/attest.py write LAYOUT NAME FOLDER --part server --base IMAGE ...
    tools/python tools/attest.py verify LAYOUT NAME FOLDER
    tools/python tools/attest.py list LAYOUT NAME               only print its packages

LAYOUT is a folder of the image's blobs (an OCI layout: that of tools/images, what
`skopeo copy docker://NAME oci:LAYOUT:NAME` writes, or an unpacked `docker save`). `verify` ends
with 0 where all is as the files in FOLDER say, with 1 where something differs, and with 3 where
something cannot be checked.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import IO

from oci import CHUNK, Data, Layout
from provenance import ROOT, Build, git, sha256, statement
from sbom import sbom

EQUAL, DIFFERS, CANNOT_BE = 0, 1, 3
WORDS = {EQUAL: "equal", DIFFERS: "differs", CANNOT_BE: "cannot be checked"}

Verdict = tuple[int, str]


def paths(folder: Path, name: str) -> tuple[Path, Path]:
    """Where the two documents of an image lie."""
    title = name.rpartition("/")[2].partition(":")[0]
    return folder / f"{title}.cdx.json", folder / f"{title}.provenance.json"


def write(layout: Layout, folder: Path, given: argparse.Namespace) -> None:
    """Both documents of an image that was just built."""
    folder.mkdir(parents=True, exist_ok=True)
    packages, provenance = paths(folder, given.name)
    listed = sbom(layout, given.name)
    entry = layout.image(given.name)
    build = Build(
        part=given.part,
        name=given.name,
        digest=given.digest or entry["digest"],
        config=layout.read(entry)["config"]["digest"],
        base=given.base,
        base_digest=given.base_digest or layout.image(given.base)["digest"],
        builder=given.builder,
        from_environment=given.from_environment,
        arguments=_arguments(given.arguments),
        command=given.command.split("\n"),
    )
    descriptor = {"name": packages.name, "digest": {"sha256": sha256(listed)}}
    packages.write_bytes(listed)
    provenance.write_bytes(statement(build, descriptor))


def _arguments(text: str) -> list[str]:
    """What tools/images was called with, but for where the documents go: that decides nothing."""
    words = text.split("\n") if text else []
    if "--attest" in words:
        place = words.index("--attest")
        del words[place : place + 2]
    return words


# ---- checking ----


def verify(layout: Layout, name: str, folder: Path, root: Path = ROOT) -> list[Verdict]:
    """What is as the documents say, and what is not."""
    packages, provenance = paths(folder, name)
    for file in (packages, provenance):
        if not file.is_file():
            raise SystemExit(f"error: {file}: got none, expected what tools/images has written")
    said = json.loads(provenance.read_bytes())
    definition = said["predicate"]["buildDefinition"]
    return [
        _image(layout, name, said["subject"][0]),
        _blobs(layout, name),
        _packages(layout, name, packages.read_bytes(), said["predicate"]["runDetails"]),
        *_sources(definition["resolvedDependencies"], root),
        _hashes(definition["externalParameters"]["packages"]),
    ]


def _image(layout: Layout, name: str, subject: Data) -> Verdict:
    entry = layout.image(name)
    config = layout.read(entry)["config"]["digest"]
    if entry["digest"] == f"sha256:{subject['digest']['sha256']}":
        return EQUAL, f"image: {entry['digest']}"
    if config == subject["annotations"]["config"]:
        return EQUAL, f"image: its configuration, {config}; layers are packed in another way"
    return DIFFERS, f"image: got {entry['digest']}, expected sha256:{subject['digest']['sha256']}"


def _blobs(layout: Layout, name: str) -> Verdict:
    """Each is what its name says, and the layers, unpacked, are those that the configuration lists.

    Without the second, a registry could give the right configuration with other layers.
    """
    entry = layout.image(name)
    for part in layout.parts(entry):
        with layout.path(part).open("rb") as content:
            got = _digest(content)
        if part["digest"] != got:
            return DIFFERS, f"blob: got {got}, expected {part['digest']}"
    manifest = layout.read(entry)
    expected = layout.read(manifest["config"])["rootfs"]["diff_ids"]
    if [_unpacked(layout.path(layer)) for layer in manifest["layers"]] != expected:
        return DIFFERS, "layers: got others than the image's configuration lists"
    return EQUAL, "blobs: each has the digest that it is named by"


def _unpacked(layer: Path) -> str:
    with layer.open("rb") as content:
        if content.read(2) == b"\x1f\x8b":
            content.seek(0)
            return _digest(gzip.GzipFile(fileobj=content))
        content.seek(0)
        return _digest(content)


def _digest(content: IO[bytes] | gzip.GzipFile) -> str:
    digest = hashlib.sha256()
    while chunk := content.read(CHUNK):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _packages(layout: Layout, name: str, listed: bytes, run: Data) -> Verdict:
    expected = run["byproducts"][0]["digest"]["sha256"]
    if sha256(listed) != expected:
        return DIFFERS, f"packages: got a list of digest {sha256(listed)}, expected {expected}"
    stored = json.loads(listed)
    stored["metadata"].pop("timestamp", None)
    again = json.loads(sbom(layout, name))
    again["metadata"].pop("timestamp", None)
    if again == stored:
        return EQUAL, f"packages: the image has the {len(stored['components'])} that are listed"
    differing = {_line(each) for each in stored["components"]} ^ {
        _line(each) for each in again["components"]
    }
    return DIFFERS, f"packages: other than listed: {', '.join(sorted(differing)[:5]) or 'details'}"


def _line(component: Data) -> str:
    return f"{component['name']} {component['version']}"


def _sources(dependencies: list[Data], root: Path) -> list[Verdict]:
    source, base, *files = dependencies
    revision = source.get("digest", {}).get("gitCommit", "")
    if source["annotations"]["dirty"]:
        return [
            (CANNOT_BE, f"source: {revision or 'no commit'}, with changes that are in no commit")
        ]
    if git(root, "cat-file", "-e", f"{revision}^{{commit}}") is None:
        return [(CANNOT_BE, f"source: got no commit {revision} in this clone")]
    stored = {each["name"]: _stored(root, revision, each["name"]) for each in files}
    for each in files:
        if sha256(stored[each["name"]]) != each["digest"]["sha256"]:
            return [(DIFFERS, f"source: {each['name']} is not that of commit {revision}")]
    dockerfile = next(text for name, text in stored.items() if name.endswith("Dockerfile"))
    return [(EQUAL, f"source: commit {revision}"), _base(base, dockerfile.decode())]


def _stored(root: Path, revision: str, name: str) -> bytes:
    return git(root, "cat-file", "blob", f"{revision}:{name}") or b""


def _base(base: Data, dockerfile: str) -> Verdict:
    used = f"sha256:{base['digest']['sha256']}"
    named = re.search(r"^ARG BASE=\S+@(sha256:\w+)$", dockerfile, re.MULTILINE)
    if not named:
        return CANNOT_BE, f"base: {base['name']}, {used}; the Dockerfile names none by digest"
    if named[1] != used:
        return DIFFERS, f"base: got {used} ({base['name']}), expected the Dockerfile's {named[1]}"
    return EQUAL, f"base: {used}"


def _hashes(packages: str) -> Verdict:
    if packages == "environment":
        return CANNOT_BE, "hashes: packages come from an environment, for clusters of that machine"
    return EQUAL, f"hashes: {packages}"


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("verb", choices=["write", "verify", "list"])
    parser.add_argument("layout", type=Path)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    for option in ("part", "digest", "base", "base-digest", "builder", "arguments", "command"):
        parser.add_argument(f"--{option}", default="")
    parser.add_argument("--from-environment", action="store_true")
    given = parser.parse_args()
    if not (given.layout / "index.json").is_file():
        parser.error(f"LAYOUT: got {given.layout}, expected a folder with an index.json")
    layout = Layout(given.layout)
    if given.verb == "list":
        sys.stdout.buffer.write(sbom(layout, given.name))
        return EQUAL
    if given.verb == "write":
        write(layout, given.folder, given)
        return EQUAL
    verdicts = verify(layout, given.name, given.folder)
    for code, sentence in verdicts:
        print(f"{WORDS[code]}: {sentence}")
    codes = {code for code, _ in verdicts}
    return DIFFERS if DIFFERS in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
