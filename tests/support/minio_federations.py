"""Federations whose silos have users and policies of MinIO."""

import base64
from typing import Any

from hansa.api.spec import FederationSpec
from hansa.store import access_grants
from hansa.store.base import Credentials
from tests.chart.charts import Objects

FEDERATIONS: list[dict[str, Any]] = [
    {"name": "five-worlds", "environments": ["maze", "wordle"]},
    {
        "name": "other",
        "namespace": "team-b",
        "bucket": "second",
        "prefix": "",
        "environments": ["maze"],
        "modelSource": "s3://models/qwen/",
    },
    {"name": "third", "prefix": "a/b", "environments": ["x"], "modelSource": "s3://hansa/m"},
    {"name": "letters", "environments": ["maze"], "members": ["bank", "clinic"]},
    {"name": "masks", "environments": ["maze"], "members": ["bank", "clinic"], "secure": True},
]


KEY = "ed25519:" + "A" * 43


MASKING = {name: f"x25519:{letter * 42}A" for name, letter in zip("mbc", "ABC", strict=True)}
"""Masking keys, by the first letter of a silo's name."""


LONGEST: dict[str, Any] = {"name": "f" * 40, "environments": ["e" * 30]}


def manifest(federation: dict[str, Any]) -> dict[str, Any]:
    """The federation that a user of the chart's store writes."""
    storage = {
        "endpoint": "http://hansa-minio.hansa-system.svc:9000",
        "bucket": federation.get("bucket", "hansa"),
        "prefix": federation.get("prefix", federation["name"]),
    }
    elsewhere = federation.get("members", [])
    here = [{"name": name, "world": "maze"} for name in federation["environments"]]
    there = [{"name": name, "member": {"publicKeys": [KEY]}} for name in elsewhere]
    more: dict[str, Any] = {}
    if federation.get("secure"):
        more = {"aggregation": {"secure": {}}}
        for silo in here:
            silo["experienceStorage"] = {"s3": {"bucket": "own"}}
        for silo in (*here, *there):
            silo["maskingKey"] = MASKING[silo["name"][0]]
    return {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": federation["name"]},
        "spec": {
            "rounds": 1,
            "model": {
                "source": federation.get("modelSource", "builtin:tiny"),
                "sha256": "b" * 64,
            },
            "adapter": {"shapes": "d" * 64},
            "storage": {"s3": storage},
            "exchange": {"publicKeys": [KEY]},
            "environments": [*here, *there],
            **more,
        },
    }


def masking_policy(spec: FederationSpec, name: str, *, minio: bool = False) -> dict[str, Any]:
    """What the chart lets a silo do that masks: it does not know of the silo's other bucket."""
    assert spec.storage
    granted = access_grants.environment_grants(spec.storage.s3, name, claims=True)
    return access_grants.iam_policy(granted, minio=minio)


def pair(objects: Objects, user: str) -> Credentials:
    """The keys in a user's Secret."""
    data = objects.one("Secret", user)["data"]
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    access_key, secret_key = (base64.b64decode(data[name]).decode() for name in names)
    return Credentials(access_key=access_key, secret_key=secret_key)
