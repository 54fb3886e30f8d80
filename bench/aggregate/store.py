"""A whole aggregation from an S3 server on this machine, beside plain downloads of the same bytes.

OPENBLAS_NUM_THREADS=1 python bench/aggregate/store.py --adapters /tmp/adapters --counts 5,20 \\
    [--round 2] [--minio PROGRAM]

One BLAS thread, as the aggregator's Job sets it for itself: more of them wait for each other.

Plain downloads are boto's get_object, copied to files by as many threads, with no look at the
bytes. `--hashed` measures them once more with a bare sha256 of each piece: what verified downloads
can reach at most. Beside them, as many threads that call boto3's own `download_file`, as it comes
and with no threads inside each call. The aggregation checks, hashes, measures and merges the
updates, and stores the result. Server and aggregator share the machine's cores. In a first round it
makes the adapter that the round starts from; in a later one (`--round 2`) that is one more
download, here and there.

Memory is there for all of them alike: as much as the files need is held before, and given back a
file at a time as downloads begin. A virtual machine hands memory that nobody uses to its host after
one or two seconds, and the first touch of it afterwards takes longer than a download: who runs
longer would pay for that too.
"""

import argparse
import contextlib
import hashlib
import json
import os
import resource
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from adapters import RANK, folders
from boto3.s3.transfer import S3Transfer, TransferConfig

from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FileEntry, Member, UpdateManifest
from hansa.api.spec import S3
from hansa.core.logs import Log
from hansa.crypto import sealing
from hansa.local.objectstore import LocalStore
from hansa.local.ports import claim_ports
from hansa.store import s3 as s3module
from hansa.store.base import Credentials
from hansa.store.s3 import S3Store
from hansa.store.sealed import open_unsealing_store
from hansa_server.round import aggregate
from hansa_server.stream import PARALLEL

KEY = sealing.generate_opening_key()
"""That of the aggregator, where updates are sealed."""


@contextlib.contextmanager
def weed() -> Iterator[S3Store]:
    """The store that Hansa brings."""
    with TemporaryDirectory() as folder, LocalStore(Path(folder), ()) as local:
        yield local.store()


@contextlib.contextmanager
def minio(program: Path) -> Iterator[S3Store]:
    """MinIO on one folder."""
    own = Credentials(access_key="bench", secret_key=secrets.token_hex(20))
    block = claim_ports()
    address = f"127.0.0.1:{block.ports['s3.port']}"
    keys_ = {"MINIO_ROOT_USER": own.access_key, "MINIO_ROOT_PASSWORD": own.secret_key}
    with TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [program, "server", folder, "--address", address, "--quiet"],
            env={**os.environ, **keys_},
            stdout=subprocess.DEVNULL,
        )
        try:
            store = S3Store(S3(endpoint=f"http://{address}", bucket="bench"), credentials=own)
            store.ensure_bucket()
            yield store
        finally:
            server.terminate()
            server.wait()
            block.close()


def make_assignment(
    store: S3Store, count: int, number: int, round_: int, start: Path, strategy: dict[str, Any]
) -> Assignment:
    """An aggregator's assignment, without its members; a later round starts from that file."""
    before = {"round": round_ - 1, "sha256": bucket_documents.sha256(start.read_bytes())}
    return Assignment.model_validate(
        {
            "role": "aggregator",
            "federation": "bench",
            "seed": 7,
            "model": {"source": "builtin:tiny"},
            "adapter": {"rank": RANK, "alpha": 16},
            "round": round_,
            "start": before if round_ > 1 else {},
            "settings": {"aggregation": strategy},
            "storage": {**store.s3.to_json(), "prefix": f"k{count}-{number}"},
            "environments": [f"e{index:03d}" for index in range(count)],
        }
    )


def send(s3: S3Store, assignment: Assignment, environment: str, folder: Path) -> Member:
    """An update as a client commits it."""
    place = bucket_keys.update_folder(assignment.storage.prefix, environment, assignment.round)
    data, sealed_to = (
        (folder / bucket_keys.ADAPTER).read_bytes(),
        assignment.settings.aggregation.seal_to,
    )
    if sealed_to:
        sealed = sealing.seal(sealed_to, place + bucket_keys.ADAPTER, data)
        s3.put_if_absent(place + bucket_keys.ADAPTER, sealed)
    else:
        s3.upload_if_absent(place + bucket_keys.ADAPTER, folder / bucket_keys.ADAPTER)
    changes = {"role": "client", "environment": environment, "world": "maze"}
    inputs = assignment.model_copy(update=changes).inputs()
    document = UpdateManifest(
        program="bench",
        environment=environment,
        round=assignment.round,
        fingerprint=bucket_documents.fingerprint(inputs),
        inputs=inputs,
        base_model="b" * 64,
        start=assignment.start,
        sealed_to=sealed_to,
        trained=True,
        files={
            bucket_keys.ADAPTER: FileEntry(sha256=bucket_documents.sha256(data), size=len(data))
        },
    )
    text = bucket_documents.canonical(document.to_json())
    s3.put_if_absent(place + bucket_keys.MANIFEST, text)
    return Member(environment=environment, manifest=bucket_documents.sha256(text))


class Memory:
    """What a measurement will fill, held in the page cache and given back as it is needed."""

    def __init__(self, size: int) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115  # held as long as this object
        self._left = size
        self._lock = threading.Lock()
        for _ in range(0, size, 2**20):
            self._file.write(bytes(2**20))

    def give(self, size: int) -> None:
        """So much is about to be filled."""
        with self._lock:
            self._left = max(0, self._left - size)
            self._file.truncate(self._left)


