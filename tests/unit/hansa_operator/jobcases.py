"""Federations and settings that Jobs are built from in tests, small ones and full ones."""

from pathlib import Path
from typing import Any

from hansa_operator.settings import Settings
from tests.unit.hansa_operator.objects import (
    container,
    make_federation,
)

GOLDEN = Path(__file__).parent / "golden"
STORE = {
    "s3": {
        "endpoint": "https://minio.silos.svc:9000",
        "bucket": "bucket",
        "prefix": "run",
        "credentialsSecret": {"name": "hansa-s3"},
        "caSecret": {"name": "minio-tls", "key": "public.crt"},
    }
}
GPU = {"spec": {"containers": [{"name": "client", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
DEFAULTS = {
    "metadata": {"annotations": {"team": "silos"}},
    "spec": {
        "nodeSelector": {"pool": "cpu", "zone": "a"},
        "tolerations": [{"key": "batch", "operator": "Exists"}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
        "containers": [
            {
                "name": "client",
                "resources": {"limits": {"memory": "4Gi"}, "requests": {"cpu": "1"}},
            }
        ],
    },
}
OWN = {
    "metadata": {"labels": {"silo": "a"}},
    "spec": {
        "runtimeClassName": "nvidia",
        "priorityClassName": "research",
        "serviceAccountName": "silo-a",
        "imagePullSecrets": [{"name": "regcred"}],
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "silo-a-data"}}],
        "initContainers": [
            {
                "name": "proxy",
                "image": "proxy:1",
                "restartPolicy": "Always",
                "env": [{"name": "AWS_REGION", "value": "eu-1"}],
                "startupProbe": {"httpGet": {"path": "/ready", "port": 8080}},
            }
        ],
        "containers": [
            {
                "name": "client",
                "image": "silo-a-client:3",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "env": [
                    {"name": "MODE", "value": "b"},
                    {
                        "name": "HF_TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
                    },
                ],
            }
        ],
    },
}
ADMIN = Settings(
    allowed_secrets=("regcred", "hub"),
    allowed_service_accounts=("silo-*",),
    allowed_tolerations=("batch", "nvidia.com/*"),
    allowed_runtime_classes=("nvidia",),
    allowed_priority_classes=("research",),
    model_cache_claim="models",
    job_log="json",
    client_pod_template={
        "spec": {
            "terminationGracePeriodSeconds": 10,
            "containers": [
                {
                    "name": "client",
                    "env": [
                        {"name": "HF_HUB_OFFLINE", "value": "1"},
                        {"name": "MODE", "value": "a"},
                    ],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
        }
    },
    server_pod_template={
        "spec": {
            "imagePullSecrets": [{"name": "admin"}],
            "containers": [{"name": "server", "resources": {"requests": {"memory": "1Gi"}}}],
        }
    },
)
MAZE = {"name": "maze", "world": "maze"}
FULL = make_federation(
    {
        **MAZE,
        "credentialsSecret": {"name": "hansa-maze"},
        "queueName": "silo-a",
        "podTemplate": OWN,
    },
    storage=STORE,
    podTemplate=DEFAULTS,
)
PRIVATE = make_federation(
    {
        **MAZE,
        "credentialsSecret": {"name": "hansa-maze"},
        "experienceStorage": {
            "s3": {
                "endpoint": "https://store.clinic.example",
                "bucket": "private",
                "credentialsSecret": {"name": "clinic"},
                "caSecret": {"name": "clinic-tls", "key": "ca.crt"},
            }
        },
    },
    storage=STORE,
)
CASES: dict[str, tuple[Any, Settings, str]] = {
    "smallest-client": (make_federation(), Settings(), "client"),
    "smallest-aggregator": (make_federation(), Settings(), "aggregator"),
    "smallest-evaluate": (make_federation(rounds=1), Settings(), "evaluate"),
    "gpu-client": (make_federation({**MAZE, "podTemplate": GPU}), Settings(), "client"),
    "private-client": (PRIVATE, Settings(), "client"),
    "private-aggregator": (PRIVATE, Settings(), "aggregator"),
    "full-client": (FULL, ADMIN, "client"),
    "full-aggregator": (FULL, ADMIN, "aggregator"),
}


def consent_of(job: dict[str, Any]) -> dict[str, str]:
    """The key that the kubelet demands of each Secret before it starts the Pod."""
    pod = job["spec"]["template"]["spec"]
    found = [v for v in pod["volumes"] if v["name"] == "hansa-consent"]
    mounts = [m for m in container(job)["volumeMounts"] if m["name"] == "hansa-consent"]
    assert len(found) == len(mounts) == 1, "an unmounted volume is not looked for"
    assert all(not s["secret"].get("optional") for s in found[0]["projected"]["sources"])
    return {
        source["secret"]["name"]: item["key"]
        for source in found[0]["projected"]["sources"]
        for item in source["secret"]["items"]
    }


def requests_of(federation: Any) -> list[Any]:
    from hansa.plan.federation import plan
    from tests.support.builders import NOW, with_status

    opened = with_status(federation, plan(federation, [], NOW).status)
    return plan(opened, [], NOW).create


def unknown_fields(data: Any, kind: Any, client: Any, path: str = "") -> list[str]:
    """Paths of a Job that the official client's models do not have."""
    wrong = []
    names = {json_name: name for name, json_name in kind.attribute_map.items()}
    for key, value in data.items():
        if key not in names:
            wrong.append(f"{path}.{key}")
            continue
        inner = kind.openapi_types[names[key]]
        values = value if inner.startswith("list[") else [value]
        model = getattr(client, inner.removeprefix("list[").rstrip("]"), None)
        for each in values if model else []:
            wrong += unknown_fields(each, model, client, f"{path}.{key}")
    return wrong
