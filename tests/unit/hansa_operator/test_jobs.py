"""Jobs as the cluster gets them, each shown whole in a golden file.

HANSA_UPDATE_GOLDEN=1 writes the files anew; read their diff before you keep it.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.assignment import decode_assignment
from hansa.exchange.tasks import CourierTask
from hansa.refusals import VARIABLE_LIMIT
from hansa.spec import Participation
from hansa_operator.jobs import Refused, build
from hansa_operator.settings import Settings
from tests.unit.hansa_operator.objects import (
    advance,
    build_job,
    container,
    make_federation,
    make_request,
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


def test_a_pod_starts_only_where_every_secret_consents_to_its_party() -> None:
    assert consent_of(build_job(FULL, ADMIN)) == {
        "hansa-maze": "hansa.fed.maze",
        "minio-tls": "hansa.fed.maze",
    }
    assert consent_of(build_job(FULL, ADMIN, role="aggregator")) == {
        "hansa-s3": "hansa.fed.aggregator",
        "minio-tls": "hansa.fed.aggregator",
    }


def test_a_private_store_has_keys_and_an_authority_of_its_own_that_consent_like_the_others() -> (
    None
):
    assert consent_of(build_job(PRIVATE)) == dict.fromkeys(
        ("hansa-maze", "clinic", "minio-tls", "clinic-tls"), "hansa.fed.maze"
    )
    assert consent_of(build_job(PRIVATE, role="aggregator")) == dict.fromkeys(
        ("hansa-s3", "minio-tls"), "hansa.fed.aggregator"
    )
    text = json.dumps(build_job(PRIVATE, role="aggregator")["spec"])
    assert "clinic" not in text and "HANSA_EXPERIENCE" not in text


@pytest.mark.parametrize("role", ["client", "evaluate", "aggregator"])
def test_the_key_of_an_endpoint_reaches_the_silos_clients_alone(role: str) -> None:
    secret = {"name": "turns", "key": "key"}
    endpoint = {"url": "https://turns.example", "server": "vllm", "apiKeySecret": secret}
    silo = {**MAZE, "credentialsSecret": {"name": "hansa-maze"}, "endpoint": endpoint}
    job = build_job(make_federation(silo, storage=STORE, rounds=1), role=role)
    has_key = role != "aggregator"
    assert ("HANSA_ENDPOINT_API_KEY" in json.dumps(job)) is has_key
    assert ('"turns"' in json.dumps(job)) is has_key, "nor is its consent asked for"


def test_no_other_silos_pod_may_name_the_secret_of_an_endpoint() -> None:
    secret = {"name": "turns", "key": "key"}
    endpoint = {"url": "https://turns.example", "server": "vllm", "apiKeySecret": secret}
    reads = {"name": "K", "valueFrom": {"secretKeyRef": secret}}
    template = {"spec": {"containers": [{"name": "client", "env": [reads]}]}}
    other = {"name": "wordle", "world": "wordle", "endpoint": endpoint}
    federation = make_federation({**MAZE, "podTemplate": template}, other)
    with pytest.raises(Refused, match="turns"):
        build_job(federation)


@pytest.mark.parametrize("private", [{}, {"credentialsSecret": {"name": "hansa-maze"}}])
def test_a_silo_with_one_identity_uses_it_for_both_stores(private: dict[str, Any]) -> None:
    own = {"s3": {"bucket": "private", **private}}
    silo = {**MAZE, "credentialsSecret": {"name": "hansa-maze"}, "experienceStorage": own}
    job = build_job(make_federation(silo, storage=STORE))
    assert _secrets(job) == {"hansa-maze"}
    assert "HANSA_EXPERIENCE" not in json.dumps(job)


def test_a_sidecar_with_a_secret_waits_for_the_same_consent() -> None:
    sidecar = {"name": "thief", "image": "x:1", "restartPolicy": "Always"}
    sidecar["volumeMounts"] = [{"name": "loot", "mountPath": "/loot"}]
    template = {
        "spec": {
            "initContainers": [sidecar],
            "volumes": [{"name": "loot", "secret": {"secretName": "db-password"}}],
        }
    }
    own = {**MAZE, "credentialsSecret": {"name": "db-password"}, "podTemplate": template}
    assert consent_of(build_job(make_federation(own))) == {"db-password": "hansa.fed.maze"}


def test_no_consent_is_asked_for_without_a_secret_or_where_it_is_switched_off() -> None:
    without = [build_job(make_federation()), build_job(FULL, replace(ADMIN, secret_consent="off"))]
    assert all("hansa-consent" not in json.dumps(job) for job in without)


def test_modules_that_options_may_name_come_from_the_operator_and_reach_clients_only() -> None:
    settings = Settings(world_modules=("my_package.envs", "other:Env"))
    given = {"name": "HANSA_WORLD_MODULES", "value": "my_package.envs,other:Env"}
    assert given in container(build_job(make_federation(), settings, "client"))["env"]
    assert given not in container(build_job(make_federation(), settings, "aggregator"))["env"]


@pytest.mark.parametrize("name", CASES)
def test_a_job_is_exactly_its_golden_file(name: str) -> None:
    federation, settings, role = CASES[name]
    images = {"client_image": "hansa-client:golden", "server_image": "hansa-server:golden"}
    job = build_job(federation, replace(settings, **images), role)
    variable = container(job)["env"][0]
    assert decode_assignment(variable["value"]) == make_request(federation, role).assignment
    variable["value"] = "<the assignment>"
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("HANSA_UPDATE_GOLDEN") == "1":
        file.write_text(yaml.safe_dump(job, sort_keys=False, width=100))
    assert job == yaml.safe_load(file.read_text())


KEY = "ed25519:" + "A" * 43
ELSEWHERE = make_federation(
    MAZE,
    {"name": "clinic", "member": {"publicKeys": [KEY]}},
    storage=STORE,
    exchange={"publicKeys": [KEY], "signingSecret": {"name": "hansa-signing"}},
    model={"sha256": "b" * 64},
    adapter={"shapes": "d" * 64},
)


def test_a_courier_has_the_signing_key_and_no_other_job_does() -> None:
    images = {"client_image": "hansa-client:golden", "server_image": "hansa-server:golden"}
    job = build_job(ELSEWHERE, replace(ADMIN, **images), "courier")
    variable = container(job)["env"][0]
    task = CourierTask.model_validate_json(variable["value"])
    assert task == make_request(ELSEWHERE, "courier").assignment
    variable["value"] = "<the assignment>"
    file = GOLDEN / "courier.yaml"
    if os.environ.get("HANSA_UPDATE_GOLDEN") == "1":
        file.write_text(yaml.safe_dump(job, sort_keys=False, width=100))
    assert job == yaml.safe_load(file.read_text())
    assert consent_of(job)["hansa-signing"] == "hansa.fed.aggregator"
    for role in ("client", "aggregator"):
        assert "hansa-signing" not in json.dumps(build_job(FULL, ADMIN, role))


def test_without_a_signing_secret_no_courier_is_made() -> None:
    unsigned = ELSEWHERE.spec.exchange.model_copy(update={"signing_secret": None})
    spec = ELSEWHERE.spec.model_copy(update={"exchange": unsigned})
    ready, request = advance(ELSEWHERE.model_copy(update={"spec": spec}), "courier")
    with pytest.raises(Refused, match=r"spec.exchange.signingSecret: got nothing"):
        build(request, ready, ADMIN)


SEALED = make_federation(
    {**MAZE, "experienceStorage": {"s3": {"bucket": "private"}}},
    storage={"s3": {"bucket": "shared"}, "sealingSecret": {"name": "hansa-sealing"}},
    aggregation={"sealTo": "x25519:" + "A" * 43},
)


def test_an_aggregator_has_the_key_that_opens_updates_and_no_other_job_does() -> None:
    job = build_job(SEALED, ADMIN, "aggregator")
    given = {"name": "HANSA_SEALING_KEY", "value": "/etc/hansa/sealing/sealing.key"}
    assert given in container(job)["env"]
    mount = {"name": "hansa-sealing", "mountPath": "/etc/hansa/sealing", "readOnly": True}
    assert mount in container(job)["volumeMounts"]
    items = [{"key": "sealing.key", "path": "sealing.key"}]
    volume = {"name": "hansa-sealing", "secret": {"secretName": "hansa-sealing", "items": items}}
    assert volume in job["spec"]["template"]["spec"]["volumes"]
    assert consent_of(job)["hansa-sealing"] == "hansa.fed.aggregator"
    assert "hansa-sealing" not in json.dumps(build_job(SEALED, ADMIN, "client"))


def test_without_a_sealing_secret_no_job_is_made_where_updates_are_sealed() -> None:
    unopened = SEALED.spec.storage.model_copy(update={"sealing_secret": None})
    spec = SEALED.spec.model_copy(update={"storage": unopened})
    ready, request = advance(SEALED.model_copy(update={"spec": spec}), "client")
    with pytest.raises(Refused, match=r"spec.storage.sealingSecret: got nothing"):
        build(request, ready, ADMIN)


@pytest.mark.parametrize("name", CASES)
def test_kubernetes_knows_every_field_of_a_job(name: str) -> None:
    from kubernetes import client

    assert _unknown(build_job(*CASES[name]), client.V1Job, client) == []


def _unknown(data: Any, kind: Any, client: Any, path: str = "") -> list[str]:
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
            wrong += _unknown(each, model, client, f"{path}.{key}")
    return wrong


def test_building_twice_gives_equal_jobs_and_changes_no_input() -> None:
    before = FULL.model_dump_json()
    assert build_job(FULL, ADMIN) == build_job(FULL, ADMIN)
    assert FULL.model_dump_json() == before


@pytest.mark.parametrize("text", ["$(HOME)", "cost $$5", "^a$", "$($x"])
def test_the_kubelet_hands_on_dollar_signs_as_they_were(text: str) -> None:
    environment = {**MAZE, "options": {"text": text}}
    job = build_job(make_federation(environment))
    text_ = _expanded(container(job)["env"][0]["value"], {"HOME": "/tmp"})
    assert decode_assignment(text_).options == {"text": text}


def _expanded(value: str, known: dict[str, str]) -> str:
    """Kubernetes' third_party/forked/golang/expansion, in short."""
    out, i = "", 0
    while i < len(value):
        if value[i] == "$" and i + 1 < len(value):
            if value[i + 1] == "$":
                out, i = out + "$", i + 2
                continue
            end = value.find(")", i)
            if value[i + 1] == "(" and end > 0:
                name = value[i + 2 : end]
                out, i = out + known.get(name, f"$({name})"), end + 1
                continue
        out, i = out + value[i], i + 1
    return out


