"""Bad federations that the apiserver takes: a condition tells it, and names the field.

None of them stops the operator, or a good federation beside them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hansa.api import constants
from tests.cluster.bad import LET_IN, QUEUED, REPORTED, STATUSES, make
from tests.cluster.installed import NAMESPACE as INSTALLED
from tests.cluster.installed import Hansa
from tests.cluster.kube import Cluster, Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAMESPACE = "hansa-bad"
GOOD = "good-beside-them"
CRD = f"crd/{constants.PLURAL}.{constants.GROUP}"


def slug(case: str) -> str:
    """The name of a case's federation."""
    return re.sub(r"[^a-z0-9]+", "-", case.lower())[-40:].strip("-")


def named(case: str, manifest: Manifest) -> Manifest:
    """A case's federation under its name."""
    return {**manifest, "metadata": {"name": slug(case)}}


@pytest.fixture(scope="module")
def silo(hansa: Hansa) -> Iterator[Hansa]:
    """The installed operator, seen from a namespace of bad federations."""
    own = replace(hansa, cluster=Cluster(state=hansa.cluster.state, namespace=NAMESPACE))
    assert own.cluster.kubectl("create", "namespace", NAMESPACE).returncode == 0
    yield own
    own.cluster.kubectl("delete", "namespace", NAMESPACE)


# -- in a condition -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(silo: Hansa) -> str:
    """A good federation beside the bad ones."""
    silo.apply(make(GOOD, environments=[QUEUED]))
    return GOOD


@pytest.fixture(scope="module")
def reported(silo: Hansa, good: str) -> Hansa:
    """All federations of the table, which the apiserver takes."""
    bad = [named(case, manifest) for case, (manifest, _) in REPORTED.items()]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": bad})
    done = silo.cluster.kubectl("create", "--validate=strict", "-f", "-", stdin=listed)
    assert done.returncode == 0, done.stderr
    return silo


def complaints(hansa: Hansa, name: str) -> str:
    """What the conditions of a federation complain about."""
    conditions = hansa.status(name).get("conditions") or []
    bad = [c for c in conditions if (c["type"], c["status"]) in COMPLAINTS]
    return "; ".join(c.get("message", "") for c in bad)


COMPLAINTS = {("Accepted", "False"), ("Degraded", "True")}


@pytest.mark.parametrize("case", REPORTED)
def test_a_condition_names(reported: Hansa, case: str) -> None:
    sentence = REPORTED[case][1]
    reported.cluster.until(lambda: complaints(reported, slug(case)), f"a complaint about {case}")
    assert sentence in complaints(reported, slug(case))
    assert reported.status(slug(case))["phase"] == "Failed"


@pytest.mark.parametrize("case", STATUSES)
def test_a_condition_tells_of_a_status_written_by_hand(silo: Hansa, case: str) -> None:
    status, sentence = STATUSES[case]
    silo.apply(make(slug(case), environments=[QUEUED]))
    silo.wait(slug(case), lambda s: s.get("round"), "opens its round")
    patch = json.dumps([{"op": "replace", "path": "/status", "value": status}])
    arguments = ("hfed", slug(case), "--subresource=status", "--type=json", "-p", patch)
    assert silo.cluster.kubectl("patch", *arguments).returncode == 0
    silo.cluster.until(lambda: complaints(silo, slug(case)), f"a complaint: {case}")
    assert sentence in complaints(silo, slug(case))


# -- with a definition that refuses nothing -------------------------------------------------------


@pytest.fixture(scope="class")
def loose(silo: Hansa, good: str) -> Iterator[Hansa]:
    """The apiserver takes anything as a federation, as with the definition of another version."""
    schema = "/spec/versions/0/schema/openAPIV3Schema"
    found = silo.cluster.kubectl("get", CRD, "-o", "json")
    strict = json.loads(found.stdout)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    def define(value: Any) -> None:
        patch = json.dumps([{"op": "replace", "path": schema, "value": value}])
        done = silo.cluster.kubectl("patch", CRD, "--type=json", "-p", patch)
        assert done.returncode == 0, done.stderr

    define(anything)
    try:
        probe = make("probe", rounds="two")
        silo.cluster.until(lambda: _is_taken(silo, probe), "the apiserver takes anything")
        yield silo
    finally:
        silo.cluster.kubectl("delete", "hfed", "--all")
        define(strict)
        silo.cluster.until(lambda: not _is_taken(silo, probe), "the apiserver is strict again")


