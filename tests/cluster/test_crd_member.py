"""The apiserver takes good FederationMembers; a bad one it refuses by field and sentence."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hansa.api.member_status import FederationMember
from tests.cluster.kube import Cluster
from tests.cluster.members import KEY, S3, SPEC, manifest
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


def agreed(**fields: Any) -> dict[str, Any]:
    return {"agreed": {**SPEC["agreed"], **fields}}


def federation(**fields: Any) -> dict[str, Any]:
    return {"federation": {**SPEC["federation"], **fields}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no federation": ({"federation": None}, "spec.federation: Required value"),
    "no bucket between the parties": ({"storage": None}, "spec.storage: Required value"),
    "no world": ({"world": None}, "spec.world: Required value"),
    "no agreement": ({"agreed": None}, "spec.agreed: Required value"),
    "no private store": (
        {"experienceStorage": None},
        "spec.experienceStorage: got nothing, expected the silo's private store",
    ),
    "no signing key": (
        {"signingSecret": None},
        "spec.signingSecret: got nothing, expected the Secret with the silo's own key",
    ),
    "a base model without a digest": (
        agreed(model={"source": "builtin:tiny"}),
        "spec.agreed.model.sha256: got nothing, expected the digest that `hansa model` prints",
    ),
    "an adapter without a digest": (
        agreed(adapter={"rank": 8}),
        "spec.agreed.adapter.shapes: got nothing, expected the digest that `hansa model` prints",
    ),
    "no key of the coordinator": (federation(publicKeys=[]), "spec.federation.publicKeys"),
    "a key that is none": (federation(publicKeys=["rsa:x"]), "spec.federation.publicKeys"),
    "a run that is no digest": (federation(run="run"), "spec.federation.run"),
    "a name with capitals": (federation(environment="Clinic"), "spec.federation.environment"),
    "too many keys of its own": ({"publicKeys": [KEY] * 4}, "spec.publicKeys: Too many"),
    "a limit that is no number": (
        {"limits": {"most": {"rounds": "many"}}},
        "spec.limits.most.rounds",
    ),
    "a choice of nothing": (
        {"limits": {"only": {"settings.training.learner": []}}},
        "spec.limits.only",
    ),
    "hours that are none": (
        {"limits": {"windows": [{"from": "25:00", "to": "06:00"}]}},
        "spec.limits.windows[0].from",
    ),
    "a day that is none": (
        {"limits": {"windows": [{"days": ["Day"], "from": "20:00", "to": "06:00"}]}},
        "spec.limits.windows[0].days[0]",
    ),
    "polls without a pause": ({"pollSeconds": 1}, "spec.pollSeconds"),
    "a name that is too long": (
        {"name": "m" * 41},
        "metadata.name: expected at most 40 characters, so that Job names have room",
    ),
    "an unknown field": ({"worlds": "maze"}, 'unknown field "spec.worlds"'),
    "an unknown field of what was agreed": (
        agreed(round=3),
        'unknown field "spec.agreed.round"',
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_member_is_refused(members: Cluster, case: str) -> None:
    fields, sentence = BAD[case]
    assert sentence in members.refusal(manifest(**fields))


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
