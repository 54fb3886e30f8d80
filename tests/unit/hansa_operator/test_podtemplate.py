"""Pod templates: what is refused and with which sentence, and how the others are merged."""

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.kubernetes.pod_policy import rules
from hansa.kubernetes.pod_policy.refusals import select_violations
from hansa.kubernetes.pod_policy.shapes import Permit, PodAllowlist
from hansa_operator.jobs import JobRefused
from hansa_operator.podtemplate import check_templates, list_violations, merge
from hansa_operator.settings import Settings, name_variable
from tests.support.pod_templates import cases, two_silos
from tests.unit.hansa_operator.objects import build_job, container, make_federation

ADMIN = Settings(
    allowed_secrets=("regcred", "hansa-*"),
    allowed_service_accounts=("irsa",),
    allowed_priority_classes=("research-*",),
    allowed_tolerations=("nvidia.com/gpu",),
    allowed_csi_drivers=("d",),
)
SIDECAR = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}


def client(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "client", **fields}]}


def secured(**fields: Any) -> dict[str, Any]:
    return client(securityContext=fields)


def volume(**kind: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **kind}]}


@pytest.mark.attack(
    by="the author of a Federation",
    does=(
        "asks for a PriorityClass, toleration, CSI driver, RuntimeClass, scheduler, host path, "
        "capability or group 0"
    ),
    result="refused, unless the operator's settings allow it",
)
@pytest.mark.parametrize("row", cases("refusals.yaml"))
def test_a_refusal_names_the_field_what_came_and_what_fits(row: dict[str, Any]) -> None:
    refused = list_violations(two_silos(row["spec"]), ADMIN)
    assert len(refused) == 1
    assert refused[0].sentence.startswith(f"spec.environments[0].podTemplate.spec.{row['says']}")
    assert refused[0].environment == "maze"


@pytest.mark.parametrize(
    "metadata, path",
    [
        ({"labels": {"hansa.dev/round": "9"}}, "labels.hansa.dev/round"),
        ({"labels": {"job-name": "x"}}, "labels.job-name"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "labels.kueue.x-k8s.io/queue-name"),
        (
            {
                "annotations": {
                    "container.apparmor.security.beta.kubernetes.io/client": "unconfined"
                }
            },
            "annotations.container.apparmor.security.beta.kubernetes.io/client",
        ),
        (
            {"annotations": {"vault.hashicorp.com/agent-inject": "true"}},
            "annotations.vault.hashicorp.com/agent-inject",
        ),
        ({"labels": {"azure.workload.identity/use": "true"}}, "labels.azure.workload.identity/use"),
        ({"name": "mine"}, "name"),
    ],
)
def test_metadata_that_others_own_is_refused(metadata: Any, path: str) -> None:
    template = {"metadata": metadata}
    refused = rules.check(template, Permit(container="client"), "spec.podTemplate")
    assert [refusal.path for refusal in refused] == [f"spec.podTemplate.metadata.{path}"]


@pytest.mark.attack(
    by="the author of a Federation",
    does="sets annotations of other systems on a Pod",
    result="refused, unless the operator's settings allow their domain",
)
def test_a_domain_of_annotations_and_labels_is_taken_from_the_operators_list() -> None:
    template = {"metadata": {key: {"sidecar.istio.io/inject": "no"} for key in METADATA}}
    permit = Permit(container="client", allowed=PodAllowlist(annotation_domains=("*.istio.io",)))
    assert rules.check(template, permit, "spec.podTemplate") == []
    free = {key: {"team": "a", "app.kubernetes.io/part-of": "b"} for key in METADATA}
    assert rules.check({"metadata": free}, Permit(container="client"), "spec.podTemplate") == []


