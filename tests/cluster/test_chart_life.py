"""The operator comes, changes and goes by Helm; federations stay, and lose nothing by it.

A release of its own in a namespace of its own; while it is told about, the session's operator,
which looks after all namespaces, rests.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from hansa.api import constants
from tests.cluster.installed import Hansa, values
from tests.cluster.kube import ROOT, Cluster, Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAMESPACE = "hansa-two"
SECOND = "two"
CHART = str(ROOT / "charts" / "hansa")
NAME = "rules"
SECRETS = tuple(f"{NAME}-{who}" for who in ("aggregator", "maze", "webshop"))


@pytest.fixture(scope="module")
def second(hansa: Hansa) -> Iterator[Hansa]:
    """A second namespace with its own operator, which looks after nothing else."""
    hansa.clear(NAME)
    own = replace(hansa, cluster=Cluster(state=hansa.cluster.state, namespace=NAMESPACE))
    metadata = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    own.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    own.cluster.apply(*(copy(hansa.cluster.get("secret", name)) for name in SECRETS))
    hansa.scale(0)
    try:
        install(own)
        yield own
    finally:
        own.cluster.kubectl("delete", "namespace", NAMESPACE)
        hansa.scale(1)
        hansa.wipe(NAME)


def copy(secret: Manifest) -> Manifest:
    """The same Secret for another namespace."""
    return {**secret, "metadata": {"name": secret["metadata"]["name"]}}


def helm(own: Hansa, *arguments: str, given: dict[str, Any] | None = None) -> str:
    """Run helm in the second namespace; it must succeed."""
    stdin = json.dumps(given or {}).encode()
    more = ("--values", "-") if given is not None else ()
    done = own.cluster.script("helm", "--namespace", NAMESPACE, *arguments, *more, stdin=stdin)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def install(own: Hansa, **settings: Any) -> None:
    """Install or upgrade the second release; the definition is the first one's."""
    given = {
        "images": values(())["images"],
        "crds": {"install": False},
        "watch": {"namespaces": [NAMESPACE]},
        "settings": settings,
    }
    arguments = ("upgrade", "--install", SECOND, CHART, "--wait", "--timeout", "120s")
    helm(own, *arguments, given=given)


def manifest(own: Hansa, name: str = NAME, **changes: Any) -> Manifest:
    """The small federation in the second namespace."""
    made = own.manifest(NAME, **changes)
    return {**made, "metadata": {"name": name, "namespace": NAMESPACE}}


def jobs(own: Hansa) -> set[str]:
    """The Jobs that ever were, by UID."""
    return {job["metadata"]["uid"] for job in own.jobs(NAME)}


def left_of_the_release(own: Hansa) -> set[str]:
    """Every object in the cluster that bears the label of the release."""
    kinds = own.cluster.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
    label = f"app.kubernetes.io/instance={SECOND}"
    done = own.cluster.kubectl("get", ",".join(kinds), "-A", "-l", label, "-o", "name")
    return set(done.stdout.split())


def bucket(own: Hansa) -> set[str]:
    """Keys of the federation in the bucket."""
    hansa = replace(own, cluster=replace(own.cluster, namespace="hansa"))
    with closing(hansa.store(NAME)) as store:
        return set(store.list(f"{NAME}/"))


# -- the story, told by tests in their order ------------------------------------------------------


def test_helm_test_passes(second: Hansa) -> None:
    assert "Phase:          Succeeded" in helm(second, "test", SECOND)


def test_an_upgrade_replaces_the_operator_and_no_job(second: Hansa) -> None:
    second.apply(manifest(second))
    second.wait(NAME, lambda s: "Running" in states(s), "a client runs")
    before, old = jobs(second), second.operators()
    install(second, workers=2)
    second.cluster.until(lambda: not set(old) & set(second.operators()), "the old one is gone")
    assert jobs(second) >= before
    status = second.wait(NAME, lambda s: s["round"] == 2, "continues to round 2")
    assert [e["attempt"] for e in status["environments"]] == [1, 1]


def states(status: dict[str, Any]) -> set[str]:
    """What the environments of the open round are doing."""
    return {e["state"] for e in (status.get("current") or {}).get("environments", [])}


def test_uninstalling_leaves_nothing_but_the_federations(second: Hansa) -> None:
    keys = {"credentialsSecret": {"name": f"{NAME}-maze"}}
    queued = [{"name": "maze", "world": "maze", "queueName": "nobodys", **keys}]
    second.apply(manifest(second, "stays", environments=queued))
    second.wait("stays", lambda s: "Queued" in states(s), "has a Job")
    written = bucket(second)
    assert f"deployment.apps/{SECOND}-hansa-operator" in left_of_the_release(second)
    helm(second, "uninstall", SECOND, "--wait")
    second.cluster.until(lambda: not left_of_the_release(second), "no object of it is left")
    assert not second.cluster.get("lease", f"{SECOND}-hansa-operator")
    assert second.status(NAME)["round"] == 2
    assert bucket(second) >= written


def test_without_an_operator_a_federation_can_still_be_deleted(second: Hansa) -> None:
    assert second.children("stays")
    assert not second.cluster.get("hfed", "stays")["metadata"].get("finalizers")
    assert second.cluster.kubectl("delete", "hfed", "stays", "--timeout=30s").returncode == 0
    second.cluster.until(lambda: not second.children("stays"), "its Job goes with it")


def test_an_operator_that_comes_back_goes_on_with_what_stayed(
    second: Hansa, local_adapter: dict[str, bytes]
) -> None:
    install(second)
    status = second.finish(NAME)
    assert [e["outcome"] for e in status["history"]] == ["base", "aggregated", "aggregated"]
    session = replace(second, cluster=replace(second.cluster, namespace="hansa"))
    folder = f"{NAME}/global/{status['adapter']['round']:05d}"
    with closing(session.store(NAME)) as store:
        made = {name: store.get(f"{folder}/{name}") for name in local_adapter}
    assert made == local_adapter
    assert second.cluster.get("crd", f"{constants.PLURAL}.{constants.GROUP}")
