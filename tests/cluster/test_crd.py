"""The apiserver takes good Federations; a bad one it refuses in a sentence that names the field."""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from hansa.jobs import ObservedJob
from hansa.plan import plan
from hansa.status import FederationStatus
from tests.builders import later, make_federation, make_job, make_report, with_status
from tests.cluster.kube import Cluster, Manifest

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
AWAY = {"publicKeys": ["ed25519:" + "A" * 43]}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no environments": ({"environments": None}, "spec.environments: Required value"),
    "an empty list of environments": ({"environments": []}, "spec.environments"),
    "privacy without a delta": (
        {"privacy": {"epsilon": 8}},
        "spec.privacy.delta: Required value",
    ),
    "masks of two silos": (
        {"aggregation": {"secure": {}}},
        "spec.aggregation.secure: expected at least 3 spec.environments, each with its own",
    ),
    "masks of a silo without a key": (
        {"aggregation": {"secure": {}}, "environments": [*KEYED, MAZE]},
        "spec.aggregation.secure: expected at least 3 spec.environments, each with its own",
    ),
    "a secret of a silo that runs elsewhere": (
        {"environments": [{"name": "maze", "member": AWAY, "maskingSecret": {"name": "s"}}]},
        "spec.environments.maskingSecret: expected none: a silo with member runs elsewhere",
    ),
    "a key for the experience of a silo that runs elsewhere": (
        {"environments": [{"name": "maze", "member": AWAY, "experienceKeySecret": {"name": "s"}}]},
        "spec.environments.experienceKeySecret: expected none: a silo with member runs elsewhere",
    ),
    "an environment without a world": (
        {"environments": [{"name": "maze"}]},
        "spec.environments.world: expected the world that it plays",
    ),
    "two environments of one name": (
        {"environments": [MAZE, {"name": "maze", "world": "wordle"}]},
        'spec.environments[1]: Duplicate value: {"name":"maze"}',
    ),
    "a name that Hansa keeps": (
        {"environments": [{"name": "aggregator", "world": "maze"}]},
        "'aggregator' is kept for Hansa itself",
    ),
    "an environment name with capitals": (
        {"environments": [{"name": "Maze", "world": "maze"}]},
        "spec.environments[0].name: Invalid value",
    ),
    "an environment name that is too long": (
        {"environments": [{"name": "m" * 31, "world": "maze"}]},
        "spec.environments[0].name: Too long: may not be more than 30",
    ),
    "a federation name that is too long": (
        {"name": "f" * 41},
        "metadata.name: expected at most 40 characters, so that Job names have room",
    ),
    "a federation name with dots": (
        {"name": "fed.one"},
        "metadata.name: expected lower-case letters, digits and inner dashes",
    ),
    "more updates than environments": (
        {"participation": {"minimumUpdates": 3}},
        "spec.participation.minimumUpdates: expected at most the number of spec.environments",
    ),
    "no updates": ({"participation": {"minimumUpdates": 0}}, "spec.participation.minimumUpdates"),
    "no rounds": ({"rounds": 0}, "spec.rounds"),
    "rounds as text": ({"rounds": "three"}, "spec.rounds"),
    "a negative seed": ({"seed": -1}, "spec.seed"),
    "an adapter of rank 0": ({"adapter": {"rank": 0}}, "spec.adapter.rank"),
    "a dropout of 1": ({"adapter": {"dropout": 1}}, "spec.adapter.dropout"),
    "a temperature of 0": ({"exploration": {"temperature": 0}}, "spec.exploration.temperature"),
    "a strategy that no package can bring": (
        {"aggregation": {"strategy": "my.package:Bulyan"}},
        "spec.aggregation.strategy",
    ),
    "an unknown kind of model": ({"model": {"source": "ftp://x"}}, "spec.model.source"),
    "a bucket with capitals": ({"storage": {"s3": {"bucket": "My"}}}, "spec.storage.s3.bucket"),
    "a storage without a bucket": (
        {"storage": {"s3": {"prefix": "run"}}},
        "spec.storage.s3.bucket: Required value",
    ),
    "a prefix that ends with a slash": (
        {"storage": {"s3": {"bucket": "bucket", "prefix": "run/"}}},
        "spec.storage.s3.prefix",
    ),
    "an endpoint without a scheme": (
        {"storage": {"s3": {"bucket": "bucket", "endpoint": "minio:9000"}}},
        "spec.storage.s3.endpoint",
    ),
    "an unknown field": ({"round": 3}, 'unknown field "spec.round"'),
    "an unknown field deep inside": (
        {"training": {"learningrate": 0.1}},
        'unknown field "spec.training.learningrate"',
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_federation_is_refused(federations: Cluster, case: str) -> None:
    fields, sentence = BAD[case]
    assert sentence in federations.refusal(make_manifest(**fields))


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