def test_an_assignment_that_no_process_could_start_with_is_refused() -> None:
    environment = {**MAZE, "options": {"text": "x" * VARIABLE_LIMIT}}
    with pytest.raises(Refused, match=r"spec\.environments\[0\]\.options: got an assignment of"):
        build_job(make_federation(environment))


def test_the_largest_aggregator_fits_into_a_variable() -> None:
    environments = [{"name": f"{'e' * 27}{i:03d}", "world": "maze"} for i in range(100)]
    job = build_job(make_federation(*environments), role="aggregator")
    assert len(container(job)["env"][0]["value"]) < VARIABLE_LIMIT / 4


def test_the_deadline_is_that_of_the_open_round_not_of_a_later_edit() -> None:
    ready, request = advance(make_federation(), "client")
    longer = Participation(round_timeout_seconds=9999)
    edited = ready.model_copy(
        update={"spec": ready.spec.model_copy(update={"participation": longer})}
    )
    assert build(request, edited, Settings())["spec"]["activeDeadlineSeconds"] == 3600 + 600


def test_a_silo_that_evolves_on_alone_may_take_as_long_as_all_rounds() -> None:
    job = build_job(make_federation(rounds=2, personalization="best"), role="evaluate")
    assert job["spec"]["activeDeadlineSeconds"] == 3 * 3600 + 600


