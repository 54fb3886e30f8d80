"""Says where an image comes from, as an in-toto statement with SLSA's provenance, version 1.

It is not signed, and the builder is whoever ran tools/images. The same build gives the same bytes;
a time is in it only where SOURCE_DATE_EPOCH gives one.
"""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from oci import Data

ROOT = Path(__file__).parents[1]
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
DOCKERFILES = {
    "operator": "operator/Dockerfile",
    "client": "client_image/Dockerfile",
    "server": "server_image/Dockerfile",
}


@dataclass(frozen=True, kw_only=True)
class Build:
    """What tools/images did."""

    part: str
    """operator, client or server."""
    name: str
    """The image's name, with its tag."""
    digest: str
    """The manifest's digest: that of the registry where the image was pushed."""
    config: str
    """The digest of the image's configuration, which no compression of layers changes."""
    base: str
    base_digest: str
    builder: str
    """The program and its version."""
    from_environment: bool
    """Packages come from an installed environment, whose files nobody checked by hash."""
    arguments: list[str]
    """What tools/images was called with."""
    command: list[str]
    """The builder's own call."""


def inputs(part: str, from_environment: bool) -> list[str]:
    """Files of the repository that decide what is installed."""
    if from_environment:
        return [DOCKERFILES[part], "constraints.txt", "pyproject.toml", "requirements/build.txt"]
    torch = ["requirements/torch.txt"] if part == "client" else []
    named = ["pyproject.toml", f"requirements/{part}.txt", "requirements/build.txt"]
    return [DOCKERFILES[part], *named, *torch]


def sha256(data: bytes) -> str:
    """A digest as in-toto writes it."""
    return hashlib.sha256(data).hexdigest()


def commit(root: Path) -> tuple[str, bool]:
    """The commit that is checked out, if this is a clone, and whether files differ from it."""
    done = git(root, "rev-parse", "HEAD")
    if done is None:
        return "", True
    return done.decode().strip(), bool(git(root, "status", "--porcelain"))


def git(root: Path, *args: str) -> bytes | None:
    """What git says, or nothing where it fails."""
    try:
        done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def statement(build: Build, sbom: Data, root: Path = ROOT) -> bytes:
    """The statement about a build; `sbom` is the descriptor of the image's list of packages."""
    revision, dirty = commit(root)
    source: Data = {"name": "source", "annotations": {"dirty": dirty}}
    if revision:
        source["digest"] = {"gitCommit": revision}
    times = {}
    if "SOURCE_DATE_EPOCH" in os.environ:
        time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
        times = {"metadata": {"finishedOn": time.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    packages = "environment" if build.from_environment else "pip install --require-hashes"
    document = {
        "_type": STATEMENT,
        "subject": [
            {
                "name": build.name,
                "digest": {"sha256": build.digest.removeprefix("sha256:")},
                "annotations": {"config": build.config},
            }
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:hansa:tools/images:1",
                "externalParameters": {
                    "image": build.part,
                    "command": ["tools/images", *build.arguments],
                    "base": build.base,
                    "packages": packages,
                },
                "internalParameters": {"command": build.command},
                "resolvedDependencies": [
                    source,
                    {
                        "name": build.base,
                        "digest": {"sha256": build.base_digest.removeprefix("sha256:")},
                    },
                    *(
                        {"name": each, "digest": {"sha256": sha256((root / each).read_bytes())}}
                        for each in inputs(build.part, build.from_environment)
                    ),
                ],
            },
            "runDetails": {
                "builder": {"id": "urn:hansa:tools/images", "version": {"builder": build.builder}},
                "byproducts": [sbom],
                **times,
            },
        },
    }
    return json.dumps(document, indent=1).encode() + b"\n"
