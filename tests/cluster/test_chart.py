"""The chart on a real Kubernetes: objects are taken, keys stay, and uninstalling leaves nothing.

No image is needed: hooks are left out, and whether Pods start is for other tests.
"""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.chart.charts import CHART, EVERYTHING, Data, find_tool
from tests.cluster.kube import Cluster

RELEASE = "store"
VALUES: Data = {
    **EVERYTHING,
    "metrics": {"dashboard": {"enabled": True}},  # a bare cluster knows no ServiceMonitor
    "crds": {"install": False},  # it is the whole cluster's
}


def helm(cluster: Cluster, *arguments: str, values: Data | None = None) -> str:
    """Run helm on the cluster, in its namespace; it must succeed."""
    where = ["--namespace", cluster.namespace]
    given = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [find_tool("helm"), *arguments, *where, *given],
        env={**os.environ, "KUBECONFIG": cluster.script("kubeconfig").stdout.strip()},
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def keys(cluster: Cluster) -> dict[str, str]:
    """The secret key of every user, as the users' own Secrets have it."""
    done = cluster.kubectl("get", "secrets", "-l", "hansa.dev/federation", "-o", "json")
    secrets = json.loads(done.stdout)["items"]
    return {each["metadata"]["name"]: each["data"]["AWS_SECRET_ACCESS_KEY"] for each in secrets}


def pod_template(cluster: Cluster, store: str) -> Any:
    """What the store's Pod is made of; one that differs starts anew."""
    return cluster.get("deployment", f"{RELEASE}-hansa-{store}")["spec"]["template"]


def objects(cluster: Cluster) -> set[str]:
    """Everything that bears the label of the release and belongs to its namespace."""
    found: set[str] = set()
    for scope in ("true", "false"):
        kinds = cluster.kubectl(
            "api-resources", "--verbs=list", "-o", "name", f"--namespaced={scope}"
        ).stdout.split()
        label = f"app.kubernetes.io/instance={RELEASE}"
        done = cluster.kubectl("get", ",".join(kinds), "-l", label, "-o", "name")
        found |= set(done.stdout.split())
    wide = ("clusterrole", "customresourcedefinition")
    return {name for name in found if cluster.namespace in name or not name.startswith(wide)}


STORES = pytest.mark.parametrize("store", ["minio", "seaweedfs"])


def with_federations(store: str, *federations: Data) -> Data:
    others = {name: value for name, value in VALUES.items() if name != "minio"}
    return {**others, "store": store, store: {"federations": list(federations)}}


@STORES
@pytest.mark.slow
def test_the_apiserver_takes_every_object_and_has_no_warning(cluster: Cluster, store: str) -> None:
    level = "pod-security.kubernetes.io/warn=restricted"
    assert cluster.kubectl("label", "namespace", cluster.namespace, level).returncode == 0
    federations = VALUES["minio"]["federations"]
    values = {**with_federations(store, *federations), "crds": {"install": True}}
    text = helm(cluster, "template", RELEASE, str(CHART), "--skip-tests", values=values)
    how = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    done = cluster.kubectl("apply", *how, "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


@STORES
@pytest.mark.slow
def test_keys_stay_over_upgrades_and_nothing_stays_after_uninstalling(
    cluster: Cluster, store: str
) -> None:
    def upgrade(*federations: Data) -> None:
        quick = ("upgrade", "--install", RELEASE, str(CHART), "--no-hooks")
        helm(cluster, *quick, values=with_federations(store, *federations))

    first: dict[str, Any] = {"name": "five-worlds", "environments": ["maze", "wordle"]}
    second: dict[str, Any] = {"name": "other", "environments": ["maze"]}
    upgrade(first)
    before, pod = keys(cluster), pod_template(cluster, store)
    upgrade(first)
    assert (keys(cluster), pod_template(cluster, store)) == (before, pod), "nothing restarts"
    assert set(before) == {"five-worlds-aggregator", "five-worlds-maze", "five-worlds-wordle"}
    upgrade(first, second)
    grown = keys(cluster)
    assert {name: grown[name] for name in before} == before
    assert set(grown) - set(before) == {"other-aggregator", "other-maze"}
    upgrade(second)
    assert keys(cluster) == {n: k for n, k in grown.items() if n.startswith("other-")}
    helm(cluster, "uninstall", RELEASE, "--wait")
    kept = {f"persistentvolumeclaim/{RELEASE}-hansa-{store}"}
    cluster.until(lambda: objects(cluster) == kept, f"only {kept} is left")
