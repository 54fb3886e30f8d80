"""A tracker's Job as the cluster gets it: the figures, its own Secret, and nothing else.

HANSA_UPDATE_GOLDEN=1 writes the golden file anew; read its diff before you keep it.
"""

import json
import os
from dataclasses import replace
from typing import Any

import pytest
import yaml

from hansa.tracking.task import TrackerTask
from hansa_operator.jobs import Refused, build
from hansa_operator.settings import Settings
from tests.unit.hansa_operator.jobcases import (
    ADMIN,
    GOLDEN,
    MAZE,
    STORE,
    consent_of,
    unknown_fields,
)
from tests.unit.hansa_operator.objects import advance, build_job, container, make_federation

MLFLOW = {
    "to": "mlflow",
    "url": "https://mlflow.silos.svc:5000",
    "credentialsSecret": {"name": "mlflow"},
    "caSecret": {"name": "mlflow-tls", "key": "ca.crt"},
}
SILO = {**MAZE, "credentialsSecret": {"name": "hansa-maze"}}


def tracked(**tracking: Any) -> Any:
    return make_federation(SILO, storage=STORE, tracking=tracking or MLFLOW)


def test_a_trackers_job_is_exactly_its_golden_file() -> None:
    images = {"client_image": "hansa-client:golden", "server_image": "hansa-server:golden"}
    job = build_job(tracked(), replace(ADMIN, **images), "tracker")
    variable = container(job)["env"][0]
    assert TrackerTask.model_validate_json(variable["value"]).to == "mlflow"
    variable["value"] = "<the assignment>"
    file = GOLDEN / "tracker.yaml"
    if os.environ.get("HANSA_UPDATE_GOLDEN") == "1":
        file.write_text(yaml.safe_dump(job, sort_keys=False, width=100))
    assert job == yaml.safe_load(file.read_text())


def test_it_has_its_own_secrets_with_their_consent_and_no_key_of_a_store() -> None:
    job = build_job(tracked(), ADMIN, "tracker")
    assert consent_of(job) == dict.fromkeys(("mlflow", "mlflow-tls"), "hansa.fed.tracking.job")
    text = json.dumps(job["spec"]["template"])
    assert "AWS_" not in text and "hansa-s3" not in text and "hansa-maze" not in text
    assert "bucket" not in container(job)["env"][0]["value"]
    for role in ("client", "aggregator"):
        assert "mlflow" not in json.dumps(build_job(tracked(), ADMIN, role)["spec"])


def test_it_gets_no_token_and_no_identity_that_could_open_the_bucket() -> None:
    cloud = {"spec": {"serviceAccountName": "bucket-writer", "nodeSelector": {"pool": "a"}}}
    settings = Settings(server_pod_template=cloud)
    pods = {
        role: build_job(tracked(), settings, role)["spec"]["template"]["spec"]
        for role in ("tracker", "aggregator")
    }
    assert pods["aggregator"]["serviceAccountName"] == "bucket-writer"
    assert "serviceAccountName" not in pods["tracker"]
    assert pods["tracker"]["nodeSelector"] == {"pool": "a"}
    assert pods["tracker"]["automountServiceAccountToken"] is False


def test_files_go_to_the_claim() -> None:
    job = build_job(tracked(to="tensorboard", claim="boards"), role="tracker")
    pod = job["spec"]["template"]["spec"]
    claims = [v["persistentVolumeClaim"] for v in pod["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"claimName": "boards"}]
    [place] = [e["value"] for e in container(job)["env"] if e["name"] == "HANSA_TRACKED"]
    assert place in [mount["mountPath"] for mount in container(job)["volumeMounts"]]
    assert pod["securityContext"]["fsGroup"] == 65532


def test_without_a_claim_the_tracker_is_refused_and_nobody_else() -> None:
    federation = tracked(to="tensorboard")
    ready, request = advance(federation, "tracker")
    with pytest.raises(Refused, match=r"spec.tracking.claim: got nothing, expected a Persistent"):
        build(request, ready, ADMIN)
    for role in ("client", "aggregator"):
        assert build_job(federation, ADMIN, role)


def test_its_certificate_must_be_one() -> None:
    wrong = {**MLFLOW, "caSecret": {"name": "db", "key": "password"}}
    ready, request = advance(tracked(**wrong), "tracker")
    with pytest.raises(Refused, match=r"spec.tracking.caSecret.key: got 'password'"):
        build(request, ready, ADMIN)


def test_kubernetes_knows_every_field_of_it() -> None:
    from kubernetes import client

    for tracking in (MLFLOW, {"to": "wandb", "claim": "boards", "experiment": "agents"}):
        assert (
            unknown_fields(build_job(tracked(**tracking), ADMIN, "tracker"), client.V1Job, client)
            == []
        )
