"""One coordinator with many silos elsewhere: from the order to all answers, couriers, reports.

    python bench/operator/crowd.py --silos 20 --poll 2

The coordinator is `hansa run`, with its couriers and its aggregator. Silos are threads of this
process: each follows its orders by `follow()` and its own courier's code over a real store, with
its own keys. In place of a client an update of random tensors is sent at once, so that what is
left is the exchange itself.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from exchange import Bucket, Recorder, digests, keep, new_key, rounds, started, write

from hansa.adapter import lora as adapter
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment, ClientReport, EvaluateReport, EvaluationReport
from hansa.api.bucket_documents import Counts, EvaluationDocument, canonical, fingerprint
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.member_spec import MemberObject
from hansa.api.member_status import FederationMember
from hansa.api.silo_assignment import SiloClientAssignment, SiloCourierAssignment
from hansa.api.spec import FederationSpec
from hansa.manifests.load import load
from hansa.members import silo_courier
from hansa.members.courier import load_key
from hansa.members.invitation import build_member_manifest, invite, open_invitation
from hansa.members.order import build_assignment
from hansa.plan.member_plan import follow
from hansa.store.access_grants import AGGREGATOR
from hansa.store.base import ObjectStore, put_once
from hansa.store.s3 import S3Store
from hansa.version import __version__
from hansa_client import send
from hansa_client.models import base_model, lora
from tests.support.small import SPEC

NAME = "bench"
Shapes = Mapping[str, tuple[int, ...]]


class Stopped(Exception):
    """The measurement is over."""


class Silo(threading.Thread):
    """One silo elsewhere, whose client answers at once."""

    def __init__(
        self, member: MemberObject, key: Path, store: S3Store, shapes: Shapes, over: threading.Event
    ) -> None:
        """Nothing happens before start()."""
        super().__init__(daemon=True)
        self.silo = FederationMember(metadata=member.metadata, spec=member.spec)
        self.signer, self.store, self.shapes, self.over = load_key(str(key)), store, shapes, over
        self.jobs: dict[str, ObservedJob] = {}
        self.couriers = 0
        self.largest = 0
        self.failure = ""

    def run(self) -> None:
        """Follow orders until the measurement is over."""
        try:
            while not self.over.is_set():
                made = follow(self.silo, list(self.jobs.values()), datetime.now(UTC))
                self.silo = self.silo.model_copy(update={"status": made.status})
                for name in made.delete:
                    self.jobs.pop(name, None)
                for request in sorted(made.create, key=lambda each: each.role == "courier"):
                    self.jobs[request.name] = self._done(request)
        except Stopped:
            return
        except Exception as error:  # told by the main thread
            self.failure = f"{type(error).__name__}: {error}"
            self.over.set()

    def _done(self, request: JobRequest) -> ObservedJob:
        now = datetime.now(UTC)
        task: Any = request.assignment
        report: Any
        if isinstance(task, SiloCourierAssignment):
            report = silo_courier.carry(task, self.store, self.signer, sleep=self._sleep)
            self.couriers += 1
            self.largest = max(self.largest, len(report.model_dump_json(exclude_none=True)))
        else:
            report = self._answer(task)
        return ObservedJob(
            name=request.name,
            role=request.role,
            round=request.round,
            environment=request.environment,
            attempt=request.attempt,
            state="succeeded",
            created_at=now,
            started_at=now,
            report=report,
        )

    def _sleep(self, seconds: float) -> None:
        if self.over.wait(seconds):
            raise Stopped

    def _answer(self, work: SiloClientAssignment) -> ClientReport | EvaluateReport:
        order = build_assignment(work, self.store)
        index = order.environments.index(order.environment)
        evaluation = evaluated(self.store, order)
        if order.role == "evaluate":
            return EvaluateReport(environment=index, evaluation=evaluation)
        committed = trained(self.store, order, self.shapes)
        return ClientReport(
            environment=index,
            round=order.round,
            trained=True,
            manifest=committed.sha256,
            adapter=committed.adapter,
            counts=committed.manifest.counts,
            evaluation=evaluation if order.evaluate else None,
        )


def evaluated(store: ObjectStore, order: Assignment) -> EvaluationReport:
    """An evaluation that nobody has played."""
    inputs = order.inputs()
    document = EvaluationDocument(
        program=__version__,
        environment=order.environment,
        adapter=order.start,
        fingerprint=fingerprint(inputs),
        inputs=inputs,
        temperature=1.0,
        episodes=10,
        successes=5,
    )
    key = bucket_keys.evaluation(order.storage.prefix, order.environment, order.start.round)
    put_once(store, key, canonical(document.to_json()))
    return EvaluationReport(round=order.start.round, episodes=10, successes=5)


def trained(store: ObjectStore, order: Assignment, shapes: Shapes) -> send.Committed:
    """An update that nobody has trained."""
    noise = np.random.default_rng([order.round, order.environments.index(order.environment)])
    own = {
        name: (value + noise.normal(0, 1e-3, value.shape)).astype(np.float32)
        for name, value in start(store, order, shapes).items()
    }
    stored = send.store_adapter(store, order, own)
    config = send.store_config(store, order, stored)
    update = send.TrainedUpdate(
        base_model=order.model.sha256 or "",
        files=send.describe_files({bucket_keys.ADAPTER: stored, bucket_keys.CONFIG: config}),
        counts=Counts(explored=10, succeeded=5, experience=5),
        seconds={},
    )
    return send.commit(store, order, update)


def start(store: ObjectStore, order: Assignment, shapes: Shapes) -> adapter.Tensors:
    """The adapter that a round starts from, as a client finds it."""
    if not order.start.round:
        return adapter.init_adapter(shapes, order.adapter.rank, order.seed)
    folder = bucket_keys.global_folder(order.storage.prefix, order.start.round)
    return adapter.decode(store.get(folder + bucket_keys.ADAPTER))


def shapes_of(spec: FederationSpec) -> Shapes:
    """Shape of each of the adapter's tensors."""
    source = spec.model.source
    base = base_model.load(source, base_model.resolve(source, None), 1)
    return lora.shapes(base.model, spec.adapter)


