"""Values of the chart: they reach all settings of the operator, and unknown ones are refused."""

import json
from dataclasses import fields
from typing import Any

import pytest
import yaml

from hansa.core.errors import InputError
from hansa_operator.settings import KINDS, Settings, name_variable, parse_settings
from tests.chart.charts import CHART, Objects, refusal, render

CHANGED: dict[str, Any] = {
    "watch": {"namespaces": ["team-a", "team-b"]},
    "images": {
        "pullPolicy": "Always",
        "client": {"repository": "me/client", "tag": "1"},
        "server": {"repository": "me/server", "tag": "2"},
    },
    "settings": {
        "resyncSeconds": 86400,
        "workers": 64,
        "clientPodTemplate": {"spec": {"tolerations": [{"key": "a<b>&'\"", "value": "x\ny"}]}},
        "serverPodTemplate": {"spec": {"activeDeadlineSeconds": 10_000_000}},
        "allowedServiceAccounts": ["silo-*", "other"],
        "allowedSecrets": ["*-pull"],
        "allowedPriorityClasses": ["research"],
        "allowedTolerations": ["nvidia.com/gpu"],
        "allowedRuntimeClasses": ["nvidia"],
        "allowedSchedulers": ["volcano"],
        "allowedCsiDrivers": ["secrets-store.csi.k8s.io"],
        "allowedStorageClasses": ["fast-*"],
        "allowedAnnotationDomains": ["*.istio.io"],
        "secretConsent": False,  # what YAML makes of `off` without quotes
        "worldModules": ["my_package.envs", "other:Env"],
        "modelCacheClaim": "models",
        "clusterAutoscaler": True,
        "jobLog": "json",
    },
    "metrics": {"port": 9090},
    "lease": {"name": "mine", "namespace": "leases", "seconds": 30},
}
EXPECTED = Settings(
    namespaces=("team-a", "team-b"),
    resync_seconds=86400,
    workers=64,
    client_image="me/client:1",
    server_image="me/server:2",
    image_pull_policy="Always",
    client_pod_template=CHANGED["settings"]["clientPodTemplate"],
    server_pod_template=CHANGED["settings"]["serverPodTemplate"],
    allowed_service_accounts=("silo-*", "other"),
    allowed_secrets=("*-pull",),
    allowed_priority_classes=("research",),
    allowed_tolerations=("nvidia.com/gpu",),
    allowed_runtime_classes=("nvidia",),
    allowed_schedulers=("volcano",),
    allowed_csi_drivers=("secrets-store.csi.k8s.io",),
    allowed_storage_classes=("fast-*",),
    allowed_annotation_domains=("*.istio.io",),
    secret_consent="off",
    world_modules=("my_package.envs", "other:Env"),
    model_cache_claim="models",
    cluster_autoscaler=True,
    job_log="json",
    metrics_port=9090,
    lease_name="mine",
    lease_namespace="leases",
    lease_seconds=30,
)


def read(objects: Objects) -> Settings:
    data = objects.one("ConfigMap", "hansa-operator")["data"]
    assert set(data) == {name_variable(name) for name in KINDS}
    return parse_settings(data)


def test_every_setting_of_the_operator_is_reached_by_a_value() -> None:
    made = render(**CHANGED)
    assert read(made) == EXPECTED
    same = [f.name for f in fields(Settings) if getattr(EXPECTED, f.name) == _default(f.name)]
    assert same == [], "give these another value than their default above"
    service = made.one("Service")["spec"]["ports"][0]
    assert service["port"] == 9090
    assert made.one("Role", "hansa-operator-lease")["metadata"]["namespace"] == "leases"


def test_the_default_values_are_the_operators_own_defaults(plain: Objects) -> None:
    made = read(plain)
    chosen = {"lease_namespace": "hansa-system"}  # where the operator would look for it anyway
    for each in fields(Settings):
        assert getattr(made, each.name) == chosen.get(each.name, _default(each.name)), each.name


