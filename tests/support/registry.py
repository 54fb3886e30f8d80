"""A registry of images on this machine, as far as pulling and pushing one goes."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.loopback import Handler, answering

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"

Data = dict[str, Any]


class Registry(ThreadingHTTPServer):
    """Blobs and manifests by digest, and tags; what was pushed can be pulled again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[str, tuple[bytes, str]] = {}
        self.tags: dict[str, str] = {}
        self.uploads: list[bytes] = []
        self.host = f"localhost:{self.server_port}"

    def put(self, content: bytes, kind: str = "application/octet-stream") -> Data:
        """Store a blob or a manifest."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = (content, kind)
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def add_index(self, name: str, layer: bytes) -> str:
        """An image for two kinds of machines; its digest."""
        entries = [
            self._image(layer, machine) | {"platform": {"architecture": machine, "os": "linux"}}
            for machine in ("amd64", "arm64")
        ]
        made = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        self.tags[name] = str(self.put(json.dumps(made).encode(), INDEX)["digest"])
        return self.tags[name]

    def _image(self, layer: bytes, machine: str) -> Data:
        stored = self.put(layer, LAYER)
        config = {
            "architecture": machine,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]},
            "history": [{"created_by": "a test"}],
        }
        described = self.put(json.dumps(config).encode(), CONFIG)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described}
        return self.put(json.dumps(manifest | {"layers": [stored]}).encode(), MANIFEST)

    def settings(self, file: Path) -> dict[str, str]:
        """Variables that let buildah speak to it without TLS; `file` is written."""
        file.write_text(f'[[registry]]\nlocation = "{self.host}"\ninsecure = true\n')
        return {"CONTAINERS_REGISTRIES_CONF": str(file)}


class _Handler(Handler):
    server: Registry

    def do_GET(self) -> None:
        name, _, wanted = self.path.removeprefix("/v2/").partition("?")[0].rpartition("/")
        repository = name.rpartition("/")[0]
        digest = self.server.tags.get(f"{repository}:{wanted}", wanted)
        if self.path == "/v2/":
            self.answer(200, b"{}")
        elif digest in self.server.blobs:
            content, kind = self.server.blobs[digest]
            headers = {"Content-Type": kind, "Docker-Content-Digest": digest}
            self.answer(200, content, headers)
        else:
            self.answer(404, b"{}")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self.body()
        self.server.uploads.append(b"")
        self.answer(202, headers={"Location": f"{self.path}{len(self.server.uploads) - 1}"})

    def do_PATCH(self) -> None:
        self.server.uploads[self.upload()] += self.body()
        self.answer(202, headers={"Location": self.path})

    def do_PUT(self) -> None:
        content = self.body()
        if "/manifests/" in self.path:
            stored = self.server.put(content, self.headers["Content-Type"])
            repository, _, tag = self.path.removeprefix("/v2/").partition("/manifests/")
            self.server.tags[f"{repository}:{tag}"] = str(stored["digest"])
        else:
            stored = self.server.put(self.server.uploads[self.upload()] + content)
        self.answer(201, headers={"Docker-Content-Digest": str(stored["digest"])})

    def upload(self) -> int:
        return int(self.path.partition("?")[0].rpartition("/")[2])


@contextmanager
def registry() -> Iterator[Registry]:
    """One that answers until the block ends."""
    with answering(Registry()) as server:
        yield server
