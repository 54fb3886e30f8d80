"""Masked updates on a real cluster: one silo never starts, and the others mask again without it."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.crypto import sealing
from hansa.kubernetes.pod_policy import consent
from tests.cluster.installed import ADDRESS, BUCKET, MASKED, NAMESPACE, Hansa
from tests.cluster.kube import Manifest
from tests.support.small import SPEC
from tests.support.tiny_specs import NO_IMAGE, TINY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "masked"
SILOS = MASKED[NAME]
OWN_ADDRESS = ADDRESS.replace(".svc:", ".svc.cluster.local:")
"""The same server by another address: these silos' private store."""


def secret(name: str, key: sealing.OpeningKey) -> Manifest:
    """A silo's masking key, also as one that seals, whose owner consents to its use."""
    pem = key.pem().decode()
    data = {"masking.key": pem, "sealing.key": pem, consent.build_key(NAME, name): consent.YES}
    metadata = {"name": f"masks-{name}", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def silo(name: str, key: sealing.OpeningKey) -> dict[str, Any]:
    own = {"endpoint": OWN_ADDRESS, "bucket": BUCKET, "prefix": NAME}
    made = {
        **SPEC["environments"][0],
        "name": name,
        "credentialsSecret": {"name": f"{NAME}-{name}"},
        "experienceStorage": {"s3": own},
        "maskingKey": key.public,
        "maskingSecret": {"name": f"masks-{name}"},
    }
    if name == "a":
        made["experienceKeySecret"] = {"name": f"masks-{name}"}
    if name == "d":
        made["podTemplate"] = {"spec": {"containers": [NO_IMAGE]}}
    return made


@pytest.fixture
def federation(hansa: Hansa) -> Iterator[Hansa]:
    """Four silos with keys of their own, one of which cannot start."""
    hansa.clear(NAME)
    made = {name: sealing.generate_opening_key() for name in SILOS}
    hansa.cluster.apply(*(secret(name, key) for name, key in made.items()))
    manifest = hansa.manifest(
        NAME,
        **TINY,
        rounds=1,
        aggregation={"strategy": "ffa", "secure": {}},
        participation={"minimumUpdates": 3, "retries": 0},
        environments=[silo(name, key) for name, key in made.items()],
    )
    hansa.apply(manifest)
    yield hansa
    hansa.delete(NAME)


def test_a_silo_that_cannot_start_is_left_out_and_the_others_mask_again(federation: Hansa) -> None:
    status = federation.finish(NAME)
    assert [(e["outcome"], e["updates"]) for e in status["history"][1:]] == [("aggregated", "3/4")]
    events = federation.cluster.kubectl("get", "events", "-o", "json").stdout
    assert "d dropped out; the other 3 silos mask their updates again" in events
    with closing(federation.store(NAME)) as store:
        assert b"tombstone" in store.get(bucket_keys.claim(NAME, "d", 1, 0))
        for name in SILOS[:3]:
            folder = bucket_keys.update_folder(NAME, name, 1)
            sent = [key.removeprefix(folder) for key in store.list(folder)]
            assert sent == ["manifest-1.json", "manifest.json", "masked-0.bin", "masked-1.bin"]
            private = [
                store.get(key) for key in store.list(bucket_keys.experience_root(NAME, name))
            ]
            assert private and {sealing.is_sealed(data) for data in private} == {name == "a"}
