"""The apiserver takes good Federations; a bad one it refuses in a sentence that names the field."""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from hansa.api import constants
from hansa.api.jobs import ObservedJob
from hansa.api.status import FederationStatus
from hansa.plan.federation import plan
from tests.cluster.kube import Cluster, Manifest
from tests.support.bad_manifests import BAD, Bad
from tests.support.builders import later, make_federation, make_job, make_report, with_status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MAZE = {"name": "maze", "world": "maze"}
WORDS = {"name": "words", "world": "wordle"}
STORAGE = {"s3": {"bucket": "bucket", "prefix": "run"}}


def make_manifest(name: str = "fed", **fields: Any) -> Manifest:
    """A Federation of two worlds; a field that is None is left out."""
    given = {"rounds": 3, "storage": STORAGE, "environments": [MAZE, WORDS], **fields}
    spec = {field: deepcopy(value) for field, value in given.items() if value is not None}
    kind = {"apiVersion": "hansa.dev/v1alpha1", "kind": "Federation"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def own(unattended: Cluster) -> Iterator[Cluster]:
    """A namespace for all tests below, in which no operator writes a status of its own."""
    own = replace(unattended, namespace=f"test-crd-{os.getpid()}")
    assert own.kubectl("create", "namespace", own.namespace).returncode == 0
    yield own
    own.kubectl("delete", "namespace", own.namespace, "--wait=false")


@pytest.fixture
def federations(own: Cluster) -> Iterator[Cluster]:
    """The cluster, which holds no Federation when the test begins."""
    yield own
    assert own.kubectl("delete", "hfed", "--all").returncode == 0


KEYED = [{"name": name, "world": "maze", "maskingKey": f"x25519:{name * 43}"} for name in "abc"]


@pytest.mark.parametrize(
    "bad", [bad for bad in BAD if bad.door and bad.kind == constants.KIND], ids=str
)
def test_a_bad_federation_is_refused(federations: Cluster, bad: Bad) -> None:
    assert bad.door in federations.refusal(bad.manifest())


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another seed": ({"seed": 8}, "spec.seed: cannot change after the federation was made"),
    "another model": ({"model": {"source": "path:/model"}}, "spec.model: cannot change"),
    "another rank": ({"adapter": {"rank": 4}}, "spec.adapter: cannot change"),
    "other target modules": (
        {"adapter": {"targetModules": ["q_proj"]}},
        "spec.adapter: cannot change",
    ),
    "another bucket": (
        {"storage": {"s3": {"bucket": "other", "prefix": "run"}}},
        "spec.storage: cannot change",
    ),
    "no storage": ({"storage": None}, "spec.storage: cannot change"),
    "fewer rounds": ({"rounds": 2}, "spec.rounds: may grow, never shrink"),
    "another world under the old name": (
        {"environments": [MAZE, {"name": "words", "world": "textcraft"}]},
        "spec.environments.world: cannot change; give the new world a new name",
    ),
    "fewer environments than updates": (
        {"environments": [MAZE], "participation": {"minimumUpdates": 2}},
        "spec.participation.minimumUpdates: expected at most the number of spec.environments",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_that_would_break_the_run_is_refused(federations: Cluster, case: str) -> None:
    fields, sentence = CHANGES[case]
    federations.apply(make_manifest())
    assert sentence in federations.refusal(make_manifest(**fields))


def test_a_masking_key_may_come_and_never_change_or_go(federations: Cluster) -> None:
    bare = [{"name": each["name"], "world": each["world"]} for each in KEYED]
    federations.apply(make_manifest(environments=bare))
    masked = {"environments": KEYED, "aggregation": {"secure": {"clipNorm": 0.5}}}
    federations.apply(make_manifest(**masked))
    assert federations.get("hfed", "fed")["spec"]["aggregation"]["secure"]["clipNorm"] == 0.5
    other = {**KEYED[0], "maskingKey": "x25519:" + "B" * 43}
    for first in (other, bare[0]):
        refused = federations.refusal(make_manifest(environments=[first, *KEYED[1:]]))
        assert "spec.environments.maskingKey: cannot change; give the silo a new name" in refused


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"rounds": 9}, id="more rounds"),
        pytest.param({"environments": [WORDS]}, id="an environment fewer"),
        pytest.param(
            {"environments": [{"name": "new", "world": "maze"}, WORDS, MAZE]}, id="a new one"
        ),
        pytest.param({"suspend": True}, id="suspended"),
        pytest.param({"training": {"learningRate": 0.001}}, id="another learning rate"),
        pytest.param(
            {"storage": {"s3": {**STORAGE["s3"], "endpoint": "http://minio:9000"}}},
            id="another address of the same bucket",
        ),
        pytest.param(
            {"podTemplate": {"spec": {"nodeSelector": {"any": "thing"}}}}, id="another Pod template"
        ),
        pytest.param(
            {"environments": [{**MAZE, "options": {"size": [1, {"any": "thing"}]}}, WORDS]},
            id="options of a world",
        ),
    ],
)
def test_a_change_that_a_run_can_follow_is_taken(
    federations: Cluster, fields: dict[str, Any]
) -> None:
    federations.apply(make_manifest())
    federations.apply(make_manifest(**fields))
    spec = federations.get("hfed", "fed")["spec"]
    assert {field: spec[field] for field in fields if field not in ("training", "storage")} == {
        field: value for field, value in fields.items() if field not in ("training", "storage")
    }


def test_columns_and_short_name_are_those_that_users_read(federations: Cluster) -> None:
    federations.apply(make_manifest())
    heading = federations.kubectl("get", "hfed").stdout.split("\n")[0].split()
    assert heading == ["NAME", "PHASE", "ROUND", "UPDATES", "SUCCESS", "AGE"]
    assert "fed" in federations.kubectl("get", "hansa").stdout


def test_explain_reads_like_documentation(federations: Cluster) -> None:
    text = federations.kubectl("explain", "federation.spec.participation").stdout
    assert "Who must take part, and for how long the others wait." in text


def statuses() -> Iterator[FederationStatus]:
    """The status after each turn of a run of two rounds in which one client fails once."""
    federation = make_federation("maze", "wordle")
    jobs: dict[str, ObservedJob] = {}
    for minute in range(40):
        turn = plan(federation, list(jobs.values()), later(60 * minute))
        for name in turn.delete:
            del jobs[name]
        for request in turn.create:
            if request.name == "fed-r1-maze-a1":
                jobs[request.name] = make_job(request, "failed", message="was killed")
            else:
                report = make_report(request)
                jobs[request.name] = make_job(request, "succeeded", report=report)
        federation = with_status(federation, turn.status)
        yield turn.status


def test_the_status_of_every_turn_comes_back_as_it_was_written(federations: Cluster) -> None:
    federations.apply(make_manifest())
    seen = {status.phase for status in statuses()}
    assert seen >= {"Running", "Succeeded"}
    distinct = {json.dumps(status.to_json(), sort_keys=True): None for status in statuses()}
    assert len(distinct) > 6
    for written in distinct:
        patch = f'[{{"op": "add", "path": "/status", "value": {written}}}]'
        done = federations.kubectl(
            "patch", "hfed", "fed", "--subresource=status", "--type=json", "-p", patch
        )
        assert done.returncode == 0, done.stderr
        assert federations.get("hfed", "fed")["status"] == json.loads(written)
