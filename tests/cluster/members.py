"""A FederationMember as cluster tests apply it, and what it says."""

from copy import deepcopy
from typing import Any

from hansa.api import constants
from tests.cluster.kube import Cluster, Manifest

KEY = "ed25519:" + "A" * 43
S3 = {"bucket": "shared", "prefix": "five", "endpoint": "http://nowhere.invalid:9000"}
SPEC: Manifest = {
    "federation": {"name": "five", "run": "a" * 64, "environment": "clinic", "publicKeys": [KEY]},
    "storage": {"s3": {**S3, "credentialsSecret": {"name": "clinic"}}},
    "signingSecret": {"name": "clinic-signing"},
    "publicKeys": [KEY],
    "world": "maze",
    "experienceStorage": {"s3": {**S3, "bucket": "own", "prefix": ""}},
    "agreed": {
        "seed": 7,
        "rounds": 3,
        "model": {"source": "builtin:tiny", "sha256": "b" * 64},
        "adapter": {"rank": 8, "shapes": "d" * 64},
        "settings": {},
    },
}


def manifest(name: str = "clinic", **fields: Any) -> Manifest:
    """A silo that plays maze in the federation `five`; a field that is None is left out."""
    spec = {field: deepcopy(v) for field, v in {**SPEC, **fields}.items() if v is not None}
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.MEMBER_KIND,
        "metadata": {"name": name},
        "spec": spec,
    }


def phase(cluster: Cluster, name: str) -> str:
    """What its status says in a word."""
    return str((cluster.get(constants.MEMBER_SHORT_NAME, name).get("status") or {}).get("phase"))
