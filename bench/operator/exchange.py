"""What measurements of silos elsewhere share: a bucket that notes who asks for what, and when."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hansa.api.spec import FederationSpec
from hansa.crypto import dsse
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store import access_grants
from tests.support.faults import Fault, FaultyProxy, Request

RESULTS = Path(__file__).parents[2] / "runs/operator"
_KEY = re.compile(rb"Credential=([^/]+)/")
_LETTER = re.compile(r"/(orders|answers)/")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    at: float
    who: str
    method: str
    path: str

    @property
    def is_letter(self) -> bool:
        """Whether it reads or writes a letter."""
        return bool(_LETTER.search(self.path))


class Recorder(FaultyProxy):
    """A door to the bucket that notes every request with its signer's name."""

    def __init__(self, store: LocalStore) -> None:
        """Stand in front of a store that runs."""
        super().__init__(store.s3.endpoint or "")
        self.names = {pair.access_key: name for name, pair in store.credentials.items()}
        self.asked: list[Asked] = []

    def _due(self, request: Request) -> Fault | None:
        signed = _KEY.search(request.head)
        who = self.names.get(signed[1].decode(), "") if signed else ""
        path = request.path.partition("?")[0]
        self.asked.append(Asked(at=time.time(), who=who, method=request.method, path=path))
        return super()._due(request)

    def between(self, start: float, end: float, who: str) -> list[Asked]:
        """What one party asked for in a span."""
        return [each for each in self.asked if each.who == who and start <= each.at < end]


class Bucket(LocalStore):
    """The store between the parties: each has what `hansa policy` prints for it, and no more."""

    spec: FederationSpec

    def _granted(self, name: str) -> list[access_grants.Grant]:
        if not hasattr(self, "spec"):
            return super()._granted(name)
        place = self.spec.storage.s3 if self.spec.storage else self.s3
        return access_grants.list_grants(self.spec, name, storage=place)

    def grant(self, spec: FederationSpec) -> None:
        """The same server, with the rights that a manifest gives."""
        self.spec = spec
        self._write_identities()
        self.restart()

    def write_credentials(self, file: Path, *names: str) -> Path:
        """A file for --credentials."""
        file.write_text(json.dumps({name: self.environ(name) for name in names or [RUNNER]}))
        return file


def counted(requests: list[Asked]) -> dict[str, int]:
    """Requests by method, of letters and of everything else."""
    kinds = (f"{'letters' if each.is_letter else 'data'} {each.method}" for each in requests)
    return dict(sorted(Counter(kinds).items()))


def hansa(*arguments: str | Path) -> str:
    """One command to its end; what it printed."""
    command = [sys.executable, "-m", "hansa.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"hansa {arguments[0]}: {done.stderr}")
    return done.stdout


def new_key(file: Path) -> str:
    """A signing key in a file; its public half."""
    key = dsse.generate_signing_key()
    file.write_bytes(key.pem())
    file.chmod(0o600)
    return key.public


def digests(folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """spec.model and spec.adapter with the digests that members need."""
    plain = write(folder / "plain.yaml", {**spec, "environments": [{"name": "a", "world": "maze"}]})
    found: dict[str, Any] = json.loads(hansa("model", "-f", plain, "-o", "json"))
    return found


def write(file: Path, spec: dict[str, Any], name: str = "bench") -> Path:
    """A Federation's manifest."""
    document = {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": name},
        "spec": spec,
    }
    file.write_text(yaml.safe_dump(document))
    return file


def started(*arguments: str | Path, log: Path) -> "subprocess.Popen[bytes]":
    """A command of hansa that continues."""
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "hansa.cli.main", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End it, and wait."""
    process.terminate()
    process.wait(60)


def rounds(out: Path) -> list[tuple[int, float, float]]:
    """Number, opening and closing of each round of a coordinator's folder."""
    history = json.loads((out / "federation.json").read_text())["status"]["history"]
    return [
        (each["round"], _seconds(each["openedAt"]), _seconds(each["closedAt"]))
        for each in history
        if each["outcome"] == "aggregated"
    ]


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def keep(name: str, data: dict[str, Any]) -> None:
    """Print what was measured, and leave it in a file."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": [round(each, 1) for each in os.getloadavg()],
        **data,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept, indent=1))
