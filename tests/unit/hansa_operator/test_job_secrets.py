"""Which Secrets a Job gets, which it does not, and who has to consent to it."""

import json
import os
from dataclasses import replace
from typing import Any

import pytest
import yaml

from hansa.api.courier_assignment import CourierAssignment
from hansa.api.status import Federation
from hansa_operator.jobs import JobRefused, build_manifest
from hansa_operator.settings import Settings
from tests.unit.hansa_operator.jobcases import (
    ADMIN,
    FULL,
    GOLDEN,
    MAZE,
    PRIVATE,
    STORE,
    consent_of,
    requests_of,
)
from tests.unit.hansa_operator.objects import (
    advance,
    build_job,
    container,
    make_federation,
    make_request,
)


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


@pytest.mark.attack(
    by="the author of a Federation",
    does="names the Secret of another silo's endpoint in a Pod template",
    result="refused",
)
def test_no_other_silos_pod_may_name_the_secret_of_an_endpoint() -> None:
    secret = {"name": "turns", "key": "key"}
    endpoint = {"url": "https://turns.example", "server": "vllm", "apiKeySecret": secret}
    reads = {"name": "K", "valueFrom": {"secretKeyRef": secret}}
    template = {"spec": {"containers": [{"name": "client", "env": [reads]}]}}
    other = {"name": "wordle", "world": "wordle", "endpoint": endpoint}
    federation = make_federation({**MAZE, "podTemplate": template}, other)
    with pytest.raises(JobRefused, match="turns"):
        build_job(federation)


@pytest.mark.parametrize("private", [{}, {"credentialsSecret": {"name": "hansa-maze"}}])
def test_a_silo_with_one_identity_uses_it_for_both_stores(private: dict[str, Any]) -> None:
    own = {"s3": {"bucket": "private", **private}}
    silo = {**MAZE, "credentialsSecret": {"name": "hansa-maze"}, "experienceStorage": own}
    job = build_job(make_federation(silo, storage=STORE))
    assert _secrets(job) == {"hansa-maze"}
    assert "HANSA_EXPERIENCE" not in json.dumps(job)


@pytest.mark.attack(
    by="the author of a Federation",
    does=(
        "names another party's Secret as `credentialsSecret` or `caSecret`, to mount it in a "
        "sidecar"
    ),
    result="no container starts before the Secret's owner consents",
)
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
    task = CourierAssignment.model_validate_json(variable["value"])
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
    with pytest.raises(JobRefused, match=r"spec.exchange.signingSecret: got nothing"):
        build_manifest(request, ready, ADMIN)


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
    with pytest.raises(JobRefused, match=r"spec.storage.sealingSecret: got nothing"):
        build_manifest(request, ready, ADMIN)


MASKED = make_federation(
    *(
        {
            "name": name,
            "world": "maze",
            "experienceStorage": {"s3": {"bucket": "private"}},
            "maskingKey": f"x25519:{name * 43}",
            "maskingSecret": {"name": f"masks-of-{name}"},
        }
        for name in "abc"
    ),
    storage={"s3": {"bucket": "shared"}},
    aggregation={"secure": {}},
)


def test_a_client_has_its_own_silos_masking_key_and_no_other_job_does() -> None:
    job = build_job(MASKED, ADMIN, "client")
    given = {"name": "HANSA_MASKING_KEY", "value": "/etc/hansa/masking/masking.key"}
    assert given in container(job)["env"]
    items = [{"key": "masking.key", "path": "masking.key"}]
    volume = {"name": "hansa-masking", "secret": {"secretName": "masks-of-a", "items": items}}
    assert volume in job["spec"]["template"]["spec"]["volumes"]
    assert consent_of(job)["masks-of-a"] == "hansa.fed.a"
    assert "masks-of-b" not in json.dumps(job)
    assert "masks-of" not in json.dumps(build_job(MASKED, ADMIN, "aggregator"))


def test_without_its_masking_secret_no_job_of_a_silo_is_made_where_updates_are_masked() -> None:
    own = MASKED.spec.environments[0].model_copy(update={"masking_secret": None})
    spec = MASKED.spec.model_copy(update={"environments": [own, *MASKED.spec.environments[1:]]})
    ready, request = advance(MASKED.model_copy(update={"spec": spec}), "client")
    with pytest.raises(JobRefused, match=r"spec.environments\[0\].maskingSecret: got nothing"):
        build_manifest(request, ready, ADMIN)


