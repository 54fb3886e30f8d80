"""A stand-in for the Hugging Face hub's HTTP API: as much of it as pushing and pulling asks for.

It keeps commits as a hub does: small files are git's blobs, others go by the LFS batch API and an
upload, and a commit may only name what was uploaded. Its answers follow the hub's, so that
huggingface_hub itself is what is tested against it.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from tests.support.loopback import Handler, answering

TOKEN = "hf_aTokenOfTheTests"
READER = "hf_aTokenThatOnlyReads"
_REPO = r"(?P<kind>models|datasets)/(?P<name>[^/]+/[^/]+)"
Files = dict[str, bytes]


@dataclass
class Repository:
    """Commits of a repository, newest last."""

    private: bool
    commits: list[tuple[str, Files]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def at(self, revision: str) -> tuple[str, Files] | None:
        """A commit by its id, a start of it is none; `main` is the newest."""
        if revision == "main":
            return self.commits[-1]
        return next((each for each in self.commits if each[0] == revision), None)

    def commit(self, files: Files, message: str) -> str:
        """Store a commit; its id follows from all before it."""
        names = json.dumps([*self.messages, message, sorted(files)]).encode()
        content = b"".join(files[name] for name in sorted(files))
        number = hashlib.sha1(names + content).hexdigest()  # noqa: S324  as git has it
        self.commits.append((number, files))
        self.messages.append(message)
        return number


class Hub(ThreadingHTTPServer):
    """A hub on loopback; `log` has every request, `fail` may answer one in its place."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.log: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        self.fail: Callable[[str, str], int | None] = lambda method, path: None
        self.lock = Lock()

    def add(self, name: str, files: Files, kind: str = "models", private: bool = False) -> str:
        """A repository of somebody's; its commit."""
        made = Repository(private=private)
        self.repositories[kind, name] = made
        return made.commit(files, "Initial commit")

    def files(self, name: str, kind: str = "models") -> Files:
        """The newest files of a repository, but for the hub's own."""
        files = self.repositories[kind, name].commits[-1][1]
        return {path: content for path, content in files.items() if path != ".gitattributes"}

    def variables(self, home: Path, token: str = TOKEN) -> dict[str, str]:
        """What sends huggingface_hub here, and nothing of it to the home folder."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": token,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",  # its servers are no part of the hub's HTTP API
            "HF_HUB_OFFLINE": "0",
        }


def git_id(content: bytes) -> str:
    """Digest of a file as git has it."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content).hexdigest()  # noqa: S324


def is_large(path: str, content_size: int) -> bool:
    """Whether a hub keeps it by LFS: by .gitattributes, or by its size."""
    return path.endswith((".safetensors", ".jsonl")) or content_size > 10 << 20


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(content)}
    if not is_large(path, len(content)):
        return {**entry, "oid": git_id(content)}
    digest = hashlib.sha256(content).hexdigest()
    lfs = {"oid": digest, "size": len(content), "pointerSize": 134}
    return {**entry, "oid": git_id(_pointer(digest, len(content))), "lfs": lfs}


def _pointer(digest: str, size: int) -> bytes:
    head = "version https://git-lfs.github.com/spec/v1"
    return f"{head}\noid sha256:{digest}\nsize {size}\n".encode()


