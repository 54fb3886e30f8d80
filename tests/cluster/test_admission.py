"""The API server refuses what the operator must never make, and takes all that it makes.

No image is needed: Jobs are tried and not kept, in the name of an operator that does not run.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.charts import CHART, Data, helm
from tests.cluster.kube import Cluster

pytestmark = pytest.mark.slow

NAMESPACE = "test-admission"
RELEASE = "guarded"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-hansa-operator"
VALUES: Data = {
    "watch": {"namespaces": [NAMESPACE]},
    "crds": {"install": False},  # it is the whole cluster's
    "rbac": {"userRoles": False},
    "settings": {"allowedServiceAccounts": ["silo-*"], "allowedCsiDrivers": ["keys.example.com"]},
}
TEMPLATES = ("operator-role", "operator-admissionpolicy")
GOLDEN = Path(__file__).parents[1] / "unit" / "hansa_operator" / "golden"
MADE = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(GOLDEN.glob("*.yaml"))}
"""Jobs as the operator makes them, of small and of full federations."""

PERSON = "person"
OTHER: Data = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "others", "namespace": NAMESPACE},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PERSON}],
}
"""Somebody else who may make Jobs there."""

Change = Callable[[Data], None]


@pytest.fixture(scope="module")
def guarded(devkube: Cluster) -> Iterator[Cluster]:
    """A namespace in which an operator's ServiceAccount may make Jobs, bound by the policy."""
    own = replace(devkube, namespace=NAMESPACE)
    own.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    made = f"{objects()}\n---\n{json.dumps(OTHER)}"
    done = own.kubectl("apply", "-f", "-", stdin=made)
    assert done.returncode == 0, done.stderr
    own.until(lambda: refusals(own, {"any": changed(privileged)}), "the policy is in force")
    yield own
    own.kubectl("delete", "-f", "-", stdin=made)
    own.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def objects(**values: Any) -> str:
    """The operator's rights and its policy as the chart makes them."""
    given = {
        **VALUES,
        **values,
        "admissionPolicy": {"enabled": True, **values.get("admissionPolicy", {})},
    }
    shown = [part for name in TEMPLATES for part in ("--show-only", f"templates/{name}.yaml")]
    where = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE)
    made = helm(*where, *shown, values=given)
    assert made.returncode == 0, made.stderr
    return made.stdout


def refusals(cluster: Cluster, jobs: dict[str, Data], account: str = ACCOUNT) -> dict[str, str]:
    """What the API server has against Jobs of an account, by the names that they get here."""
    named = []
    for name, job in jobs.items():
        metadata = {**job["metadata"], "name": name, "namespace": cluster.namespace}
        named.append({**job, "metadata": metadata})
    listed = {"apiVersion": "v1", "kind": "List", "items": named}
    asked = ("create", f"--as={account}", "--dry-run=server", "-f", "-")
    done = cluster.kubectl(*asked, stdin=json.dumps(listed))
    taken = [name for name in jobs if f"job.batch/{name} created" in done.stdout]
    refused = {
        name: line for line in done.stderr.splitlines() for name in jobs if f'"{name}"' in line
    }
    assert {*taken, *refused} == set(jobs), done.stderr
    return refused


def changed(change: Change) -> Data:
    """The fullest Job of a client, with one thing that the operator would never do."""
    job = deepcopy(MADE["full-client"])
    change(job)
    return job


def pod(**fields: Any) -> Change:
    """Other fields of the Pod."""
    return lambda job: job["spec"]["template"]["spec"].update(fields)


def volume(**source: Any) -> Change:
    """One more volume."""
    added = {"name": "more", **source}
    return lambda job: job["spec"]["template"]["spec"]["volumes"].append(added)


def security(kind: str = "containers", **fields: Any) -> Change:
    """Another security context of the first container, or of the first sidecar."""
    return lambda job: job["spec"]["template"]["spec"][kind][0]["securityContext"].update(fields)


def everybody(**fields: Any) -> Change:
    """Another security context of the whole Pod."""
    return lambda job: job["spec"]["template"]["spec"]["securityContext"].update(fields)


def without_label(job: Data) -> None:
    del job["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/managed-by"]


def without_owner(job: Data) -> None:
    del job["metadata"]["ownerReferences"]


def without_token_rule(job: Data) -> None:
    del job["spec"]["template"]["spec"]["automountServiceAccountToken"]


def bare_sidecar(job: Data) -> None:
    del job["spec"]["template"]["spec"]["initContainers"][0]["securityContext"]


def host_port(job: Data) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    job["spec"]["template"]["spec"]["containers"][0]["ports"] = ports


