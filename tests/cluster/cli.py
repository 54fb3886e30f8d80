"""The command line on a cluster as tests use it: typed words in, exit code and text out."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from hansa.api import constants
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.status import Federation
from hansa.kubernetes import paths
from hansa.kubernetes.client import Kube, connect
from hansa.plan.federation import plan
from tests.cluster.kube import PATIENCE_SECONDS, PROBE, Cluster, Manifest
from tests.support.builders import make_job as observed

NAME = "two-worlds"
BASE: Manifest = {
    "apiVersion": "hansa.dev/v1alpha1",
    "kind": "Federation",
    "metadata": {"name": NAME},
    "spec": {
        "rounds": 2,
        "storage": {"s3": {"bucket": "hansa", "prefix": NAME}},
        "environments": [
            {"name": "maze", "world": "maze"},
            {"name": "wordle", "world": "wordle"},
        ],
    },
}


def manifest(**spec: Any) -> Manifest:
    """A Federation of two worlds with these fields of its spec."""
    document = deepcopy(BASE)
    document["spec"] |= spec
    return document


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


WITHOUT_CLUSTER = ("keys", "model")
"""Commands of the page that ask no cluster."""


@dataclass(kw_only=True)
class Typist:
    """Types `hansa ...` in one namespace of a cluster."""

    cluster: Cluster
    kubeconfig: str
    folder: Path

    @cached_property
    def kube(self) -> Kube:
        """The cluster as the tests themselves speak to it."""
        return connect(self.kubeconfig)

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "hansa.cli.main", *words]

    def environment(self, **more: str) -> dict[str, str]:
        known = {"KUBECONFIG": self.kubeconfig, "COLUMNS": "200", "TZ": "UTC"}
        return {**os.environ, **known, **more}

    def hansa(self, *words: str, stdin: str = "", **variables: str) -> Ended:
        """Run a command to its end, in the test's namespace where it knows of such."""
        place = () if words[0] in WITHOUT_CLUSTER else ("-n", self.cluster.namespace)
        done = subprocess.run(
            self.words(*words, *place),
            env=self.environment(**variables),
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr)

    def apply(self, document: Manifest, *words: str) -> Ended:
        """`hansa apply` of a manifest."""
        file = self.folder / "federation.yaml"
        file.write_text(yaml.safe_dump(document))
        return self.hansa("apply", "-f", str(file), *words)

    @contextmanager
    def start(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """A command that continues while the test does something; ended with the test."""
        process = subprocess.Popen(
            self.words(*words, "-n", self.cluster.namespace),
            env=self.environment(PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def get(self, name: str = NAME) -> Manifest:
        return self.kube.get(paths.federations(self.cluster.namespace, name))

    def own(self, job: Manifest) -> Manifest:
        """The Job as a child of the federation, which goes with it."""
        owner = self.get()
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
        return {**job, "metadata": {**job["metadata"], "ownerReferences": [reference]}}

    def write_status(self, status: dict[str, Any], name: str = NAME) -> None:
        """Be the operator: store a status of the newest spec."""
        found = self.get(name)
        status = {**status, "observedGeneration": found["metadata"]["generation"]}
        path = paths.federations(self.cluster.namespace, name, "status")
        self.kube.replace(path, {**found, "status": status})

    def advance(self, seen: dict[str, str], passes: int = 6) -> dict[str, Any]:
        """Be the operator for some passes, each environment's Jobs in that state; the status."""
        jobs: dict[str, ObservedJob] = {}
        for _ in range(passes):
            turn = plan(Federation.model_validate(self.get()), list(jobs.values()), _now())
            for request in turn.create:
                jobs[request.name] = _observed(request, seen)
            for name in turn.delete:
                jobs.pop(name, None)
            self.write_status(turn.status.to_json())
        return dict(self.get()["status"])

    def finish(self) -> None:
        """Be the operator until all rounds are done."""
        for _ in range(20):
            if self.advance({}, passes=4)["phase"] == "Succeeded":
                return
        raise AssertionError("the plan does not end")


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _observed(request: JobRequest, seen: dict[str, str]) -> ObservedJob:
    state = seen.get(request.environment or "aggregator", "succeeded")
    failed = {"exit_code": 42, "message": "no such world"} if state == "failed" else {}
    started = {"started_at": _now()} if state != "starting" else {}
    return observed(request, state, created_at=_now(), **started, **failed)


def labels(environment: str, round_: int = 1, attempt: int = 1) -> dict[str, str]:
    role = "aggregator" if environment == "aggregator" else "client"
    return {
        constants.LABEL_FEDERATION: NAME,
        constants.LABEL_ROLE: role,
        constants.LABEL_ROUND: str(round_),
        constants.LABEL_ATTEMPT: str(attempt),
        **({constants.LABEL_ENVIRONMENT: environment} if role == "client" else {}),
    }


def make_job(name: str, labels: dict[str, str], *args: str) -> Manifest:
    """A Job as the operator makes it, whose program is the probe."""
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "client",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "args": list(args),
        "securityContext": restricted,
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
