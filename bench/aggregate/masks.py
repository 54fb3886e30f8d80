"""What secure aggregation costs beside a plain one: a silo's masks, and the aggregator's sum.

OPENBLAS_NUM_THREADS=1 python bench/aggregate/masks.py --counts 5,20,100

A silo of an adapter of 80 MB masks it for so many silos, as a client does before it sends; beside
that, the sha256 that every update needs. The aggregator adds as many bodies up and writes the one
update they stand for; bodies are on its disk then, and copying them there is not measured. Seconds
of the processor stand beside those of the clock, for a machine that others use, too.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from adapters import RANK, shapes

from hansa.adapter import lora, masking
from hansa.adapter.tensor_file import TensorWriter, arrange
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts, FileEntry, Member, UpdateManifest
from hansa.crypto import sealing
from hansa.store.audit_log import QuietLog
from hansa.store.base import Watch
from hansa_server.gate import OfferedUpdate
from hansa_server.masked import MaskedMembers
from hansa_server.merge_input import Update


class Copies:
    """A store of one object under every key, of which a download is a copy."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = bucket_documents.sha256(path.read_bytes())

    def download(self, key: str, path: Path | None, size: int, watch: Watch | None = None) -> str:
        assert path
        shutil.copyfile(self._path, path)
        return self._digest

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def assignment(silos: int, layers: int) -> tuple[Assignment, dict[str, sealing.OpeningKey]]:
    """A round of so many silos, and their keys."""
    opening = {f"s{number:03d}": sealing.generate_opening_key() for number in range(silos)}
    document = {
        "role": "client",
        "federation": "bench",
        "seed": 1,
        "model": {},
        "adapter": {"rank": RANK},
        "round": 1,
        "start": {},
        "settings": {"aggregation": {"secure": {}}},
        "storage": {"bucket": "bench", "prefix": f"layers-{layers}"},
        "environments": sorted(opening),
        "environment": "s000",
        "masking": {"peers": {name: key.public for name, key in opening.items()}},
    }
    return Assignment.model_validate_json(json.dumps(document)), opening


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What comes of some work, and the seconds it took by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    made = work()
    took = time.perf_counter() - clock, time.process_time() - processor
    return made, {"clock": round(took[0], 2), "processor": round(took[1], 2)}


def summed(assignment: Assignment, body: Path, start: Path, size: int) -> dict[str, float]:
    """The aggregator's part, of bodies of zeros: a sum does not look at its numbers."""
    counts = Counts()
    entry = FileEntry(sha256=bucket_documents.sha256(body.read_bytes()), size=size)
    member = assignment.model_copy(update={"role": "aggregator"})
    members = MaskedMembers(Copies(body), member, QuietLog("bench"))
    inputs = assignment.inputs()
    document = UpdateManifest(
        program="bench",
        environment="s000",
        round=1,
        fingerprint=bucket_documents.fingerprint(inputs),
        inputs=inputs,
        base_model="b" * 64,
        start=assignment.start,
        trained=True,
        masked=masking.describe_masked(assignment, counts),
        files={bucket_keys.masked_body(0): entry},
    )
    for name in assignment.environments:
        who = Member(environment=name, manifest="a" * 64)
        members.offers[name] = OfferedUpdate(
            member=who, manifest=document, file=bucket_keys.masked_body(0)
        )
    took: dict[str, float] = {}
    add = members._add_up

    def timed_add(*given: Any) -> Update:
        made, seconds = timed(lambda: add(*given))
        took.update(seconds)
        assert isinstance(made, Update)
        return made

    setattr(members, "_add_up", timed_add)  # noqa: B010  # what stands around it is not measured
    with lora.open_file(start) as begin, TemporaryDirectory(dir=body.parent) as folder:
        members.fetch(begin.shapes, lambda: (begin, None), Path(folder))
        members.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", default="5,20,100")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    sizes = shapes(options.layers)
    start = lora.init_adapter(sizes, RANK, 1)
    random = np.random.default_rng(7)
    own = {
        name: array + np.float32(1e-4) * random.standard_normal(array.shape, np.float32)
        for name, array in start.items()
    }
    norm, head = lora.distance(own, start), arrange(sizes)[0]
    with TemporaryDirectory(dir=options.folder) as folder:
        zeros, begin = Path(folder) / "zeros", Path(folder) / "start"
        zeros.write_bytes(head + bytes(4 * masking.count_values(sizes, sorted(sizes))))
        with TensorWriter(begin, sizes) as writer:
            for name, array in start.items():
                writer.write(name, array)
        for silos in map(int, options.counts.split(",")):
            client_assignment, opening = assignment(silos, options.layers)
            key = opening["s000"]
            given = (client_assignment, key, own, start, norm, Counts())
            body, masks = timed(lambda given=given: masking.mask_update(*given))  # type: ignore[misc]
            _, hashing = timed(lambda body=body: bucket_documents.sha256(body))  # type: ignore[misc]
            total = summed(client_assignment, zeros, begin, zeros.stat().st_size)
            megabytes = round(len(body) / 1e6, 1)
            print(json.dumps({"silos": silos, "MB": megabytes, "client": masks, "sha256": hashing}))
            print(json.dumps({"silos": silos, "aggregator": total}), flush=True)


if __name__ == "__main__":
    main()
