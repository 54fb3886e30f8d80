"""Objects of the chart: which there are by default and by option, and what rights they have."""

from typing import Any

import pytest
import yaml

from hansa.version import __version__
from tests.chart.charts import CHART, EVERYTHING, NAMESPACE, SEAWEEDFS, Objects, helm, render

OPERATOR_RULES = {
    ("hansa.dev", "federations"): {"list", "watch"},
    ("hansa.dev", "federations/status"): {"update"},
    ("hansa.dev", "federationmembers"): {"list", "watch"},
    ("hansa.dev", "federationmembers/status"): {"update"},
    ("batch", "jobs"): {"list", "watch", "create", "delete"},
    ("", "pods"): {"list", "watch"},
    ("", "events"): {"list", "create"},
}
LEASE_RULES = {("coordination.k8s.io", "leases"): {"get", "update"}}
CLUSTER_NAME = f"{NAMESPACE}-hansa-operator"
ROLES = ("view", "edit")


def rights(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def is_hook(each: dict[str, Any]) -> bool:
    return "helm.sh/hook" in each["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    "values", [{}, {"store": "minio"}, {"store": "seaweedfs"}], ids=["plain", "minio", "seaweedfs"]
)
def test_helm_lint_has_nothing_to_say(values: dict[str, Any]) -> None:
    done = helm("lint", "--strict", str(CHART), values=values)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_default_is_an_operator_for_the_whole_cluster_and_nothing_else(plain: Objects) -> None:
    kept = Objects(each for each in plain.all if not is_hook(each))
    assert kept.kinds() == {
        "ClusterRole": 3,
        "ClusterRoleBinding": 1,
        "ConfigMap": 1,
        "CustomResourceDefinition": 2,
        "Deployment": 1,
        "Lease": 1,
        "NetworkPolicy": 2,
        "Role": 1,
        "RoleBinding": 1,
        "Service": 1,
        "ServiceAccount": 1,
    }


def test_every_option_adds_its_objects(full: Objects) -> None:
    kept = Objects(each for each in full.all if not is_hook(each)).kinds()
    assert kept["PodDisruptionBudget"] == kept["ServiceMonitor"] == kept["PrometheusRule"] == 1
    assert kept["NetworkPolicy"] == 3
    assert kept["PersistentVolumeClaim"] == 1
    assert kept["Secret"] == 5
    assert (
        full.one("ConfigMap", "hansa-dashboard")["metadata"]["labels"]["grafana_dashboard"] == "1"
    )


def test_the_operator_has_exactly_the_rights_it_uses(plain: Objects) -> None:
    role = plain.one("ClusterRole", CLUSTER_NAME)
    assert rights(role) == OPERATOR_RULES
    binding = plain.one("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == CLUSTER_NAME
    account = {"kind": "ServiceAccount", "name": "hansa-operator", "namespace": NAMESPACE}
    assert binding["subjects"] == [account]
    lease = plain.one("Role", "hansa-operator-lease")
    assert rights(lease) == LEASE_RULES
    assert lease["metadata"]["namespace"] == NAMESPACE
    assert [rule["resourceNames"] for rule in lease["rules"]] == [["hansa-operator"]]
    mine = [b for b in plain.of("RoleBinding") if account in b["subjects"]]
    assert [b["roleRef"]["name"] for b in mine] == ["hansa-operator-lease"]


def test_watched_namespaces_get_a_role_each_and_the_cluster_none() -> None:
    made = render(watch={"namespaces": ["team-a", "team-b"]}, rbac={"userRoles": False})
    assert made.of("ClusterRole") == made.of("ClusterRoleBinding") == []
    roles = [role for role in made.of("Role") if role["metadata"]["name"] == "hansa-operator"]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    assert all(rights(role) == OPERATOR_RULES for role in roles)
    bindings = [b for b in made.of("RoleBinding") if b["metadata"]["name"] == "hansa-operator"]
    assert [b["metadata"]["namespace"] for b in bindings] == ["team-a", "team-b"]
    assert all(b["subjects"][0]["namespace"] == NAMESPACE for b in bindings)
    assert made.one("ConfigMap")["data"]["HANSA_NAMESPACES"] == "team-a,team-b"
    tested = made.one("Role", "hansa-test")
    assert tested["metadata"]["namespace"] == "team-a", "federations are tried where one watches"


def test_users_see_and_write_both_kinds_by_their_own_roles(plain: Objects) -> None:
    kinds = ("federations", "federationmembers")
    view, edit = (rights(plain.one("ClusterRole", f"{NAMESPACE}-hansa-{n}")) for n in ROLES)
    assert view.keys() == {
        ("hansa.dev", f"{kind}{sub}") for kind in kinds for sub in ("", "/status")
    }
    assert {verb for verbs in view.values() for verb in verbs} == {"get", "list", "watch"}
    assert edit.keys() == {("hansa.dev", kind) for kind in kinds}


def test_what_helm_test_may_do_goes_when_it_ends(plain: Objects) -> None:
    assert rights(plain.one("Role", "hansa-test")) == {("hansa.dev", "federations"): {"create"}}
    hooks = [each for each in plain.all if is_hook(each)]
    assert sorted(each["kind"] for each in hooks) == [
        "Pod",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ]
    for each in hooks:
        policy = each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert {"hook-succeeded", "hook-failed"} <= set(policy.split(","))


def test_no_role_of_the_chart_reads_secrets(full: Objects) -> None:
    roles = full.of("Role") + full.of("ClusterRole")
    reached = {resource for role in roles for _, resource in rights(role)}
    assert reached.isdisjoint({"secrets", "*", "pods/exec", "namespaces"})


@pytest.mark.parametrize(
    "values, pods", [(EVERYTHING, 4), (SEAWEEDFS, 3)], ids=["minio", "seaweedfs"]
)
def test_every_pod_keeps_the_restricted_standard(values: dict[str, Any], pods: int) -> None:
    seen = dict(render(**values).pods())
    assert len(seen) == pods
    for name, pod in seen.items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["enableServiceLinks"] is False, name
        for container in pod["containers"]:
            rules = container["securityContext"]
            assert rules["allowPrivilegeEscalation"] is False, name
            assert rules["readOnlyRootFilesystem"] is True, name
            assert rules["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["requests"], name
        volumes = {kind for volume in pod.get("volumes", []) for kind in volume} - {"name"}
        assert volumes <= {"configMap", "secret", "emptyDir", "persistentVolumeClaim"}, name


def test_the_operator_is_probed_replaced_softly_and_restarted_by_new_settings(
    full: Objects,
) -> None:
    deployment = full.one("Deployment", "hansa-operator")["spec"]
    container = deployment["template"]["spec"]["containers"][0]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert {"name": "scratch", "mountPath": "/tmp"} in container["volumeMounts"]
    assert deployment["strategy"]["type"] == "RollingUpdate"
    changed = render(settings={"workers": 9}).one("Deployment", "hansa-operator")
    sums = [
        each["template"]["metadata"]["annotations"]["checksum/settings"]
        for each in (deployment, changed["spec"])
    ]
    assert sums[0] != sums[1]


@pytest.mark.parametrize("kind", ["federation", "federationmember"])
def test_a_definition_is_kept_or_left_out_by_option(plain: Objects, kind: str) -> None:
    name = f"{kind}s.hansa.dev"
    kept = plain.one("CustomResourceDefinition", name)
    assert kept["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    file = CHART / f"files/{kind}-crd.yaml"
    assert kept["spec"] == yaml.safe_load(file.read_text())["spec"]
    loose = render(crds={"keep": False}).one("CustomResourceDefinition", name)
    assert "annotations" not in loose["metadata"]
    assert render(crds={"install": False}).of("CustomResourceDefinition") == []


def test_images_are_named_by_registry_tag_and_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    made = render(
        images={
            "registry": "ghcr.io/you/",
            "operator": {"tag": "v1"},
            "client": {"repository": "mine", "digest": digest},
        }
    )
    data = made.one("ConfigMap")["data"]
    assert [pod["containers"][0]["image"] for _, pod in made.pods()] == [
        "ghcr.io/you/hansa-operator:v1"
    ] * 2
    assert data["HANSA_CLIENT_IMAGE"] == f"ghcr.io/you/mine:{__version__}@{digest}"
    assert data["HANSA_SERVER_IMAGE"] == f"ghcr.io/you/hansa-server:{__version__}"


def test_all_objects_have_their_namespace_and_labels(full: Objects) -> None:
    wide = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
    wide |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    for each in full.all:
        meta = each["metadata"]
        assert (each["kind"] in wide) == ("namespace" not in meta), meta["name"]
        assert meta["labels"]["app.kubernetes.io/instance"] == "hansa"
        assert len(meta["name"]) <= 63 or each["kind"] in wide
