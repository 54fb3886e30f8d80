"""A whole aggregation from an S3 server on this machine, beside plain downloads of the same bytes.

python bench/aggregate/store.py --adapters /tmp/adapters --counts 5,20 [--strategy mean]

Plain downloads are boto's get_object, copied to files by as many threads, with no look at the
bytes. The aggregation checks, hashes, measures and merges them, and stores the result. Server and
aggregator share the machine's cores.
"""

import argparse
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adapters import RANK, folders

from hansa import keys, manifest
from hansa.assignment import Assignment
from hansa.local.objectstore import LocalStore
from hansa.logs import Log
from hansa.manifest import FileEntry, Member, UpdateManifest
from hansa.store.s3 import S3Store
from hansa_server.round import aggregate
from hansa_server.stream import PARALLEL


def told(store: LocalStore, count: int, number: int, strategy: dict[str, Any]) -> Assignment:
    """An aggregator's assignment, without its members."""
    return Assignment.model_validate(
        {
            "role": "aggregator",
            "federation": "bench",
            "seed": 7,
            "model": {"source": "builtin:tiny"},
            "adapter": {"rank": RANK, "alpha": 16},
            "round": 1,
            "start": {},
            "settings": {"aggregation": strategy},
            "storage": {**store.s3.to_json(), "prefix": f"k{count}-{number}"},
            "environments": [f"e{index:03d}" for index in range(count)],
        }
    )


def send(s3: S3Store, assignment: Assignment, environment: str, folder: Path) -> Member:
    """An update as a client commits it."""
    place = keys.update_folder(assignment.storage.prefix, environment, 1)
    s3.upload_if_absent(place + keys.ADAPTER, folder / keys.ADAPTER)
    data = (folder / keys.ADAPTER).read_bytes()
    changes = {"role": "client", "environment": environment, "world": "maze"}
    inputs = assignment.model_copy(update=changes).inputs()
    document = UpdateManifest(
        program="bench",
        environment=environment,
        round=1,
        fingerprint=manifest.fingerprint(inputs),
        inputs=inputs,
        base_model="b" * 64,
        start=assignment.start,
        trained=True,
        files={keys.ADAPTER: FileEntry(sha256=manifest.sha256(data), size=len(data))},
    )
    text = manifest.canonical(document.to_json())
    s3.put_if_absent(place + keys.MANIFEST, text)
    return Member(environment=environment, manifest=manifest.sha256(text))


def plain(s3: S3Store, assignment: Assignment) -> float:
    """Seconds to copy all updates to files, and nothing else."""
    client = s3._client()

    def copy(environment: str) -> None:
        key = keys.update_folder(assignment.storage.prefix, environment, 1) + keys.ADAPTER
        body = client.get_object(Bucket=s3.s3.bucket, Key=key)["Body"]
        with (Path(made) / environment).open("wb") as file:
            for chunk in body.iter_chunks(2**20):
                file.write(chunk)

    with TemporaryDirectory() as made, ThreadPoolExecutor(PARALLEL) as pool:
        began = time.perf_counter()
        list(pool.map(copy, assignment.environments))
        return time.perf_counter() - began


def measure(store: LocalStore, given: list[Path], number: int, strategy: dict[str, Any]) -> Any:
    s3 = store.store()
    assignment = told(store, len(given), number, strategy)
    pairs = zip(assignment.environments, given, strict=True)
    members = [send(s3, assignment, environment, folder) for environment, folder in pairs]
    assignment = assignment.model_copy(update={"members": members})
    first = plain(s3, assignment)
    began = time.perf_counter()
    report = aggregate(assignment, s3, Log("server"))
    seconds = time.perf_counter() - began
    again = plain(s3, assignment)
    size = sum((folder / keys.ADAPTER).stat().st_size for folder in given)
    download = min(first, again)
    return {
        "count": len(given),
        "strategy": strategy,
        "plainSeconds": download,
        "plainMBps": size / 1e6 / download,
        "seconds": seconds,
        "MBps": size / 1e6 / seconds,
        "phases": report.seconds,
        "shareRead": download / report.seconds["read"],
        "share": download / seconds,
        "peakMB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapters", type=Path, required=True)
    parser.add_argument("--counts", default="5")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--strategy", default="mean")
    parser.add_argument("--diagnostics", action="store_true")
    given = parser.parse_args()
    strategy = {"strategy": given.strategy, "diagnostics": given.diagnostics}
    with TemporaryDirectory() as folder, LocalStore(Path(folder), (), prefix="") as store:
        for number, count in enumerate(map(int, given.counts.split(","))):
            paths = list(folders(given.adapters, count, given.layers))
            print(json.dumps(measure(store, paths, number, strategy)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
