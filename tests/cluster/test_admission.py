"""The API server refuses what the operator must never make, and takes all that it makes.

No image is needed: Jobs are tried and not kept, in the name of an operator that does not run.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.chart.charts import CHART, Data, helm
from tests.cluster.admission import MADE, NEVER, changed, privileged, refusals, volume
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
PERSON = "person"
OTHER: Data = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "others", "namespace": NAMESPACE},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PERSON}],
}
"""Somebody else who may make Jobs there."""


@pytest.fixture(scope="module")
def guarded(devkube: Cluster) -> Iterator[Cluster]:
    """A namespace in which an operator's ServiceAccount may make Jobs, bound by the policy."""
    own = replace(devkube, namespace=NAMESPACE)
    own.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    made = f"{objects()}\n---\n{json.dumps(OTHER)}"
    done = own.kubectl("apply", "-f", "-", stdin=made)
    assert done.returncode == 0, done.stderr
    own.until(lambda: may_make_jobs(own), "its Role is in force")
    job = {"any": changed(privileged)}
    own.until(lambda: refusals(own, job, ACCOUNT), "the policy is in force")
    yield own
    own.kubectl("delete", "-f", "-", stdin=made)
    own.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def may_make_jobs(cluster: Cluster) -> bool:
    return cluster.kubectl("auth", "can-i", "create", "jobs", f"--as={ACCOUNT}").returncode == 0


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


@pytest.fixture(scope="module")
def refused(guarded: Cluster) -> dict[str, str]:
    """What the API server says to each of these."""
    return refusals(
        guarded, {name: changed(change) for name, (change, _) in NEVER.items()}, ACCOUNT
    )


@pytest.mark.attack(
    by="a thief of the operator's token",
    does=(
        "makes a Job with a token, a host path, privileges or root, under `admissionPolicy.enabled`"
    ),
    result="the API server refuses it",
)
@pytest.mark.parametrize("name", NEVER)
def test_a_job_that_the_operator_must_never_make_is_refused(
    refused: dict[str, str], name: str
) -> None:
    assert "ValidatingAdmissionPolicy" in refused[name]
    assert NEVER[name][1] in refused[name]


def test_every_job_that_the_operator_makes_is_taken(guarded: Cluster) -> None:
    assert len(MADE) >= 6
    assert refusals(guarded, MADE, ACCOUNT) == {}


def test_what_the_operators_settings_allow_is_taken(guarded: Cluster) -> None:
    allowed = changed(volume(csi={"driver": "keys.example.com"}))
    assert refusals(guarded, {"any": allowed}, ACCOUNT) == {}


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
    guarded.until(lambda: refusals(guarded, sidecar, ACCOUNT), "the new rule is in force")
    assert (
        "begin with hansa-client: or silo-a-client:" in refusals(guarded, sidecar, ACCOUNT)["full"]
    )
    assert refusals(guarded, {"own": MADE["gpu-client"]}, ACCOUNT) == {}