def _is_taken(silo: Hansa, manifest: Manifest) -> bool:
    arguments = ("create", "--dry-run=server", "-f", "-")
    return silo.cluster.kubectl(*arguments, stdin=json.dumps(manifest)).returncode == 0


class TestALooseDefinition:
    @pytest.mark.parametrize("case", LET_IN)
    def test_the_operator_itself_refuses(self, loose: Hansa, case: str) -> None:
        manifest, sentence = LET_IN[case]
        loose.cluster.apply(named(case, manifest))
        loose.cluster.until(lambda: complaints(loose, slug(case)), f"a complaint about {case}")
        assert sentence in complaints(loose, slug(case))

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            pytest.param({"seed": 8}, "spec.seed: got 8, expected 7", id="another seed"),
            pytest.param(
                {"rounds": 1}, "spec.rounds: got 1, expected 2 or more", id="fewer rounds"
            ),
        ],
    )
    def test_a_changed_field_that_is_changed_back_goes_on(
        self, loose: Hansa, good: str, change: dict[str, Any], sentence: str
    ) -> None:
        before = loose.status(good)
        loose.patch(good, change)
        loose.cluster.until(lambda: complaints(loose, good), "a complaint")
        assert sentence in complaints(loose, good)
        assert loose.condition(good, "Accepted")["reason"] == "ImmutableFieldChanged"
        loose.patch(good, {"seed": 7, "rounds": 2})
        loose.wait(good, lambda s: s["phase"] == "Running", "continues")
        assert loose.status(good)["current"] == before["current"]


# -- found out by the programs --------------------------------------------------------------------


def test_what_only_a_client_can_know_is_told_in_its_own_words(hansa: Hansa) -> None:
    one, two = hansa.manifest("rules")["spec"]["environments"]
    one |= {"options": {"map": "made-up"}}
    two |= {"name": "webshop", "world": "no-such-world"}
    both = {"minimumUpdates": 1}  # or the second would not be waited for once the first has failed
    manifest = hansa.manifest("rules", rounds=1, environments=[one, two], participation=both)
    hansa.apply(manifest)
    status = hansa.wait("rules", lambda s: s.get("phase") == "Failed", "is refused by its clients")
    assert [e["attempt"] for e in status["environments"]] == [1, 1]  # trying again cannot help
    message = hansa.condition("rules", "Degraded")["message"]
    assert "maze: spec.environments[maze].options.map: got 'made-up', expected" in message
    assert "webshop: spec.environments[webshop].world: got 'no-such-world', expected" in message
    hansa.delete("rules")


# -- and the operator is well ---------------------------------------------------------------------


def test_after_all_of_them_a_good_federation_is_served_at_once(silo: Hansa, restarts: int) -> None:
    silo.apply(make("after-them", environments=[QUEUED]))
    status = silo.wait("after-them", lambda s: s.get("round") == 1, "opens its round")
    assert status["phase"] == "Running"
    assert _restarts(silo) == restarts


@pytest.fixture(scope="module", autouse=True)
def restarts(hansa: Hansa) -> int:
    """How often the operator's Pods had been restarted before the first bad federation."""
    return _restarts(hansa)


def _restarts(hansa: Hansa) -> int:
    release = Cluster(state=hansa.cluster.state, namespace=INSTALLED)
    label = "app.kubernetes.io/component=operator"
    pods = json.loads(release.kubectl("get", "pods", "-l", label, "-o", "json").stdout)["items"]
    containers = [c for pod in pods for c in pod["status"]["containerStatuses"]]
    assert all(c["ready"] for c in containers)
    return sum(int(c["restartCount"]) for c in containers)
