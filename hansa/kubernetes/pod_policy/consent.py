"""A Secret's consent to be used: a key in it, which the kubelet demands before a container starts.

A Federation's author names Secrets; only who may change a Secret can consent. The operator
reads none of them. Limits: who may create Pods in the namespace can read every Secret there.
"""

import json
import shlex
from collections.abc import Iterable

from hansa.api.spec import FederationSpec, Metadata
from hansa.api.status import Federation
from hansa.kubernetes.pod_policy.party_secrets import find_party_secrets
from hansa.store.access_grants import AGGREGATOR

PREFIX = "hansa."
YES = "yes"
"""What the key holds by the lines that are printed here; only that it is there counts."""


def build_key(federation: str, party: str) -> str:
    """The key by which a Secret lets a federation's party use it; `party` is empty for the
    aggregator."""
    return f"{PREFIX}{federation}.{party or AGGREGATOR}"


def build_member_key(member: str, *, signs: bool = False) -> str:
    """The key by which a Secret lets a silo's clients use it, or its couriers, which sign.

    Two dots more than a party's: nobody else's consent is taken for it.
    """
    return f"{PREFIX}{member}.member.{'courier' if signs else 'client'}"


def list_secrets(spec: FederationSpec, party: str, *, signs: bool = False) -> list[str]:
    """Secrets that a party's Jobs use because the spec names them; `signs`: its couriers do."""
    own = find_party_secrets(spec, party)
    work = (own.sealing, own.masking, own.experience_key)
    keys = (own.credentials, own.experience, *((own.signing,) if signs else work))
    named = (own.ca, own.experience_ca, None if signs else own.endpoint)
    names = (*keys, *(each.name for each in named if each))
    return list(dict.fromkeys(name for name in names if name))


def format_command(namespace: str, secret: str, keys: Iterable[str]) -> str:
    """What the owner of a Secret types to consent; safe to paste whatever the names are."""
    patch = json.dumps({"stringData": dict.fromkeys(keys, YES)}, separators=(",", ":"))
    where = ["-n", namespace] if namespace else []
    return shlex.join(["kubectl", *where, "patch", "secret", secret, "--type=merge", "-p", patch])


def find_namespace(metadata: Metadata) -> str:
    """The namespace that a manifest names; empty: it names none."""
    return metadata.namespace if "namespace" in metadata.model_fields_set else ""


def list_commands(federations: Iterable[Federation]) -> list[str]:
    """A line for each Secret that manifests name, with the keys of all their parties.

    A manifest that names no namespace is applied to that of the caller, and so is its line.
    """
    wanted: dict[tuple[str, str], list[str]] = {}
    for each in federations:
        namespace = find_namespace(each.metadata)
        here = [environment for environment in each.spec.environments if not environment.member]
        for party in ("", *(environment.name for environment in here)):
            used = list_secrets(each.spec, party)
            if not party:  # the coordinator has couriers beside its aggregators
                used += list_secrets(each.spec, party, signs=True)
            for secret in dict.fromkeys(used):
                keys = wanted.setdefault((namespace, secret), [])
                keys.append(build_key(each.metadata.name, party))
    return [format_command(*where, keys) for where, keys in wanted.items()]
