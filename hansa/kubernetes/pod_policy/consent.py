"""A Secret's consent to be used: a key in it, which the kubelet demands before a container starts.

Whoever writes a Federation names Secrets; only who may change a Secret can consent. The operator
reads none of them. Limits: who may create Pods in the namespace can read every Secret there.
"""

import json
import shlex
from collections.abc import Iterable

from hansa.api.spec import FederationSpec, Metadata
from hansa.api.status import Federation
from hansa.kubernetes.pod_policy.refusals import (
    ca_secret,
    credentials_secret,
    endpoint_secret,
    experience_ca_secret,
    experience_key_secret,
    experience_secret,
    masking_secret,
    sealing_secret,
    signing_secret,
)
from hansa.store.access_grants import AGGREGATOR

PREFIX = "hansa."
YES = "yes"
"""What the key holds by the lines that are printed here; only that it is there counts."""


def key(federation: str, party: str) -> str:
    """The key by which a Secret lets a federation's party use it; `party` is empty for the
    aggregator."""
    return f"{PREFIX}{federation}.{party or AGGREGATOR}"


def member_key(member: str, *, signs: bool = False) -> str:
    """The key by which a Secret lets a silo's clients use it, or its couriers, which sign.

    Two dots more than a party's: nobody else's consent is taken for it.
    """
    return f"{PREFIX}{member}.member.{'courier' if signs else 'client'}"


def secrets(spec: FederationSpec, party: str, *, signs: bool = False) -> list[str]:
    """Secrets that a party's Jobs use because the spec names them; `signs`: its couriers do."""
    authorities = (ca_secret(spec), experience_ca_secret(spec, party))
    signing = signing_secret(spec) if signs else ""
    sealing = "" if party or signs else sealing_secret(spec)
    own = () if signs else (masking_secret(spec, party), experience_key_secret(spec, party))
    keys = (credentials_secret(spec, party), experience_secret(spec, party), signing, sealing, *own)
    endpoint = None if signs else endpoint_secret(spec, party)  # clients alone ask the endpoint
    names = (*keys, *(secret.name for secret in (*authorities, endpoint) if secret))
    return list(dict.fromkeys(name for name in names if name))


def _of_party(spec: FederationSpec, party: str) -> list[str]:
    """All that a party's Jobs use; the coordinator has couriers beside its aggregators."""
    used = secrets(spec, party)
    return used if party else list(dict.fromkeys([*used, *secrets(spec, party, signs=True)]))


def line(namespace: str, secret: str, keys: Iterable[str]) -> str:
    """What the owner of a Secret types to consent; safe to paste whatever the names are."""
    patch = json.dumps({"stringData": dict.fromkeys(keys, YES)}, separators=(",", ":"))
    where = ["-n", namespace] if namespace else []
    return shlex.join(["kubectl", *where, "patch", "secret", secret, "--type=merge", "-p", patch])


def place(metadata: Metadata) -> str:
    """The namespace that a manifest names; empty: it names none."""
    return metadata.namespace if "namespace" in metadata.model_fields_set else ""


def lines(federations: Iterable[Federation]) -> list[str]:
    """A line for each Secret that manifests name, with the keys of all their parties.

    A manifest that names no namespace is applied to that of the caller, and so is its line.
    """
    wanted: dict[tuple[str, str], list[str]] = {}
    for each in federations:
        namespace = place(each.metadata)
        here = [environment for environment in each.spec.environments if not environment.member]
        for party in ("", *(environment.name for environment in here)):
            for secret in _of_party(each.spec, party):
                keys = wanted.setdefault((namespace, secret), [])
                keys.append(key(each.metadata.name, party))
    return [line(*where, keys) for where, keys in wanted.items()]
