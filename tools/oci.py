"""Keeps images as files: an OCI layout that layers are added to and archives are taken from.

Image builders copy a layer of gigabytes several times over. Here it is written once, as the blob
that the layout, the builder's push and the cluster's import then share.

    tools/oci.py add LAYOUT NAME [--on NAME] <layer.tar     an image of one more layer
    tools/oci.py has LAYOUT NAME                            exit 0 if it is there
    tools/oci.py export LAYOUT NAME... [--has DIGESTS]      an archive on stdout, without the blobs
                                                            whose digests the file lists
    tools/oci.py name LAYOUT NAME OTHER                     another name for an image
    tools/oci.py tidy LAYOUT NAME...                        drop other tags of these images
"""

import argparse
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REFERENCE = "org.opencontainers.image.ref.name"
FULL_NAME = "io.containerd.image.name"
"""What containerd calls the image; it takes a bare reference for a tag only."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CHUNK = 1 << 20

Data = dict[str, Any]


class Layout:
    """A folder of blobs named by digest, with an index of images named by reference."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True, exist_ok=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def index(self) -> list[Data]:
        """The entries of all images; a layout that was just made has none."""
        file = self.folder / "index.json"
        return list(json.loads(file.read_text())["manifests"]) if file.exists() else []

    def save(self, entries: list[Data]) -> None:
        """Replace the index in one step, so that a reader never sees half of it."""
        made = self.folder / "index.new"
        made.write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
        made.replace(self.folder / "index.json")

    def find(self, name: str) -> Data | None:
        """The index entry of an image, if all it refers to is there."""
        for entry in self.index():
            notes = entry.get("annotations", {})
            if notes.get(REFERENCE) == name or notes.get(FULL_NAME) == full_name(name):
                whole = all(self.path(each).exists() for each in self.parts(entry))
                return entry if whole else None
        return None

    def path(self, descriptor: Data) -> Path:
        """Where the blob of a descriptor lies."""
        return self.blobs / str(descriptor["digest"]).removeprefix("sha256:")

    def read(self, descriptor: Data) -> Data:
        """A blob that is JSON."""
        return dict(json.loads(self.path(descriptor).read_bytes()))

    def parts(self, entry: Data) -> Iterator[Data]:
        """The manifest of an image, its configuration and its layers."""
        yield entry
        if self.path(entry).exists():
            manifest = self.read(entry)
            if "manifests" in manifest:  # of which a copy may hold only some
                return
            yield manifest["config"]
            yield from manifest["layers"]

    def put(self, source: IO[bytes], kind: str) -> Data:
        """Store a blob as it comes, and describe it."""
        digest, size = hashlib.sha256(), 0
        with tempfile.NamedTemporaryFile(dir=self.blobs, delete=False) as made:
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                size += made.write(chunk)
        Path(made.name).chmod(0o644)
        Path(made.name).replace(self.blobs / digest.hexdigest())
        return {"mediaType": kind, "digest": f"sha256:{digest.hexdigest()}", "size": size}

    def put_json(self, value: Data, kind: str) -> Data:
        """Store a blob that is JSON."""
        return self.put(io.BytesIO(json.dumps(value, sort_keys=True).encode()), kind)

    def add(self, name: str, layer: IO[bytes], parent: str | None) -> None:
        """An image that is its parent, if any, with one more layer."""
        config: Data = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]},
            "rootfs": {"type": "layers", "diff_ids": []},
        }
        layers: list[Data] = []
        if parent:
            manifest = self.read(self.require(parent))
            config, layers = self.read(manifest["config"]), manifest["layers"]
        own = self.put(layer, LAYER)
        layers = [*layers, own]
        # Those of the parent's layers before they were compressed, if they were.
        config["rootfs"]["diff_ids"] = [*config["rootfs"]["diff_ids"], own["digest"]]
        config["history"] = [{"created_by": "tools/oci.py add"} for _ in layers]  # builders count
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.put_json(config, CONFIG),
            "layers": layers,
        }
        entry = self.put_json(manifest, MANIFEST) | {"annotations": {REFERENCE: name}}
        self.save([*self.others(name), entry])

    def name(self, name: str, other: str) -> None:
        """Let an image be known by another name too."""
        entry = self.require(name) | {"annotations": {REFERENCE: other}}
        self.save([*self.others(other), entry])

    def others(self, *names: str) -> list[Data]:
        """The index without some images."""
        return [
            each for each in self.index() if each.get("annotations", {}).get(REFERENCE) not in names
        ]

    def require(self, name: str) -> Data:
        """The index entry of an image that must be there."""
        entry = self.find(name)
        if entry is None:
            raise SystemExit(f"error: image: got {name!r}, which {self.folder} does not hold whole")
        return entry

    def export(self, names: list[str], target: IO[bytes], present: set[str]) -> None:
        """An archive of images for `ctr images import`, less the blobs that are there already."""
        entries = [self.require(name) for name in names]
        index = {
            "schemaVersion": 2,
            "manifests": [
                entry | {"annotations": {FULL_NAME: full_name(name)}}
                for name, entry in zip(names, entries, strict=True)
            ],
        }
        parts = {part["digest"]: part for entry in entries for part in self.parts(entry)}
        with tarfile.open(fileobj=target, mode="w|", bufsize=CHUNK) as archive:
            _write(archive, "oci-layout", (self.folder / "oci-layout").read_bytes())
            _write(archive, "index.json", json.dumps(index).encode())
            for digest, part in parts.items():
                if digest not in present:
                    path = self.path(part)
                    archive.add(path, f"blobs/sha256/{path.name}", recursive=False)

    def tidy(self, names: list[str]) -> None:
        """Drop images that have another tag than one of these, and blobs that nobody needs."""
        repositories = {repository(name) for name in names}
        kept = [
            entry
            for entry in self.index()
            if (name := entry.get("annotations", {}).get(REFERENCE, "")) in names
            or (name and repository(name) not in repositories)
        ]
        self.save(kept)
        needed = {self.path(part).name for entry in kept for part in self.parts(entry)}
        for blob in self.blobs.iterdir():
            if blob.name not in needed:
                blob.unlink()


def repository(name: str) -> str:
    """The name of an image without its tag."""
    return name.rpartition(":")[0]


def full_name(name: str) -> str:
    """How containerd and the kubelet spell a name without a registry."""
    first = name.split("/")[0]
    if "/" in name and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if "/" in name else f"docker.io/library/{name}"


def _write(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    archive.addfile(header, io.BytesIO(content))


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Images as files in an OCI layout.")
    parser.add_argument("verb", choices=["add", "has", "name", "export", "tidy"])
    parser.add_argument("layout", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--on", help="the image that the new layer lies on")
    parser.add_argument("--has", type=Path, help="file of digests that the receiver holds")
    given = parser.parse_args()
    layout = Layout(given.layout)
    if given.verb == "has":
        return 0 if all(layout.find(name) for name in given.names) else 1
    if given.verb == "add":
        layout.add(given.names[0], sys.stdin.buffer, given.on)
    elif given.verb == "name":
        layout.name(*given.names)
    elif given.verb == "export":
        present = set(given.has.read_text().split()) if given.has else set()
        with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as target:
            layout.export(given.names, target, present)
    else:
        layout.tidy(given.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