METADATA = ("annotations", "labels")
ALLOWED_SPECS = {
    "everything off": {"hostNetwork": False, "hostPID": False, "securityContext": None},
    "own Secret": volume(secret={"secretName": "hansa-maze"}),
    "listed Secret": volume(secret={"secretName": "hansa-data"}),
    "pull Secret": {"imagePullSecrets": [{"name": "regcred"}]},
    "ServiceAccount": {"serviceAccountName": "irsa"},
    "user": secured(runAsUser=1000, runAsGroup=1000, capabilities={"drop": ["ALL"], "add": []}),
    "writable root": secured(readOnlyRootFilesystem=False),
    "groups": {"securityContext": {"fsGroup": 1, "supplementalGroups": [44, 100]}},
    "listed PriorityClass": {"priorityClassName": "research-low"},
    "listed taint": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    "listed CSI driver": volume(csi={"driver": "d"}),
    "usual scheduler": {"schedulerName": "default-scheduler"},
    "claim": volume(persistentVolumeClaim={"claimName": "x"}),
    "shared memory": client(volumeMounts=[{"name": "v", "mountPath": "/dev/shm"}]),
    "sidecar": {
        "initContainers": [{**SIDECAR, "command": ["run"], "ports": [{"containerPort": 1}]}]
    },
    "device claim": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
}


@pytest.mark.parametrize("name", ALLOWED_SPECS)
def test_what_is_harmless_is_taken(name: str) -> None:
    assert list_violations(two_silos(ALLOWED_SPECS[name]), ADMIN) == []


@pytest.mark.attack(
    by="the author of a Federation",
    does="names silos' Secrets in `spec.podTemplate`",
    result="refused",
)
def test_the_federations_default_may_name_no_silos_secret() -> None:
    default = {"spec": volume(secret={"secretName": "hansa-maze"})}
    refused = list_violations(two_silos({}, default), ADMIN)
    assert [(r.path, r.environment) for r in refused] == [
        ("spec.podTemplate.spec.volumes[0].secret", "")
    ]
    assert select_violations(refused, "wordle") == refused


PROGRAM = {
    "image": (client(image="mine:1"), "containers[0].image"),
    "variable": (client(env=[{"name": "PYTHONPATH", "value": "/x"}]), "containers[0].env"),
    "variables": (client(envFrom=[{"prefix": "MY_"}]), "containers[0].envFrom"),
    "folder": (client(workingDir="/x"), "containers[0].workingDir"),
    "mount": (
        client(volumeMounts=[{"name": "v", "mountPath": "/usr/lib"}]),
        "containers[0].volumeMounts[0].mountPath",
    ),
    "sidecar": ({"initContainers": [SIDECAR]}, "initContainers"),
    "address": ({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["s3"]}]}, "hostAliases"),
    "name server": ({"dnsConfig": {"nameservers": ["10.0.0.1"]}}, "dnsConfig"),
    "names": ({"dnsPolicy": "None"}, "dnsPolicy"),
}


@pytest.mark.attack(
    by="the author of a Federation",
    does="replaces all silos' client image by `spec.podTemplate`",
    result="refused",
)
@pytest.mark.parametrize("name", PROGRAM)
def test_the_federations_default_brings_no_program_into_a_silos_pod(name: str) -> None:
    spec, path = PROGRAM[name]
    [refused] = list_violations(two_silos({}, {"spec": spec}), ADMIN)
    assert (refused.path, refused.environment) == (f"spec.podTemplate.spec.{path}", "")
    assert "would reach every silo: say it in environments[]" in refused.sentence
    assert list_violations(two_silos(spec), ADMIN) == []
    assert check_templates(Settings(client_pod_template={"spec": spec})) == []


@pytest.mark.attack(
    by="the author of a Federation",
    does="mounts a claim, or a cache of base models, into all silos by `spec.podTemplate`",
    result="refused",
)
@pytest.mark.parametrize(
    "kind",
    [
        {"persistentVolumeClaim": {"claimName": "authors"}},
        {"configMap": {"name": "authors"}},
        {"secret": {"secretName": "listed"}},
        {"csi": {"driver": "listed"}},
        {"ephemeral": {"volumeClaimTemplate": {}}},
        {"image": {"reference": "theirs"}},
        {"projected": {"sources": []}},
        {"downwardAPI": {"items": []}},
    ],
    ids=lambda kind: next(iter(kind)),
)
def test_the_federations_default_brings_no_volume_into_a_silos_pod(kind: dict[str, Any]) -> None:
    """Also as `model-cache`, which the operator would mount: a base model decides what is sent."""
    default = {"spec": {"volumes": [{"name": "model-cache", **kind}]}}
    (field,) = kind
    refused = [each.sentence for each in list_violations(two_silos({}, default), ADMIN)]
    assert len(refused) == 1
    assert refused[0].startswith(f"spec.podTemplate.spec.volumes[0].{field}: got a mapping")
    assert "expected nothing (it would reach every silo" in refused[0]