class Giving(S3Store):
    """The store as the aggregator sees it; a download finds the memory that its file needs."""

    def __init__(self, store: S3Store, memory: Memory) -> None:
        super().__init__(store.s3, credentials=store._credentials)
        self._memory = memory
        self._client()  # made before the clock runs, as that of the plain downloads is

    def download(self, key: str, path: Path | None, size: int, *given: Any) -> str:
        self._memory.give(size)
        return super().download(key, path, size, *given)


def files(assignment: Assignment) -> list[str]:
    """Keys of all adapters that the aggregation reads, the start's first."""
    prefix, start = assignment.storage.prefix, assignment.start.round
    updates = [
        bucket_keys.update_folder(prefix, e, assignment.round) for e in assignment.environments
    ]
    folders = [bucket_keys.global_folder(prefix, start), *updates] if start else updates
    return [folder + bucket_keys.ADAPTER for folder in folders]


def plain(s3: S3Store, key: str, path: Path, hashed: bool = False) -> None:
    """Copy an object to a file, and nothing else, or a sha256 and nothing else."""
    body = s3._client().get_object(Bucket=s3.s3.bucket, Key=key)["Body"]
    digest = hashlib.sha256()
    with path.open("wb", buffering=0) as file:
        for chunk in body.iter_chunks(2**19):
            if hashed:
                digest.update(chunk)
            file.write(chunk)


def boto3(s3: S3Store, key: str, path: Path, use_threads: bool = True) -> None:
    """What `client.download_file` does: ranges of 8 MB, by ten threads of its own if it may."""
    config: Any = TransferConfig(use_threads=use_threads)  # boto3 names another type than it takes
    with S3Transfer(s3._client(), config) as transfer:
        transfer.download_file(s3.s3.bucket, key, str(path))


def seconds(s3: S3Store, wanted: list[str], size: int, copy: Callable[..., None]) -> float:
    """How long it takes to copy those objects to files, several at a time."""
    memory = Memory(size * len(wanted))

    def work(key: str) -> None:
        memory.give(size)
        copy(s3, key, Path(made) / key.replace("/", "-"))

    with TemporaryDirectory() as made, ThreadPoolExecutor(PARALLEL) as pool:
        began = time.perf_counter()
        list(pool.map(work, wanted))
        return time.perf_counter() - began


def measure(
    s3: S3Store,
    given: list[Path],
    number: int,
    round_: int,
    strategy: dict[str, Any],
    hashed: bool,
) -> Any:
    start = given[-1] / bucket_keys.ADAPTER
    assignment = make_assignment(s3, len(given), number, round_, start, strategy)
    pairs = zip(assignment.environments, given, strict=True)
    members = [send(s3, assignment, environment, folder) for environment, folder in pairs]
    assignment = assignment.model_copy(update={"members": members})
    one = (given[0] / bucket_keys.ADAPTER).stat().st_size
    wanted = files(assignment)
    if assignment.start.round:
        s3.upload_if_absent(wanted[0], start)
    size = one * len(wanted)
    own = one if assignment.start.round else 2 * one  # the result, and a start that is made
    first = seconds(s3, wanted, one, plain)
    memory = Memory(size + own)
    store = open_unsealing_store(Giving(s3, memory), assignment, lambda: [KEY])
    memory.give(own)
    began = time.perf_counter()
    report = aggregate(assignment, store, Log("server"))
    whole = time.perf_counter() - began
    download = min(first, seconds(s3, wanted, one, plain))
    bare = seconds(s3, wanted, one, partial(plain, hashed=True)) if hashed else None
    peer = seconds(s3, wanted, one, boto3)
    calm = seconds(s3, wanted, one, partial(boto3, use_threads=False))
    read = report.seconds["read"]
    return {
        "count": len(given),
        "round": assignment.round,
        "strategy": strategy,
        "plainSeconds": download,
        "plainMBps": size / 1e6 / download,
        "seconds": whole,
        "MBps": size / 1e6 / whole,
        "phases": report.seconds,
        "shareRead": download / read,
        "shareHashed": download / bare if bare else None,
        "share": download / whole,
        "boto3": {"seconds": peer, "shareRead": peer / read, "share": peer / whole},
        "boto3NoThreads": {"seconds": calm, "shareRead": calm / read, "share": calm / whole},
        "peakMB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapters", type=Path, required=True)
    parser.add_argument("--counts", default="5")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--round", type=int, default=1, help="2: the start adapter is stored too.")
    parser.add_argument("--strategy", default="mean")
    parser.add_argument("--diagnostics", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--hashed", action="store_true", help="A bare sha256 too: the ceiling.")
    parser.add_argument("--sealed", action="store_true", help="Updates are sealed.")
    parser.add_argument("--minio", type=Path, help="MinIO's program; without: SeaweedFS.")
    given = parser.parse_args()
    strategy = {"strategy": given.strategy, "diagnostics": given.diagnostics}
    strategy |= {"sealTo": KEY.public} if given.sealed else {}
    s3module.CONNECTIONS = 10 * PARALLEL  # boto3 opens ten for each file, and should keep them
    with minio(given.minio) if given.minio else weed() as store:
        for number, count in enumerate(map(int, given.counts.split(","))):
            paths = list(folders(given.adapters, count, given.layers))
            found = measure(store, paths, number, given.round, strategy, given.hashed)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
