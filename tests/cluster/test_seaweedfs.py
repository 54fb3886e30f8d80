"""The chart's other store on a real cluster: a federation, what keys open there, and a lost Pod.

A release of its own in a namespace of its own, with the restricted Pod Security standard; while it
is looked at, the session's operator, which looks after all namespaces, rests.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from hansa.api import bucket_keys
from hansa.api.spec import S3
from hansa.core.errors import Denied
from hansa.store.base import Credentials
from hansa.store.s3 import S3Store
from tests.cluster.installed import BUCKET, WORLDS, Hansa, values
from tests.cluster.kube import ROOT, Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAMESPACE = "hansa-weed"
RELEASE = "second"
STORE = f"{RELEASE}-hansa-seaweedfs"
NAME = "evolves"
SILO, OTHER = WORLDS


@pytest.fixture(scope="module")
def second(hansa: Hansa) -> Iterator[Hansa]:
    """A second namespace with its own operator and SeaweedFS."""
    own = replace(hansa, cluster=Cluster(state=hansa.cluster.state, namespace=NAMESPACE))
    metadata = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    own.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    hansa.scale(0)
    try:
        helm(own, "upgrade", "--install", RELEASE, str(ROOT / "charts" / "hansa"), *HOW)
        yield own
    finally:
        helm(own, "uninstall", RELEASE, "--wait")
        own.cluster.kubectl("delete", "namespace", NAMESPACE)
        hansa.scale(1)


HOW = ("--wait", "--timeout", "240s", "--values", "-")


def helm(own: Hansa, *arguments: str) -> str:
    """Run helm in the second namespace; it must succeed."""
    plain = values(())
    given = {
        "images": plain["images"],
        "crds": {"install": False},  # the definition is the first release's
        "watch": {"namespaces": [NAMESPACE]},
        "networkPolicy": {"jobs": {"strict": True}},
        "admissionPolicy": plain["admissionPolicy"],
        "store": "seaweedfs",
        "seaweedfs": {
            "image": {**plain["minio"]["image"], "repository": "hansa-seaweedfs"},
            "federations": [{"name": NAME, "environments": list(WORLDS)}],
        },
    }
    stdin = json.dumps(given).encode()
    done = own.cluster.script("helm", "--namespace", NAMESPACE, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def store(own: Hansa, secret: str) -> S3Store:
    """The bucket as the holder of a Secret sees it."""
    address = own.cluster.get("service", STORE)["spec"]["clusterIP"]
    pair = own.secret(secret)
    who = Credentials(
        access_key=pair["AWS_ACCESS_KEY_ID"], secret_key=pair["AWS_SECRET_ACCESS_KEY"]
    )
    s3 = S3(endpoint=f"http://{address}:8333", bucket=BUCKET, prefix=NAME)
    return S3Store(s3, credentials=who)


def files(own: Hansa) -> dict[str, bytes]:
    """Everything in the bucket, as its owner sees it."""
    with closing(store(own, f"{STORE}-root")) as owner:
        return {key: owner.get(key) for key in owner.list(f"{NAME}/")}


# -- the story, told by tests in their order ------------------------------------------------------


def test_helm_test_passes(second: Hansa) -> None:
    assert "Phase:          Succeeded" in helm(second, "test", RELEASE)


def test_a_federation_comes_to_its_end(second: Hansa) -> None:
    made = second.manifest(NAME, rounds=1)
    made["metadata"]["namespace"] = NAMESPACE
    made["spec"]["storage"]["s3"]["endpoint"] = f"http://{STORE}.{NAMESPACE}.svc:8333"
    second.apply(made)
    status = second.finish(NAME)
    assert [each["outcome"] for each in status["history"]] == ["base", "aggregated"]
    assert bucket_keys.global_folder(NAME, 1) + bucket_keys.MANIFEST in files(second)


def test_a_silos_keys_open_nothing_of_anothers(second: Hansa) -> None:
    written = files(second)
    private = [key for key in written if key.startswith(bucket_keys.experience_root(NAME, OTHER))]
    update = bucket_keys.update_folder(NAME, OTHER, 1) + bucket_keys.ADAPTER
    assert private
    with closing(store(second, f"{NAME}-{SILO}")) as silo:
        for key in (*private, update):
            with pytest.raises(Denied):
                silo.get(key)
            with pytest.raises(Denied):
                silo.put_if_absent(f"{key}-more", b"forged")
        shared = bucket_keys.global_folder(NAME, 1) + bucket_keys.MANIFEST
        assert silo.get(shared) == written[shared]
    with closing(store(second, f"{NAME}-aggregator")) as aggregator:
        assert aggregator.get(update) == written[update]
        with pytest.raises(Denied):
            aggregator.get(private[0])
    assert files(second) == written


def test_a_lost_pod_loses_no_object(second: Hansa) -> None:
    written = files(second)
    [old] = second.cluster.list("pod", "app.kubernetes.io/component=seaweedfs")
    gone = ("delete", "pod", old["metadata"]["name"], "--grace-period=0", "--force")
    assert second.cluster.kubectl(*gone).returncode == 0
    second.cluster.settle(STORE)
    assert files(second) == written
