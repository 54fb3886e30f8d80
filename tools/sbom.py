"""Lists an image's packages of Python and Debian as a CycloneDX document, from an OCI layout.

Nothing of the image is run: its layers are read. The same image always gives the same bytes; a time
is in the document only where SOURCE_DATE_EPOCH gives one.
"""

import hashlib
import json
import os
import posixpath
import re
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from urllib.parse import quote

from oci import Data, Layout

WANTED = re.compile(
    r".*\.dist-info/(METADATA|RECORD)|.*\.egg-info(/PKG-INFO)?|usr/lib/os-release"
    r"|var/lib/dpkg/status(\.d/[^/]+)?|opt/hansa/requirements\.txt"
)
"""Files that say what is installed."""
PACKAGES, CODE = "opt/hansa/lib/", "opt/hansa/code/"
HASHED = "opt/hansa/requirements.txt"
"""What pip was given with --require-hashes; an image from an environment has none."""

Files = dict[str, bytes]


def sbom(layout: Layout, name: str) -> bytes:
    """The document of an image."""
    manifest = layout.read(layout.image(name))
    held = read_files(layout, manifest["layers"])
    title = name.rpartition("/")[2].partition(":")[0]  # what is in it does not depend on its tag
    image = {"type": "container", "bom-ref": "image", "name": title}
    components = [
        *_system(held),
        *_interpreter(layout.read(manifest["config"])),
        *_debian(held),
        *_python(held),
    ]
    checked = "pip install --require-hashes" if HASHED in held else "an environment, unchecked"
    metadata: Data = {
        "tools": {"components": [{"type": "application", "name": "hansa tools/sbom.py"}]},
        "component": image,
        "properties": [{"name": "hansa:python-packages-from", "value": checked}],
    }
    if "SOURCE_DATE_EPOCH" in os.environ:
        time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
        metadata["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


# ---- files of an image ----


def read_files(layout: Layout, layers: Iterable[Data]) -> Files:
    """The wanted files as the topmost layers leave them, by path."""
    held: Files = {}
    for layer in layers:
        own, gone = _read_layer(layout, layer)
        held = {path: data for path, data in held.items() if not _is_gone(path, gone)} | own
    return dict(sorted(held.items()))


def _read_layer(layout: Layout, layer: Data) -> tuple[Files, set[str]]:
    """A layer's wanted files, and what of the layers below it takes away."""
    own: Files = {}
    gone: set[str] = set()
    try:
        with tarfile.open(layout.path(layer)) as archive:
            for member in archive:
                path = posixpath.normpath(member.name).lstrip("/")
                folder, _, last = path.rpartition("/")
                if last == ".wh..wh..opq":
                    gone.add(f"{folder}/")
                elif last.startswith(".wh."):
                    gone |= {(hidden := posixpath.join(folder, last[4:])), f"{hidden}/"}
                elif WANTED.fullmatch(path):
                    gone.add(path)  # also where a link has replaced it
                    if content := archive.extractfile(member) if member.isreg() else None:
                        own[path] = content.read()
    except tarfile.ReadError as error:
        raise SystemExit(
            f"error: layer {layer['digest']}: got {layer['mediaType']}, expected a tar that may be"
            f" compressed by gzip ({error})"
        ) from None
    return own, gone


def _is_gone(path: str, gone: set[str]) -> bool:
    above = [path[: match.end()] for match in re.finditer("/", path)]
    return not gone.isdisjoint([path, *above])


# ---- components ----


def _system(held: Files) -> Iterator[Data]:
    release = _release(held)
    if release:
        name, version = release.get("ID", "linux"), release.get("VERSION_ID", "")
        yield {
            "type": "operating-system",
            "bom-ref": "operating-system",
            "name": name,
            "version": version,
        }


def _release(held: Files) -> dict[str, str]:
    lines = held.get("usr/lib/os-release", b"").decode().splitlines()
    return {
        key: value.strip("\"'") for key, mark, value in (x.partition("=") for x in lines) if mark
    }


def _interpreter(config: Data) -> Iterator[Data]:
    """A Python that the base image compiled itself, and tells by a variable."""
    for line in config.get("config", {}).get("Env", []):
        if line.startswith("PYTHON_VERSION="):
            version = line.partition("=")[2]
            purl = f"pkg:generic/python@{version}"
            yield {"type": "application", "bom-ref": purl, "name": "python", "version": version} | {
                "purl": purl
            }


def _debian(held: Files) -> Iterator[Data]:
    release = _release(held)
    system = release.get("ID", "debian")
    distro = f"&distro={system}-{release['VERSION_ID']}" if "VERSION_ID" in release else ""
    for text in (data.decode() for path, data in held.items() if "/dpkg/status" in path):
        for entry in re.split(r"\n\n+", text.strip()):
            fields = Parser().parsestr(entry, headersonly=True)
            name, version = fields["Package"], fields["Version"]
            if name and version and fields.get("Status", "installed").endswith("installed"):
                place = f"{name}@{quote(version, safe=':')}?arch={fields['Architecture']}{distro}"
                purl = f"pkg:deb/{system}/{place}"
                yield {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": version,
                    "purl": purl,
                }


def _python(held: Files) -> Iterator[Data]:
    hashes = _hashes(held.get(HASHED, b"").decode())
    for path, data in held.items():
        if re.search(r"-info(/METADATA|/PKG-INFO)?$", path):
            place = re.sub(r"/(METADATA|PKG-INFO)$", "", path)
            fields = Parser().parsestr(data.decode(errors="replace"), headersonly=True)
            name, version = fields["Name"], fields["Version"]
            plain = re.sub(r"[-_.]+", "-", name).lower()
            # Hansa itself is on no index: one of that name there would be somebody else's.
            kind = "generic" if place.startswith(CODE) else "pypi"
            purl = f"pkg:{kind}/{plain}@{quote(version, safe='')}"
            component = {
                "type": "library",
                "bom-ref": place,
                "name": name,
                "version": version,
                "purl": purl,
            }
            if licences := _licences(fields):
                component["licenses"] = licences
            allowed = hashes.get((plain, version), [])
            if allowed and place.startswith(PACKAGES):
                component["externalReferences"] = [_distribution(purl, allowed)]
            if (record := held.get(f"{place}/RECORD")) is not None:
                digest = hashlib.sha256(record).hexdigest()
                component["properties"] = [{"name": "hansa:RECORD:sha256", "value": digest}]
            yield component


def _distribution(purl: str, allowed: list[str]) -> Data:
    return {
        "type": "distribution",
        "url": purl,
        "comment": "pip installed one of these files",
        "hashes": [{"alg": "SHA-256", "content": each} for each in allowed],
    }


def _hashes(text: str) -> dict[tuple[str, str], list[str]]:
    """The hashes of a requirements file by name and version."""
    lines = text.replace("\\\n", " ").splitlines()
    matches = (re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines)
    return {
        (match[1], match[2]): re.findall(r"--hash=sha256:(\w+)", match.string)
        for match in matches
        if match
    }


def _licences(fields: Message) -> list[Data]:
    """What a package says of its licence: an expression, else its classifiers, else its words."""
    if expression := fields["License-Expression"]:
        return [{"expression": expression}]
    names = [
        each.rpartition(" :: ")[2]
        for each in fields.get_all("Classifier", [])
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    words = (fields["License"] or "").strip()
    if not names and 0 < len(words) <= 100 and "\n" not in words:
        names = [words]
    return [{"license": {"name": each}} for each in sorted(set(names))]