def test_the_federations_default_says_where_and_with_how_much_pods_run() -> None:
    shared = {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    default = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {
            **client(resources={"limits": {"nvidia.com/gpu": 1}}, **shared),
            "nodeSelector": {"pool": "gpu"},
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        },
    }
    assert list_violations(two_silos({}, default), ADMIN) == []


def test_the_rules_name_the_settings_of_the_operator() -> None:
    lists = [each.name for each in fields(PodAllowlist)]
    assert [f.name for f in fields(Settings) if f.name.startswith("allowed_")] == sorted(
        (f"allowed_{name}" for name in lists), key=[f.name for f in fields(Settings)].index
    )
    for name in lists:
        assert PodAllowlist().setting(name) == f"{name_variable(f'allowed_{name}')}: none"


def test_all_refusals_are_told_at_once() -> None:
    spec = {"hostNetwork": True, "hostPID": True, **client(command=["sh"], args=["x"])}
    assert len(list_violations(two_silos(spec), ADMIN)) == 4


def test_the_operators_own_templates_are_checked_without_its_allow_lists() -> None:
    template = {
        "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
        "spec": {
            "serviceAccountName": "any",
            "imagePullSecrets": [{"name": "any"}],
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "any",
            "schedulerName": "any",
            "runtimeClassName": "any",
            **volume(csi={"driver": "any"}),
        },
    }
    assert check_templates(Settings(server_pod_template=template)) == []
    bad = Settings(client_pod_template={"spec": {"hostNetwork": True}})
    assert check_templates(bad)[0].path == "HANSA_CLIENT_POD_TEMPLATE.spec.hostNetwork"
    unnamed = client(envFrom=[{"configMapRef": {"name": "any"}}])
    [refusal] = check_templates(Settings(client_pod_template={"spec": unnamed}))
    assert refusal.path == "HANSA_CLIENT_POD_TEMPLATE.spec.containers[0].envFrom[0].prefix"


def test_the_certificates_of_a_private_store_alone_are_mounted() -> None:
    private = {"bucket": "private", "caSecret": {"name": "own", "key": "ca.crt"}}
    environment = {"name": "maze", "world": "maze", "experienceStorage": {"s3": private}}
    job = build_job(make_federation(environment))
    assert job["spec"]["template"]["spec"]["volumes"][1]["secret"]["secretName"] == "own"
    aggregator = build_job(make_federation(environment), role="aggregator")
    assert len(aggregator["spec"]["template"]["spec"]["volumes"]) == 1


def test_no_template_can_take_the_hardening_away() -> None:
    template = {"spec": secured(capabilities={"drop": []}, allowPrivilegeEscalation=False)}
    environment = {"name": "maze", "world": "maze", "podTemplate": template}
    security = container(build_job(make_federation(environment)))["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("row", cases("merges.yaml"))
def test_templates_merge(row: dict[str, Any]) -> None:
    assert merge({"spec": row["earlier"]}, [{"spec": row["later"]}]) == {"spec": row["merged"]}


def test_merging_changes_no_template() -> None:
    old = {"spec": client(env=[{"name": "A", "value": "1"}])}
    new = {"spec": client(env=[{"name": "A", "value": "2"}])}
    before = json.dumps([old, new])
    merge(old, [new])
    assert json.dumps([old, new]) == before


WORDS = """
metadata spec containers initContainers name client volumes env value secret secretName labels
securityContext capabilities add volumeMounts mountPath projected sources imagePullSecrets ports
startupProbe envFrom valueFrom secretRef tolerations restartPolicy Always model-cache emptyDir
"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)
POD = st.dictionaries(
    KEYS, st.lists(st.dictionaries(KEYS, JSON, max_size=4), max_size=2) | JSON, max_size=4
)


@settings(max_examples=80, deadline=None)
@given(template=st.fixed_dictionaries({"spec": POD | JSON}) | st.dictionaries(KEYS, JSON))
def test_any_template_is_refused_or_gives_a_job_and_never_crashes(template: Any) -> None:
    federation = make_federation({"name": "maze", "world": "maze", "podTemplate": template})
    try:
        job = build_job(federation)
    except JobRefused as refused:
        assert all(refusal.sentence for refusal in refused.refusals)
    else:
        assert container(job)["securityContext"]["capabilities"] == {"drop": ["ALL"]}