OWN_KEYS = make_federation(
    *(
        {"name": name, "world": "maze", "experienceKeySecret": {"name": f"key-of-{name}"}}
        for name in "ab"
    ),
    storage={"s3": {"bucket": "shared"}, "sealingSecret": {"name": "hansa-sealing"}},
    aggregation={"sealTo": f"x25519:{'A' * 43}"},
)
"""No silo has a store of its own, and updates are sealed all the same."""


@pytest.mark.parametrize("role", ["client", "evaluate"])
def test_what_writes_experience_has_its_own_silos_key_and_no_other_job_does(role: str) -> None:
    job = build_job(OWN_KEYS, ADMIN, role)
    given = {"name": "HANSA_EXPERIENCE_KEY", "value": "/etc/hansa/experience/sealing.key"}
    assert given in container(job)["env"]
    items = [{"key": "sealing.key", "path": "sealing.key"}]
    volume = {"name": "hansa-experience", "secret": {"secretName": "key-of-a", "items": items}}
    assert volume in job["spec"]["template"]["spec"]["volumes"]
    assert consent_of(job)["key-of-a"] == "hansa.fed.a"
    assert "key-of-b" not in json.dumps(job)
    assert "key-of" not in json.dumps(build_job(OWN_KEYS, ADMIN, "aggregator"))


@pytest.mark.parametrize(
    "federation, secret",
    [
        pytest.param(MASKED, "masks-of-b", id="the key it masks by"),
        pytest.param(OWN_KEYS, "key-of-b", id="the key its experience is sealed to"),
    ],
)
def test_no_pod_template_reads_another_silos_key(federation: Federation, secret: str) -> None:
    reads = {"name": "x", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}
    template = {"spec": {"containers": [{"name": "client", "env": [reads]}]}}
    first, *others = federation.spec.environments
    own = first.model_copy(update={"pod_template": template})
    spec = federation.spec.model_copy(update={"environments": [own, *others]})
    ready, request = advance(federation.model_copy(update={"spec": spec}), "client")
    with pytest.raises(JobRefused, match=rf"{secret}.*environment b"):
        build_manifest(request, ready, ADMIN)


@pytest.mark.attack(
    by="the author of a Federation",
    does="leaves `credentialsSecret` out, to get the aggregator's",
    result="refused",
)
def test_an_environment_without_credentials_never_gets_the_aggregators() -> None:
    own = {**MAZE, "credentialsSecret": {"name": "own"}}
    federation = make_federation(own, {"name": "wordle", "world": "wordle"}, storage=STORE)
    ready, request = advance(federation, "client")
    assert _secrets(build_manifest(request, ready, Settings())) == {"own"}
    other = next(r for r in requests_of(federation) if r.environment == "wordle")
    with pytest.raises(JobRefused) as refused:
        build_manifest(other, ready, Settings())
    assert [r.sentence for r in refused.value.refusals] == [
        "spec.environments[1].credentialsSecret: got nothing, expected a Secret with keys of its "
        "own ('hansa-s3' of spec.storage is the aggregator's)"
    ]
    assert _secrets(build_job(federation, role="aggregator")) == {"hansa-s3"}


def test_keys_of_all_may_be_one_secret_where_the_spec_says_so() -> None:
    shared = {**MAZE, "credentialsSecret": {"name": "hansa-s3"}}
    assert _secrets(build_job(make_federation(shared, storage=STORE))) == {"hansa-s3"}
    assert _secrets(build_job(make_federation())) == set()


def _secrets(job: dict[str, Any]) -> set[str]:
    env = container(job)["env"]
    return {v["valueFrom"]["secretKeyRef"]["name"] for v in env if "valueFrom" in v}


def test_no_secret_value_and_no_credential_is_in_a_job() -> None:
    text = json.dumps(build_job(FULL, ADMIN))
    assert "AWS_SECRET_ACCESS_KEY" in text
    assert all(
        "value" not in v for v in container(build_job(FULL, ADMIN))["env"] if "AWS_A" in v["name"]
    )