def test_a_silo_that_evolves_alone_anew_may_take_as_long_as_all_rounds() -> None:
    job = build_job(make_federation(rounds=2, evaluation={"alone": True}), role="evaluate")
    assert job["spec"]["activeDeadlineSeconds"] == 3 * 3600 + 600


def test_a_new_attempt_uses_the_newest_pod_template() -> None:
    ready, request = advance(make_federation(), "client")
    edited = ready.model_copy(
        update={"spec": ready.spec.model_copy(update={"pod_template": DEFAULTS})}
    )
    assert container(build(request, edited, ADMIN))["resources"]["limits"]["memory"] == "4Gi"


def test_an_environment_without_credentials_never_gets_the_aggregators() -> None:
    own = {**MAZE, "credentialsSecret": {"name": "own"}}
    federation = make_federation(own, {"name": "wordle", "world": "wordle"}, storage=STORE)
    ready, request = advance(federation, "client")
    assert _secrets(build(request, ready, Settings())) == {"own"}
    other = next(r for r in _requests(federation) if r.environment == "wordle")
    with pytest.raises(Refused) as refused:
        build(other, ready, Settings())
    assert [r.sentence for r in refused.value.refusals] == [
        "spec.environments[1].credentialsSecret: got nothing, expected a Secret with keys of its "
        "own ('hansa-s3' of spec.storage is the aggregator's)"
    ]
    assert _secrets(build_job(federation, role="aggregator")) == {"hansa-s3"}