def moments(recorder: Recorder, opened: float, closed: float) -> dict[str, float]:
    """When what happened in a round, in seconds after its opening."""
    mine = [each for each in recorder.asked if opened <= each.at < closed]
    find = partial(_times, mine, opened)
    orders, answers = find("PUT", "/orders/"), find("PUT", "/answers/")
    merging = [
        each.at - opened
        for each in mine
        if each.who == AGGREGATOR and "/updates/" in each.path and each.method == "GET"
    ]
    return {
        "first order posted": orders[0],
        "last order posted": orders[-1],
        "last answer posted": answers[-1],
        "all answers taken, aggregator reads": round(min(merging), 2),
        "closed": round(closed - opened, 2),
    }


def _times(requests: list[Any], start: float, method: str, part: str) -> list[float]:
    return sorted(
        round(each.at - start, 2)
        for each in requests
        if each.method == method and part in each.path
    )


def measure(folder: Path, names: list[str], poll: int, number: int) -> dict[str, Any]:
    """One run of a coordinator with all silos elsewhere."""
    own = {name: folder / f"{name}.key" for name in ("coordinator", *names)}
    public = {name: new_key(file) for name, file in own.items()}
    over = threading.Event()
    with Bucket(folder / "store", names, prefix=NAME) as bucket, Recorder(bucket) as recorder:
        place = {"endpoint": bucket.s3.endpoint, "bucket": bucket.s3.bucket, "prefix": NAME}
        spec = {
            **SPEC,
            **digests(folder, {**SPEC, "storage": {"s3": place}}),
            "rounds": number,
            "storage": {"s3": place},
            "exchange": {"publicKeys": [public["coordinator"]], "pollSeconds": poll},
            "environments": [
                {"name": name, "member": {"publicKeys": [public[name]]}} for name in names
            ],
        }
        manifest = write(folder / "federation.yaml", spec)
        bucket.grant(load(manifest, here=False).spec)
        place["endpoint"] = recorder.endpoint
        federation = load(write(manifest, spec), here=False)
        shapes = shapes_of(federation.spec)
        silos = []
        for name in names:
            invitation, _ = open_invitation(
                invite(federation, name, load_key(str(own["coordinator"]))), ""
            )
            wanted = build_member_manifest(invitation, public[name], "maze")
            wanted["spec"]["pollSeconds"] = poll
            member = MemberObject.model_validate(wanted)
            store = S3Store(member.spec.storage.s3, credentials=bucket.credentials[name])
            silos.append(Silo(member, own[name], store, shapes, over))
        found = together(folder, bucket, silos, own["coordinator"], over)
        found["rounds"] = [
            moments(recorder, opened_at, closed_at)
            for _, opened_at, closed_at in rounds(folder / "run")
        ]
    return found


def together(
    folder: Path, bucket: Bucket, silos: list[Silo], key: Path, over: threading.Event
) -> dict[str, Any]:
    """Let all of them play to the end."""
    credentials = bucket.write_credentials(folder / "keys.json", AGGREGATOR)
    coordinator = started(
        *("run", folder / "federation.yaml", "--out", folder / "run"),
        *("--credentials", credentials, "--signing-key", key),
        log=folder / "run.log",
    )
    began = time.monotonic()
    for silo in silos:
        silo.start()
    while coordinator.poll() is None and not over.is_set() and time.monotonic() - began < 500:
        time.sleep(0.2)
    over.set()
    if coordinator.poll() is None:
        coordinator.kill()
    failures = {silo.failure for silo in silos if silo.failure}
    if failures or coordinator.wait():
        sys.exit(f"{failures} {(folder / 'run.log').read_text()}")
    reports = [f.stat().st_size for f in folder.glob(f"run/jobs/{NAME}-mail-a*/report.json")]
    status = json.loads((folder / "run/federation.json").read_text())["status"]
    return {
        "coordinator's couriers, whole run": len(reports),
        "bytes of their reports": {
            "largest": max(reports),
            "mean": round(sum(reports) / len(reports)),
        },
        "bytes of status.members": len(json.dumps(status["members"])),
        "couriers of a silo, whole run": max(silo.couriers for silo in silos),
        "bytes of a silo's largest report": max(silo.largest for silo in silos),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--silos", type=int, default=20)
    parser.add_argument("--poll", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    names = [f"silo-{number:02d}" for number in range(given.silos)]
    with tempfile.TemporaryDirectory(prefix="hansa-crowd-") as name:
        found = measure(Path(name), names, given.poll, given.rounds)
    keep(f"crowd-{given.silos}-poll-{given.poll}", {"silos": given.silos, **found})


if __name__ == "__main__":
    main()
