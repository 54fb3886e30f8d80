"""A silo in a namespace of its own takes part by letters alone; one operator serves both sides."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api import bucket_keys, constants
from hansa.kubernetes.pod_policy import consent
from tests.cluster.installed import ADDRESS, BUCKET, OPERATOR, Hansa
from tests.cluster.installed import NAMESPACE as COORDINATOR
from tests.cluster.kube import Cluster, Manifest
from tests.cluster.silos import SIGNING, Invited, invite, pair, signing_secret
from tests.support.small import hansa as local_hansa

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
NAME, SILO, PRIVATE = "shared", "webshop", "private"
CLINIC = "clinic"
"""The silo's namespace."""
GPU = {"spec": {"containers": [{"name": "client", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}


@pytest.fixture
def clinic(hansa: Hansa) -> Iterator[Cluster]:
    """The silo's namespace, in which nobody else is."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLINIC}}
    hansa.cluster.apply(body)
    own = Cluster(state=hansa.cluster.state, namespace=CLINIC)
    own.until(lambda: own.get("serviceaccount", "default"), "the default ServiceAccount")
    yield own
    hansa.cluster.kubectl("delete", "namespace", CLINIC, "--wait=false")
    hansa.clear(NAME)
    hansa.wipe(PRIVATE)


def test_its_result_is_that_of_a_local_run_and_its_experience_stays_its_own(
    hansa: Hansa, clinic: Cluster, tmp_path: Path, local_adapter: dict[str, bytes]
) -> None:
    invited = invite(hansa, tmp_path, NAME, SILO)
    _consent(hansa.cluster, SIGNING, consent.build_key(NAME, ""))
    hansa.apply(invited.federation)
    member = _member(invited)
    _give_secrets(hansa, clinic, invited)
    _consent_as_printed(clinic, member, tmp_path / "member.yaml")
    open_handed = {**member, "spec": {**member["spec"], "experienceStorage": None}}
    assert "spec.experienceStorage: got nothing" in clinic.refusal(open_handed)
    close = {"spec": {"hostNetwork": True}}
    clinic.apply({**member, "spec": {**member["spec"], "podTemplate": close}})
    _until(clinic, lambda: _condition(clinic, "Accepted").get("status") == "False", "is refused")
    assert "spec.podTemplate.spec.hostNetwork" in _condition(clinic, "Accepted")["message"]
    assert not clinic.list("job")
    clinic.apply(member)
    _until(clinic, lambda: _clients(clinic), "works on its first order")
    gone = hansa.cluster.kubectl("delete", "pod", *hansa.operators(), "--force")
    assert gone.returncode == 0, gone.stderr
    hansa.finish(NAME)
    assert hansa.adapter(NAME) == local_adapter
    _until(clinic, lambda: _status(clinic).get("phase") == "Idle", "hears that it is over")
    assert {line["outcome"] for line in _status(clinic)["rounds"]} == {"answered"}
    for type_ in ("Accepted", "Connected"):
        assert _condition(clinic, type_)["status"] == "True"
    _check_what_is_where(hansa, clinic)


def _check_what_is_where(hansa: Hansa, clinic: Cluster) -> None:
    """Jobs of the silo in its namespace alone, its trajectories in its store alone."""
    jobs = hansa.jobs(NAME)
    assert jobs and all(SILO not in job["metadata"]["name"] for job in jobs)
    own = clinic.list("job")
    assert own and all(job["metadata"]["labels"][constants.LABEL_MEMBER] == NAME for job in own)
    clients = [job for job in own if job["metadata"]["labels"][constants.LABEL_ROLE] != "courier"]
    pods = [job["spec"]["template"]["spec"] for job in clients]
    assert clients and all(SIGNING not in str(pod["volumes"]) for pod in pods)
    assert all(f"{PRIVATE}-{SILO}" in str(pod["volumes"]) for pod in pods)
    assert not list(hansa.store(NAME).list(bucket_keys.experience_root(NAME, SILO)))
    assert list(hansa.store(PRIVATE).list(bucket_keys.experience_root(PRIVATE, SILO)))
    assert f'hansa_member_phase{{member="{NAME}",namespace="{CLINIC}",phase="Idle"}} 1.0' in (
        hansa.metrics()
    )
    denied = clinic.kubectl(
        *("auth", "can-i", "get", "secrets"),
        f"--as=system:serviceaccount:{COORDINATOR}:{OPERATOR}",
    )
    assert denied.stdout.strip() == "no"


def _member(invited: Invited) -> Manifest:
    """The silo's manifest as its owner completes it."""
    spec = invited.member["spec"]
    spec["storage"]["s3"] |= {
        "endpoint": ADDRESS,
        "credentialsSecret": {"name": f"{NAME}-{SILO}"},
    }
    private = {"endpoint": ADDRESS, "bucket": BUCKET, "prefix": PRIVATE}
    spec |= {
        "experienceStorage": {
            "s3": {**private, "credentialsSecret": {"name": f"{PRIVATE}-{SILO}"}}
        },
        "signingSecret": {"name": SIGNING},
        "podTemplate": GPU,
    }
    invited.member["metadata"]["namespace"] = CLINIC
    return invited.member


def _give_secrets(hansa: Hansa, clinic: Cluster, invited: Invited) -> None:
    """The silo's key and both pairs."""
    clinic.apply(signing_secret(invited.key, CLINIC))
    for name in (f"{NAME}-{SILO}", f"{PRIVATE}-{SILO}"):
        metadata = {"name": name, "namespace": CLINIC}
        kind = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        clinic.apply({**kind, "stringData": pair(hansa, name)})


def _consent_as_printed(clinic: Cluster, member: Manifest, file: Path) -> None:
    """Type what `hansa validate` tells the Secrets' owner to type."""
    file.write_text(yaml.safe_dump(member))
    said = local_hansa("validate", file, "--cluster")
    assert said.returncode == 0, said.stderr
    lines = [line for line in said.stderr.splitlines() if line.startswith("  kubectl ")]
    assert len(lines) == 3
    for line in lines:
        done = clinic.kubectl(*shlex.split(line)[1:])
        assert done.returncode == 0, done.stderr


def _consent(cluster: Cluster, secret: str, key: str) -> None:
    body = f'{{"stringData": {{"{key}": "{consent.YES}"}}}}'
    patched = cluster.kubectl("patch", "secret", secret, "--type=merge", "-p", body)
    assert patched.returncode == 0, patched.stderr


def _status(clinic: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = clinic.get("hmem", NAME).get("status") or {}
    return found


def _condition(clinic: Cluster, type_: str) -> dict[str, Any]:
    conditions = _status(clinic).get("conditions") or []
    return next((c for c in conditions if c["type"] == type_), {})


def _clients(clinic: Cluster) -> list[Manifest]:
    return clinic.list("job", f"{constants.LABEL_MEMBER}={NAME},{constants.LABEL_ROLE}=client")


def _until(clinic: Cluster, is_so: Any, what: str) -> None:
    try:
        clinic.until(is_so, what)
    except AssertionError as error:
        output = [
            clinic.kubectl(*part).stdout[-4000:]
            for part in (
                ("get", "hmem,jobs,pods", "-o", "wide"),
                ("get", "hmem", NAME, "-o", "jsonpath={.status}"),
                ("get", "events", "--sort-by=.lastTimestamp"),
            )
        ]
        raise AssertionError("\n\n".join([str(error), *output])) from None