def _default(name: str) -> Any:
    return getattr(Settings(), name)


@pytest.mark.parametrize(
    "path, setting",
    [
        ("settings.resyncSeconds", "resync_seconds"),
        ("settings.workers", "workers"),
        ("lease.seconds", "lease_seconds"),
    ],
)
def test_the_schema_has_the_bounds_of_the_settings(path: str, setting: str) -> None:
    rule = json.loads((CHART / "values.schema.json").read_text())
    for key in path.split("."):
        rule = rule["properties"][key]
    low, high = rule["minimum"], rule["maximum"]
    for fits in (low, high):
        parse_settings({name_variable(setting): str(fits)})
    for wrong in (low - 1, high + 1):
        with pytest.raises(InputError):
            parse_settings({name_variable(setting): str(wrong)})


def test_the_schema_and_the_values_list_the_same() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert _differences(schema, schema, {**values, "global": {}}) == []


def _differences(schema: Any, rule: Any, values: Any, path: str = "") -> list[str]:
    """Keys that only one of the two has; free objects are not looked into."""
    while "$ref" in rule:
        rule = schema["definitions"][rule["$ref"].rpartition("/")[2]]
    known = rule.get("properties")
    if known is None or not isinstance(values, dict):
        return []
    if known.keys() == {"requests", "limits", "claims"}:  # each of them by choice
        return []
    found = [f"{path}{key}" for key in known.keys() ^ values.keys()]
    for key in known.keys() & values.keys():
        found += _differences(schema, known[key], values[key], f"{path}{key}.")
    return found


@pytest.mark.parametrize(
    "values, words",
    [
        pytest.param({"operater": {}}, "'operater' not allowed", id="unknown section"),
        pytest.param({"settings": {"worker": 1}}, "'worker' not allowed", id="unknown setting"),
        pytest.param(
            {"settings": {"nodesMayCome": True}}, "'nodesMayCome' not allowed", id="earlier setting"
        ),
        pytest.param(
            {"metrics": {"prometheusRule": {"roundStandsStillAfter": "6h"}}},
            "'roundStandsStillAfter' not allowed",
            id="earlier name of a rule",
        ),
        pytest.param({"settings": {"workers": 0}}, "/settings/workers': minimum", id="too few"),
        pytest.param({"settings": {"workers": "4"}}, "got string, want integer", id="text"),
        pytest.param({"watch": {"namespaces": "a"}}, "want array", id="one name, no list"),
        pytest.param({"watch": {"namespaces": ["A"]}}, "/watch/namespaces/0", id="no DNS name"),
        pytest.param({"images": {"pullPolicy": "Often"}}, "/images/pullPolicy", id="policy"),
        pytest.param({"metrics": {"port": 80}}, "minimum: got 80, want 1,024", id="root's port"),
        pytest.param({"commonLabels": {"app.kubernetes.io/name": "x"}}, "commonLabels", id="label"),
        pytest.param(
            {"minio": {"federations": [{"name": "a"}]}}, "missing property 'environments'", id="env"
        ),
        pytest.param(
            {"minio": {"region": "cn-north-1"}}, "/minio/region", id="MinIO knows one partition"
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(values: dict[str, Any], words: str) -> None:
    assert words in refusal(**values)


def test_names_that_look_like_numbers_stay_names() -> None:
    silo = {"name": "42", "namespace": "123", "environments": ["maze"]}
    made = render(
        watch={"namespaces": ["123", "true"]},
        serviceAccount={"name": "42"},
        minio={"enabled": True, "federations": [silo]},
        admissionPolicy={"enabled": True},
    )
    for each in made.all:
        labels = each["metadata"].get("labels") or {}
        given = [each["metadata"]["name"], each["metadata"].get("namespace", ""), *labels.values()]
        assert [name for name in given if not isinstance(name, str)] == [], each["kind"]
    assert {each["metadata"]["namespace"] for each in made.of("Role")} >= {"123", "true"}
