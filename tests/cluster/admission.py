"""Jobs as the operator makes them, and as it never may, tried on a real API server."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.kube import Cluster, Manifest

GOLDEN = Path(__file__).parents[1] / "unit" / "hansa_operator" / "golden"
MADE = {file.stem: yaml.safe_load(file.read_text()) for file in sorted(GOLDEN.glob("*.yaml"))}
"""Jobs as the operator makes them, of small and of full federations."""

Change = Callable[[Manifest], None]


def refusals(cluster: Cluster, jobs: dict[str, Manifest], account: str) -> dict[str, str]:
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


def changed(change: Change) -> Manifest:
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


def without_label(job: Manifest) -> None:
    del job["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/managed-by"]


def without_owner(job: Manifest) -> None:
    del job["metadata"]["ownerReferences"]


def without_token_rule(job: Manifest) -> None:
    del job["spec"]["template"]["spec"]["automountServiceAccountToken"]


def bare_sidecar(job: Manifest) -> None:
    del job["spec"]["template"]["spec"]["initContainers"][0]["securityContext"]


def host_port(job: Manifest) -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    job["spec"]["template"]["spec"]["containers"][0]["ports"] = ports


def token(job: Manifest) -> None:
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
