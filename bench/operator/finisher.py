"""Plays all kubelets of a cluster: a pending Pod of Hansa runs for a while and ends with a report.

    python bench/operator/finisher.py --kubeconfig FILE --least 5 --most 10

Nothing is computed. A Pod's assignment says which report its program would have written, and that
goes where a kubelet puts it: into the Pod's status, once as running and once as ended.
"""

import argparse
import heapq
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from hansa.api import constants
from hansa.api.assignment import (
    ENV_ASSIGNMENT,
    AggregatorReport,
    Assignment,
    ClientReport,
    EvaluateReport,
    EvaluationReport,
    decode_assignment,
)
from hansa.api.bucket_documents import Counts
from hansa.api.reports import encode_report
from hansa.kubernetes.client import ApiError, Kube, connect

RUNNING, ENDED = "running", "ended"
"""Field managers of the two writes: the audit log shows which one a request was."""
THREADS = 8
Data = dict[str, Any]


class Finisher:
    """Pods that wait for their moment, in order of it."""

    def __init__(self, kube: Kube, least: float, most: float, aggregator: float) -> None:
        self._kube = kube
        self._span = (least, most)
        self._aggregator = aggregator
        self._due: list[tuple[float, str, Data]] = []
        self._known: set[str] = set()
        self._lock = threading.Condition()
        self._random = random.Random(7)

    def run(self) -> None:
        """Watch and finish until the process ends."""
        threading.Thread(target=self._finish, daemon=True).start()
        while True:
            listed = self._kube.list("/api/v1/pods", labelSelector=constants.LABEL_FEDERATION)
            for pod in listed["items"]:
                self.see(pod)
            version = listed["metadata"]["resourceVersion"]
            try:
                for event in self._kube.watch(
                    "/api/v1/pods",
                    resource_version=version,
                    labelSelector=constants.LABEL_FEDERATION,
                ):
                    if event["type"] == "ADDED":
                        self.see(event["object"])
            except ApiError as error:
                print(f"watch: {error.message}", flush=True)
                time.sleep(0.5)

    def see(self, pod: Data) -> None:
        """Start a new Pod, and end it after its while."""
        with self._lock:
            uid = pod["metadata"]["uid"]
            if uid in self._known or pod["status"].get("phase") != "Pending":
                return
            self._known.add(uid)
            now = time.monotonic()
            role = pod["metadata"]["labels"][constants.LABEL_ROLE]
            work = self._aggregator if role == "aggregator" else self._random.uniform(*self._span)
            heapq.heappush(self._due, (now + 0.2, f"{uid}{RUNNING}", pod))
            heapq.heappush(self._due, (now + 0.2 + work, f"{uid}{ENDED}", pod))
            self._lock.notify()

    def _finish(self) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            while True:
                with self._lock:
                    while not self._due or self._due[0][0] > time.monotonic():
                        wait = self._due[0][0] - time.monotonic() if self._due else None
                        self._lock.wait(wait)
                    _, name, pod = heapq.heappop(self._due)
                pool.submit(self._write, pod, RUNNING if name.endswith(RUNNING) else ENDED)

    def _write(self, pod: Data, moment: str) -> None:
        where = pod["metadata"]
        path = f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}/status"
        try:
            self._kube.patch(path, {"status": status(pod, moment)}, fieldManager=moment)
        except ApiError as error:
            if not error.is_not_found:
                print(f"{where['name']}: {error.message}", flush=True)


def status(pod: Data, moment: str) -> Data:
    """What a kubelet would write."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    container = pod["spec"]["containers"][0]
    common = {"name": container["name"], "image": container["image"], "imageID": ""}
    if moment == RUNNING:
        fields = {**common, "ready": True, "started": True, "restartCount": 0}
        fields["state"] = {"running": {"startedAt": now}}
        return {"phase": "Running", "startTime": now, "containerStatuses": [fields]}
    fields = {**common, "ready": False, "started": False, "restartCount": 0}
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    fields["state"] = {"running": None, "terminated": {**ended, "message": report(container)}}
    return {"phase": "Succeeded", "containerStatuses": [fields]}


def report(container: Data) -> str:
    """The report of a program that did all it was told."""
    text = next(each["value"] for each in container["env"] if each["name"] == ENV_ASSIGNMENT)
    return encode_report(answer(decode_assignment(text))).decode()


def answer(assignment: Assignment) -> ClientReport | EvaluateReport | AggregatorReport:
    """What the program of this assignment would answer."""
    digest = sha256(
        f"{assignment.federation}/{assignment.round}/{assignment.environment}".encode()
    ).hexdigest()
    if assignment.role == "aggregator":
        return AggregatorReport(
            round=assignment.round,
            manifest=digest,
            adapter=digest,
            bytes=200_000,
            members=[
                assignment.environments.index(member.environment) for member in assignment.members
            ],
            seconds={"read": 0.4, "aggregate": 0.1, "write": 0.1},
        )
    index = assignment.environments.index(assignment.environment)
    measured = EvaluationReport(round=assignment.start.round, episodes=100, successes=60)
    if assignment.role == "evaluate":
        return EvaluateReport(environment=index, evaluation=measured, seconds={"evaluate": 3.0})
    return ClientReport(
        environment=index,
        round=assignment.round,
        trained=True,
        manifest=digest,
        counts=Counts(explored=64, succeeded=40, experience=104, kept=80, steps=20, tokens=9000),
        evaluation=measured if assignment.evaluate else None,
        norm=1.5,
        bytes=200_000,
        seconds={"load": 1.0, "evaluate": 2.0, "explore": 4.0, "train": 6.0, "send": 0.1},
    )


def main() -> None:
    """Finish Pods until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--least", type=float, default=5.0, help="seconds of a client at least")
    parser.add_argument("--most", type=float, default=10.0, help="seconds of a client at most")
    parser.add_argument("--aggregator", type=float, default=1.0, help="seconds of an aggregator")
    given = parser.parse_args()
    kube = connect(given.kubeconfig, pool_size=THREADS + 2)
    Finisher(kube, given.least, given.most, given.aggregator).run()


if __name__ == "__main__":
    main()