def token(job: Data) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}]
    volume(projected={"sources": sources})(job)


privileged = security(privileged=True, allowPrivilegeEscalation=True)


unconfined = everybody(seccompProfile={"type": "Unconfined"})
sysctl = everybody(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "0"}])
one_more = security(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]})
of_a_sidecar = security("initContainers", capabilities={"add": ["SYS_ADMIN"]})

NEVER: dict[str, tuple[Change, str]] = {
    "nobodys": (without_owner, "belongs to a federation"),
    "without-label": (without_label, "by which NetworkPolicies find it"),
    "token-unsaid": (without_token_rule, "gets no token"),
    "token": (pod(automountServiceAccountToken=True), "gets no token"),
    "projected-token": (token, "and no token"),
    "account": (pod(serviceAccountName="admin"), "a ServiceAccount that"),
    "host-network": (pod(hostNetwork=True), "shares no namespace"),
    "host-processes": (pod(hostPID=True), "shares no namespace"),
    "host-ipc": (pod(hostIPC=True), "shares no namespace"),
    "node": (pod(nodeName="any"), "the scheduler chooses"),
    "host-path": (volume(hostPath={"path": "/"}), "its volumes are"),
    "nfs": (volume(nfs={"server": "a", "path": "/"}), "its volumes are"),
    "csi-driver": (volume(csi={"driver": "other.example.com"}), "CSI"),
    "root": (everybody(runAsNonRoot=False), "its Pod runs as"),
    "user-0": (everybody(runAsUser=0), "its Pod runs as"),
    "unconfined": (unconfined, "seccomp"),
    "sysctl": (sysctl, "without sysctls"),
    "no-security-context": (pod(securityContext=None), "its Pod runs as"),
    "container-as-root": (security(runAsUser=0), "all its containers run as"),
    "privileged": (privileged, "never gain privileges"),
    "escalation": (security(allowPrivilegeEscalation=True), "never gain privileges"),
    "capability": (one_more, "add none"),
    "kept-capabilities": (security(capabilities={}), "drop all capabilities"),
    "capability-of-a-sidecar": (of_a_sidecar, "drop all capabilities"),
    "bare-sidecar": (bare_sidecar, "drop all capabilities"),
    "host-port": (host_port, "no port of a node"),
}
"""What no operator makes, with words of the rule that is in its way."""


@pytest.fixture(scope="module")
def refused(guarded: Cluster) -> dict[str, str]:
    """What the API server says to each of these."""
    return refusals(guarded, {name: changed(change) for name, (change, _) in NEVER.items()})


@pytest.mark.parametrize("name", NEVER)
def test_a_job_that_the_operator_must_never_make_is_refused(
    refused: dict[str, str], name: str
) -> None:
    assert "ValidatingAdmissionPolicy" in refused[name]
    assert NEVER[name][1] in refused[name]


def test_every_job_that_the_operator_makes_is_taken(guarded: Cluster) -> None:
    assert len(MADE) >= 6
    assert refusals(guarded, MADE) == {}


def test_what_the_operators_settings_allow_is_taken(guarded: Cluster) -> None:
    allowed = changed(volume(csi={"driver": "keys.example.com"}))
    assert refusals(guarded, {"any": allowed}) == {}


def test_others_are_not_bound(guarded: Cluster) -> None:
    """People and controllers have rules of their own, such as Pod Security's."""
    assert refusals(guarded, {"any": changed(privileged)}, PERSON) == {}


def test_the_api_server_finds_no_fault_with_the_policy_itself(guarded: Cluster) -> None:
    name = f"{NAMESPACE}-{RELEASE}-hansa-operator"
    guarded.until(
        lambda: "typeChecking" in guarded.get("validatingadmissionpolicy", name).get("status", {}),
        "its expressions are checked",
    )
    found = guarded.get("validatingadmissionpolicy", name)
    assert found["status"]["typeChecking"] == {}


def test_only_images_with_the_given_beginnings_are_taken(guarded: Cluster) -> None:
    listed = {"imagePrefixes": ["hansa-client:", "silo-a-client:", "registry.example.com/hansa/"]}
    done = guarded.kubectl("apply", "-f", "-", stdin=objects(admissionPolicy=listed))
    assert done.returncode == 0, done.stderr
    sidecar = {"full": MADE["full-client"]}
    guarded.until(lambda: refusals(guarded, sidecar), "the new rule is in force")
    assert "begin with hansa-client: or silo-a-client:" in refusals(guarded, sidecar)["full"]
    assert refusals(guarded, {"own": MADE["gpu-client"]}) == {}
