"""The apiserver takes good FederationMembers; a bad one it refuses by field and sentence."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hansa.api import constants
from hansa.api.member_status import FederationMember
from tests.cluster.kube import Cluster
from tests.cluster.members import KEY, S3, SPEC, manifest
from tests.support.bad_manifests import BAD, Bad
from tests.support.clinic import REPORT, WINDOW, Clinic, working

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def own(unattended: Cluster) -> Iterator[Cluster]:
    """A namespace for all tests below, in which no operator writes a status of its own."""
    own = replace(unattended, namespace=f"test-crd-member-{os.getpid()}")
    assert own.kubectl("create", "namespace", own.namespace).returncode == 0
    yield own
    own.kubectl("delete", "namespace", own.namespace, "--wait=false")


@pytest.fixture
def members(own: Cluster) -> Iterator[Cluster]:
    """The cluster, which holds no FederationMember when the test begins."""
    yield own
    assert own.kubectl("delete", "hmem", "--all").returncode == 0


def federation(**fields: Any) -> dict[str, Any]:
    return {"federation": {**SPEC["federation"], **fields}}


@pytest.mark.parametrize(
    "bad", [bad for bad in BAD if bad.door and bad.kind == constants.MEMBER_KIND], ids=str
)
def test_a_bad_member_is_refused(members: Cluster, bad: Bad) -> None:
    assert bad.door in members.refusal(bad.manifest())


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another run": (
        federation(run="c" * 64),
        "spec.federation.run: cannot change after the member was made",
    ),
    "another name": (
        federation(environment="other"),
        "spec.federation.environment: cannot change after the member was made",
    ),
    "another world": ({"world": "wordle"}, "spec.world: cannot change after the member was made"),
    "another bucket": (
        {"storage": {"s3": {**S3, "bucket": "other"}}},
        "spec.storage.s3.bucket: cannot change after the member was made",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_that_would_break_with_its_letters_is_refused(members: Cluster, case: str) -> None:
    fields, sentence = CHANGES[case]
    members.apply(manifest())
    assert sentence in members.refusal(manifest(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"limits": {"most": {"rounds": 9}}}, id="another limit"),
        pytest.param(
            {
                "limits": {
                    "only": {"settings.training.learner": ["once"], "settings.stepFactor": [1]}
                }
            },
            id="choices of any kind",
        ),
        pytest.param(federation(publicKeys=[KEY, KEY]), id="another key of the coordinator"),
        pytest.param({"storage": {"s3": {**S3, "endpoint": "http://other"}}}, id="another address"),
        pytest.param({"suspend": True}, id="suspended"),
        pytest.param({"leave": True}, id="leaving"),
        pytest.param({"options": {"size": [1, {"any": "thing"}]}}, id="options of its world"),
        pytest.param({"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}, id="a Pod template"),
    ],
)
def test_a_change_that_is_the_owners_own_is_taken(members: Cluster, fields: dict[str, Any]) -> None:
    members.apply(manifest())
    members.apply(manifest(**fields))
    spec = members.get("hmem", "clinic")["spec"]
    [(name, value)] = fields.items()
    if isinstance(value, dict):
        assert {key: spec[name][key] for key in value}.keys() == value.keys()
    else:
        assert spec[name] == value


def test_columns_and_short_name_are_those_that_owners_read(members: Cluster) -> None:
    members.apply(manifest())
    narrow = members.kubectl("get", "hmem").stdout.split("\n")[0].split()
    assert narrow == ["NAME", "FEDERATION", "PHASE", "ROUND", "ORDER", "SUCCESS", "AGE"]
    wide = members.kubectl("get", "hmem", "-o", "wide").stdout.split("\n")[0].split()
    assert wide[-3:] == ["CONNECTED", "ALLOWED", "AGE"]
    assert "clinic" in members.kubectl("get", "hansa").stdout


def test_explain_reads_like_documentation(members: Cluster) -> None:
    text = members.kubectl("explain", "federationmember.spec.limits").stdout
    assert "How far an order may go beyond that." in text


def clinics() -> Iterator[Clinic]:
    """A silo after each thing that can happen to it."""
    yield Clinic().turn()
    yield working()
    done = working().post()
    yield done.set(done.job, "succeeded", report=REPORT).turn()
    yield done.post()
    refusing = Clinic().turn().post()
    yield refusing.order(veto="most", path="rounds", message="rounds: got 9, allowed at most 3")
    yield working(**WINDOW)
    failed = Clinic().turn()
    yield failed.set(failed.courier, "failed", exit_code=42, message="access denied").turn()
    yield working().order(kind="rest", role="", round=0, episodes=0)


def test_every_status_comes_back_as_it_was_written(members: Cluster) -> None:
    members.apply(manifest())
    seen = set()
    for clinic in clinics():
        written = clinic.status.to_json()
        seen.add(written["phase"])
        patch = json.dumps([{"op": "add", "path": "/status", "value": written}])
        done = members.kubectl(
            "patch", "hmem", "clinic", "--subresource=status", "--type=json", "-p", patch
        )
        assert done.returncode == 0, done.stderr
        stored = members.get("hmem", "clinic")
        assert stored["status"] == written
        assert FederationMember.model_validate(stored).status == clinic.status
    assert seen >= {"Idle", "Working", "Refusing", "Waiting", "Failed"}
    line = members.kubectl("get", "hmem", "-o", "wide").stdout.splitlines()[1].split()
    assert line[:3] == ["clinic", "five", "Idle"]
    assert line[-3:-1] == ["True", "Unknown"]