def test_keys_of_all_may_be_one_secret_where_the_spec_says_so() -> None:
    shared = {**MAZE, "credentialsSecret": {"name": "hansa-s3"}}
    assert _secrets(build_job(make_federation(shared, storage=STORE))) == {"hansa-s3"}
    assert _secrets(build_job(make_federation())) == set()


def _requests(federation: Any) -> list[Any]:
    from hansa.plan import plan
    from tests.builders import NOW, with_status

    opened = with_status(federation, plan(federation, [], NOW).status)
    return plan(opened, [], NOW).create


def _secrets(job: dict[str, Any]) -> set[str]:
    env = container(job)["env"]
    return {v["valueFrom"]["secretKeyRef"]["name"] for v in env if "valueFrom" in v}


def test_no_secret_value_and_no_credential_is_in_a_job() -> None:
    text = json.dumps(build_job(FULL, ADMIN))
    assert "AWS_SECRET_ACCESS_KEY" in text
    assert all(
        "value" not in v for v in container(build_job(FULL, ADMIN))["env"] if "AWS_A" in v["name"]
    )


def test_a_model_cache_is_used_where_the_user_mounts_it() -> None:
    template = {
        "spec": {
            "volumes": [{"name": "model-cache", "emptyDir": {}}],
            "containers": [
                {
                    "name": "client",
                    "volumeMounts": [{"name": "model-cache", "mountPath": "/models"}],
                }
            ],
        }
    }
    made = container(build_job(make_federation({**MAZE, "podTemplate": template})))
    assert {"name": "HANSA_MODEL_CACHE", "value": "/models"} in made["env"]
    assert [m["mountPath"] for m in made["volumeMounts"]] == ["/tmp", "/models"]


def test_a_refused_template_stops_its_environment_and_no_other() -> None:
    bad = {"spec": {"hostNetwork": True}}
    wordle = {"name": "wordle", "world": "wordle"}
    federation = make_federation({**MAZE, "podTemplate": bad}, wordle)
    ready, _ = advance(federation, "client")
    maze, other = _requests(federation)
    with pytest.raises(Refused) as refused:
        build(maze, ready, Settings())
    assert [r.environment for r in refused.value.refusals] == ["maze"]
    assert "hostNetwork: got true" in refused.value.message
    assert build(other, ready, Settings())
    assert build_job(federation, role="aggregator")