class _Handler(Handler):
    server: Hub

    def handle_any(self) -> None:
        body = self.body()
        path = unquote(urlsplit(self.path).path)
        with self.server.lock:
            self.server.log.append((self.command, path))
            self.server.bodies.append(body)
            code = self.server.fail(self.command, path)
            if code is not None:
                self.answer(code, {"error": "made to fail"})
                return
            self._route(path, body)

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def _route(self, path: str, body: bytes) -> None:
        if path.startswith("/upload/"):  # a signed address: it needs no token
            self._upload(path, body)
            return
        if self._token() not in (None, TOKEN, READER):
            self.answer(401, {"error": "Invalid credentials in Authorization header"})
            return
        for pattern, act in (
            (r"/api/repos/create", self._create),
            (r"/api/validate-yaml", self._validate),
            (rf"/api/{_REPO}/preupload/(?P<revision>.+)", self._preupload),
            (rf"/api/{_REPO}/commit/(?P<revision>.+)", self._commit),
            (rf"/api/{_REPO}/tree/(?P<revision>.+)", self._tree),
            (rf"/api/{_REPO}(/revision/(?P<revision>.+))?", self._info),
            (r"/(datasets/)?(?P<name>[^/]+/[^/]+)\.git/info/lfs/objects/batch", self._batch),
            (
                r"/(?P<kind>datasets/)?(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)",
                self._resolve,
            ),
        ):
            if match := re.fullmatch(pattern, path):
                act(match.groupdict(), body)
                return
        self.answer(404, {"error": f"no such path: {path}"})

    def _token(self) -> str | None:
        given = self.headers.get("Authorization")
        return given.removeprefix("Bearer ") if given else None

    def _may_write(self) -> bool:
        if self._token() == TOKEN:
            return True
        code = 403 if self._token() == READER else 401
        self.answer(code, {"error": "You don't have the rights to do that"})
        return False

    def _find(self, words: dict[str, str]) -> Repository | None:
        kind = "datasets" if (words.get("kind") or "models").startswith("datasets") else "models"
        known = self.server.repositories.get((kind, words["name"]))
        if known is None or (known.private and self._token() is None):
            self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            return None
        return known

    def _create(self, words: dict[str, str], body: bytes) -> None:
        if not self._may_write():
            return
        given = json.loads(body)
        key = (f"{given.get('type') or 'model'}s", f"{given['organization']}/{given['name']}")
        url = f"{self.server.url}/{'datasets/' * (key[0] == 'datasets')}{key[1]}"
        if key in self.server.repositories:
            self.answer(409, {"error": "You already created this model repo", "url": url})
            return
        is_private = given.get("visibility") == "private" or given.get("private") is True
        made = Repository(private=is_private)
        made.commit({".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")
        self.server.repositories[key] = made
        self.answer(200, {"url": url, "name": key[1]})

    def _validate(self, words: dict[str, str], body: bytes) -> None:
        given = json.loads(body)
        _, matter, _ = given["content"].split("---\n", 2)
        known = yaml.safe_load(matter)
        base = known.get("base_model", "org/name")
        wrong = [] if re.fullmatch(r"[\w.-]+/[\w.-]+", base) else ["base_model is no repo id"]
        errors = [{"message": each} for each in wrong]
        self.answer(400 if errors else 200, {"errors": errors, "warnings": []})

    def _preupload(self, words: dict[str, str], body: bytes) -> None:
        repository = self._find(words)
        if repository is None or not self._may_write():
            return
        files = repository.commits[-1][1]
        answers = []
        for each in json.loads(body)["files"]:
            mode = "lfs" if is_large(each["path"], each["size"]) else "regular"
            entry = _entry(each["path"], files[each["path"]]) if each["path"] in files else {}
            oid = entry["lfs"]["oid"] if "lfs" in entry else entry.get("oid")
            answers.append(
                {"path": each["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}
            )
        self.answer(200, {"files": answers, "commitOid": repository.commits[-1][0]})

    def _batch(self, words: dict[str, str], body: bytes) -> None:
        if not self._may_write():
            return
        objects = []
        for each in json.loads(body)["objects"]:
            there = each["oid"] in self.server.blobs
            href = {"href": f"{self.server.url}/upload/{each['oid']}"}
            objects.append({**each, **({} if there else {"actions": {"upload": href}})})
        self.answer(200, {"transfer": "basic", "objects": objects})

    def _upload(self, path: str, body: bytes) -> None:
        digest = path.removeprefix("/upload/")
        if hashlib.sha256(body).hexdigest() != digest:
            self.answer(400, {"error": "the content has another digest"})
            return
        self.server.blobs[digest] = body
        self.answer(200, {})

    def _commit(self, words: dict[str, str], body: bytes) -> None:
        repository = self._find(words)
        if repository is None or not self._may_write():
            return
        head, *operations = [json.loads(line) for line in body.splitlines()]
        parent = head["value"].get("parentCommit")
        if parent and parent != repository.commits[-1][0]:
            self.answer(412, {"error": "A commit has happened since"})
            return
        files = dict(repository.commits[-1][1])
        for each in operations:
            value = each["value"]
            if each["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif value["oid"] in self.server.blobs:
                files[value["path"]] = self.server.blobs[value["oid"]]
            else:
                self.answer(400, {"error": f"{value['path']} was not uploaded"})
                return
        number = repository.commit(files, head["value"]["summary"])
        url = f"{self.server.url}/{words['name']}/commit/{number}"
        self.answer(200, {"success": True, "commitOid": number, "commitUrl": url})

    def _at(self, words: dict[str, str]) -> tuple[str, Files] | None:
        repository = self._find(words)
        if repository is None:
            return None
        found = repository.at(words.get("revision") or "main")
        if found is None:
            code = {"X-Error-Code": "RevisionNotFound"}
            self.answer(404, {"error": "Revision not found"}, code)
        return found

    def _info(self, words: dict[str, str], body: bytes) -> None:
        if (found := self._at(words)) is None:
            return
        number, files = found
        blobs = "blobs" in parse_qs(urlsplit(self.path).query)
        siblings = []
        for path, content in sorted(files.items()):
            entry = _entry(path, content)
            lfs = {"lfs": {**entry["lfs"], "sha256": entry["lfs"]["oid"]}} if "lfs" in entry else {}
            more = {"size": entry["size"], "blobId": entry["oid"], **lfs} if blobs else {}
            siblings.append({"rfilename": path, **more})
        kind = "datasets" if "/api/datasets/" in self.path else "models"
        readme = files.get("README.md", b"").decode()
        matter = yaml.safe_load(readme.split("---\n")[1]) if readme.startswith("---\n") else None
        document = {
            "_id": number[:24],
            "id": words["name"],
            "sha": number,
            "private": self.server.repositories[kind, words["name"]].private,
            "tags": [],
            "downloads": 0,
            "siblings": siblings,
            **({"cardData": matter} if matter else {}),
        }
        self.answer(200, document)

    def _tree(self, words: dict[str, str], body: bytes) -> None:
        words["revision"] = words["revision"].rstrip("/")
        if (found := self._at(words)) is not None:
            self.answer(200, [_entry(path, found[1][path]) for path in sorted(found[1])])

    def _resolve(self, words: dict[str, str], body: bytes) -> None:
        if (found := self._at(words)) is None:
            return
        number, files = found
        if words["file"] not in files:
            code = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": number}
            self.answer(404, {"error": "Entry not found"}, code)
            return
        content = files[words["file"]]
        entry = _entry(words["file"], content)
        etag = entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": number, "Accept-Ranges": "bytes"}
        self.answer(200, content, headers)


@contextmanager
def hub() -> Iterator[Hub]:
    """One that answers until the block ends."""
    with answering(Hub()) as server:
        yield server
