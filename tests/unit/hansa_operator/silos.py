"""A silo on a cluster that is a dictionary: what the API server keeps, and in which order."""

from typing import Any

from hansa.api import constants
from hansa.api.exchange import Cursor
from hansa.api.letters import Reference
from hansa.api.member_status import FederationMember
from hansa.api.reports import AnyReport, encode_report
from hansa.api.silo_assignment import NewestOrder, SiloReport
from hansa.api.spec import Metadata
from hansa.kubernetes.client import ApiError
from hansa_operator.children import Children
from hansa_operator.index import Index, Key
from hansa_operator.metrics import MetricsRecorder
from hansa_operator.publish import Publisher
from hansa_operator.reconcile import Reconciler
from hansa_operator.settings import Settings
from tests.support.builders import NOW
from tests.support.members import member
from tests.unit.hansa_operator.objects import CREATED, UID, terminated

KEY = Key("clinic", "five", constants.MEMBER_KIND)
EXCHANGE = {
    "endpoint": "https://store.example",
    "bucket": "shared",
    "prefix": "five",
    "credentialsSecret": {"name": "exchange"},
    "caSecret": {"name": "exchange-tls", "key": "ca.crt"},
}
PRIVATE = {
    "endpoint": "https://store.clinic",
    "bucket": "private",
    "credentialsSecret": {"name": "private"},
    "caSecret": {"name": "private-tls", "key": "ca.crt"},
}


def make_silo(**spec: Any) -> FederationMember:
    """A silo as a cluster has it."""
    given = {
        "storage": {"s3": EXCHANGE},
        "experienceStorage": {"s3": PRIVATE},
        "signingSecret": {"name": "hansa-signing"},
        "pollSeconds": 2,
        **spec,
    }
    metadata = Metadata(name="five", namespace="clinic", uid=UID)
    return FederationMember(metadata=metadata, spec=member(**given))


class Died(Exception):
    """The operator was killed."""


class Clinic:
    """One silo in one namespace; `turn` is an operator that makes passes until nothing is left."""

    def __init__(self, silo: FederationMember | None = None) -> None:
        self.member = (silo or make_silo()).to_json()
        self.member["metadata"] |= {"resourceVersion": "1", "generation": 1}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.made: list[str] = []
        self.dies_after: int | None = None
        self.recorder = MetricsRecorder()

    # -- the API server -------------------------------------------------------------------------

    def list(self, path: str, **how: Any) -> dict[str, Any]:
        kinds = {"jobs": self.jobs, "pods": self.pods, "events": {}}
        if path.endswith("/federationmembers"):
            return {"items": [self.member]}
        selector = how.get("labelSelector")
        assert selector is None or selector == "hansa.dev/member=five"
        return {"items": [*kinds[path.rpartition("/")[2]].values()]}

    def create(self, path: str, body: dict[str, Any], **how: Any) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if path.endswith("/events"):
            self.events.append(body)
            return body
        if name in self.jobs:
            raise ApiError(409, "AlreadyExists", name)
        self._live(f"make {name}")
        made = {"uid": f"uid-{name}", "creationTimestamp": CREATED, "resourceVersion": "1"}
        self.jobs[name] = {**body, "metadata": {**body["metadata"], **made}, "status": {}}
        self.made.append(name)
        self._live("")
        return self.jobs[name]

    def replace(self, path: str, body: dict[str, Any], **how: Any) -> dict[str, Any]:
        assert path.endswith("/namespaces/clinic/federationmembers/five/status")
        self._live("status")
        version = str(int(self.member["metadata"]["resourceVersion"]) + 1)
        metadata = {**self.member["metadata"], "resourceVersion": version}
        self.member = {**self.member, "metadata": metadata, "status": body["status"]}
        self._live("")
        return self.member

    def delete(self, path: str, options: dict[str, Any]) -> None:
        name = path.rpartition("/")[2]
        self._live(f"delete {name}")
        self.jobs.pop(name)
        self.pods.pop(f"pod-{name}", None)

    def _live(self, call: str) -> None:
        """Each call has a moment before it and one after it in which the operator may die."""
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Died
        if call:
            self.calls.append(call)

    # -- the operator, and what happens meanwhile -------------------------------------------------

    def turn(self) -> "Clinic":
        """A new operator, which knows what it reads and nothing else."""
        index, settings = Index(), Settings()
        index.see_owner(constants.MEMBER_KIND, self.member)
        children = Children(self, index, settings)  # type: ignore[arg-type]
        publisher = Publisher(self, index, "operator")  # type: ignore[arg-type]
        reconciler = Reconciler(
            index, children, publisher, self.recorder, settings, clock=lambda: NOW
        )
        reconciler.reconcile(KEY, afresh=True)
        return self

    def end(self, name: str, code: int, message: str) -> "Clinic":
        """A Job's container has ended, with these last words."""
        job = self.jobs[name]
        kind = "Complete" if code == 0 else "Failed"
        job["status"] = {"conditions": [{"type": kind, "status": "True", "reason": "x"}]}
        container = job["spec"]["template"]["spec"]["containers"][0]["name"]
        self.pods[f"pod-{name}"] = {
            "metadata": {
                "name": f"pod-{name}",
                "namespace": "clinic",
                "uid": f"pod-{name}",
                "labels": job["metadata"]["labels"],
                "creationTimestamp": CREATED,
                "ownerReferences": [{"uid": job["metadata"]["uid"], "controller": True}],
            },
            "spec": {},
            "status": {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [{"name": container, "state": terminated(code, message)}],
            },
        }
        return self

    def report(self, name: str, report: AnyReport) -> "Clinic":
        """A Job has done its work."""
        return self.end(name, 0, encode_report(report).decode())

    def order(self, courier: str, **fields: Any) -> "Clinic":
        """The courier has posted what it had to, and has read the first order."""
        given = {"kind": "work", "role": "client", "round": 1, "episodes": 164, **fields}
        newest = NewestOrder(order=Reference(serial=1, digest="1" * 64), **given)
        head = Cursor(serial=1, digest="1" * 64)
        return self.report(courier, SiloReport(sent=head, posted=1, received=head, newest=newest))

    def condition(self, type_: str) -> dict[str, Any]:
        held = (self.member.get("status") or {}).get("conditions") or ()
        return next((c for c in held if c["type"] == type_), {})
