"""A federation with a silo elsewhere, and the silo's own manifest, made as people make them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.installed import NAMESPACE, Hansa
from tests.cluster.kube import Manifest
from tests.support import small
from tests.support.small import SPEC

SIGNING = "hansa-signing"
"""Secret with a party's key, on either side."""


@dataclass(frozen=True, kw_only=True)
class Invited:
    """What both sides have once a silo was invited."""

    folder: Path
    federation: Manifest
    """The coordinator's manifest."""
    member: Manifest
    """The silo's, which lacks its own stores."""
    key: Path
    """The silo's key."""


def invite(hansa: Hansa, folder: Path, name: str, silo: str) -> Invited:
    """The small federation with one silo elsewhere, the coordinator's key in a Secret."""
    (coordinator, public), (key, silos) = new_key(folder, "coordinator"), new_key(folder, silo)
    printed = small.hansa("model", "-f", small.write_manifest(folder), "-o", "json")
    assert printed.returncode == 0, printed.stderr
    exchange = {"signingSecret": {"name": SIGNING}, "publicKeys": [public], "pollSeconds": 2}
    made = hansa.manifest(name, **json.loads(printed.stdout), exchange=exchange)
    elsewhere = {"name": silo, "member": {"publicKeys": [silos]}}
    made["spec"]["environments"] = [
        elsewhere if each["name"] == silo else each for each in made["spec"]["environments"]
    ]
    hansa.cluster.apply(signing_secret(coordinator, NAMESPACE))
    file = folder / "federation.yaml"
    file.write_text(yaml.safe_dump(made))
    invited = small.hansa("invite", silo, "-f", file, "--key", coordinator)
    (folder / "invitation.json").write_text(invited.stdout)
    member = small.hansa("member", folder / "invitation.json", "--key", key, "--world", silo)
    assert member.returncode == 0, member.stderr
    document = yaml.safe_load(member.stdout)
    own = next(each for each in SPEC["environments"] if each["name"] == silo)
    document["spec"] |= {"options": own["options"], "pollSeconds": 2}
    return Invited(folder=folder, federation=made, member=document, key=key)


def new_key(folder: Path, who: str) -> tuple[Path, str]:
    """A new key and what others know of it."""
    path = folder / f"{who}.key"
    assert small.hansa("keys", "new", path).returncode == 0
    return path, json.loads(small.hansa("keys", "show", path, "-o", "json").stdout)["publicKey"]


def signing_secret(key: Path, namespace: str) -> Manifest:
    """A key as the Secret that couriers get."""
    secret: Manifest = yaml.safe_load(small.hansa("keys", "show", key, "-o", "secret").stdout)
    secret["metadata"] |= {"name": SIGNING, "namespace": namespace}
    return secret


def pair(hansa: Hansa, secret: str) -> dict[str, str]:
    """The S3 keys that the store's owner gave to a party."""
    given: dict[str, Any] = hansa.secret(secret)
    return {name: value for name, value in given.items() if name.startswith("AWS_")}
