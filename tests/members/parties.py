"""Who takes part, and where: a coordinator in `hq`, a silo in `clinic`, one on a lone machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hansa.api import constants
from hansa.kubernetes.pod_policy import consent
from hansa.store import access_grants
from tests.cluster.installed import NAMESPACE, Hansa
from tests.cluster.kube import Cluster, Manifest
from tests.members.island import Island
from tests.members.stores import Exchange, Private
from tests.support import small
from tests.support.small import SPEC

HQ, CLINIC, LONE = "hq", "maze", "webshop"
"""The coordinator's owner; the silo in a cluster of its own; the silo that `hansa join` runs."""
PARTIES = (access_grants.AGGREGATOR, CLINIC, LONE)
"""Who has keys of the store between them."""
POLL_SECONDS = 2
SIGNING = "hansa-signing"


class Join(small.Run):
    """`hansa join` in a process group of its own, in a network of its own."""

    command = "join"

    def __init__(self, island: Island, *arguments: Any) -> None:
        self.within = island.within
        super().__init__(*arguments)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a party has its door to the store: its cluster, or its namespace."""

    hq: Hansa
    clinic: Hansa
    island: Island
    exchange: Exchange
    private: Private


@dataclass(frozen=True, kw_only=True)
class Apart:
    """One federation of three parties that share nothing but a bucket."""

    name: str
    """Its name, and its prefix in the bucket."""
    at: Place
    """Where they are."""
    folder: Path
    """Files of all three; nobody's program gets another's."""
    digests: dict[str, Any]
    """spec.model and spec.adapter, as `hansa model` prints them."""
    keys: dict[str, tuple[Path, str]]
    """File of the private key, and the public one, by party."""
    sealing: tuple[Path, str] | None = None
    """The same of the key that opens updates, where they are sealed."""

    @property
    def member(self) -> str:
        """Name of the FederationMember in the clinic's cluster."""
        return f"{self.name}-silo"

    def identity(self, party: str) -> str:
        """Whose keys of the store they are."""
        return f"{self.name}-{party}"

    # -- what the coordinator's owner does --------------------------------------------------------

    def manifest(self) -> Path:
        """The federation, with its parties' public keys."""
        environments = [
            {"name": silo, "member": {"publicKeys": [self.keys[silo][1]]}}
            for silo in (CLINIC, LONE)
        ]
        exchange = {
            "signingSecret": {"name": f"{self.name}-{SIGNING}"},
            "publicKeys": [self.keys[HQ][1]],
            "pollSeconds": POLL_SECONDS,
        }
        storage = {
            **self.at.exchange.place(HQ, self.name),
            "credentialsSecret": {"name": self.identity(access_grants.AGGREGATOR)},
        }
        spec = {**SPEC, **self.digests, "storage": {"s3": storage}, "exchange": exchange}
        if self.sealing:
            spec["aggregation"] = {**SPEC["aggregation"], "sealTo": self.sealing[1]}
            spec["storage"]["sealingSecret"] = {"name": f"{self.name}-sealing"}
        document = _object(constants.KIND, self.name, {**spec, "environments": environments})
        path = self.folder / "federation.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def policies(self) -> dict[str, str]:
        """What `hansa policy` prints for each party, by identity."""
        file = self.folder / "federation.yaml"
        return {self.identity(party): _said("policy", party, "-f", file) for party in PARTIES}

    def coordinate(self) -> None:
        """Bring the coordinator's Secrets and the Federation into its cluster."""
        cluster = self.at.hq.cluster
        yes = {consent.build_key(self.name, ""): consent.YES}
        cluster.apply(
            self._signing(HQ, yes),
            _secret(
                self.identity(access_grants.AGGREGATOR),
                {**self._pair(access_grants.AGGREGATOR), **yes},
            ),
        )
        if self.sealing:
            opening = {"sealing.key": self.sealing[0].read_text()}
            cluster.apply(_secret(f"{self.name}-sealing", {**opening, **yes}))
        cluster.apply(yaml.safe_load((self.folder / "federation.yaml").read_text()))

    def invite(self, silo: str) -> Path:
        """The invitation that is sent to a silo's owner."""
        file = self.folder / "federation.yaml"
        path = self.folder / f"{silo}.invitation.json"
        path.write_text(_said("invite", silo, "-f", file, "--key", self.keys[HQ][0]))
        return path

    # -- what the silos' owners do ----------------------------------------------------------------

    def accept(self, silo: str, **changes: Any) -> Manifest:
        """The silo's manifest, as its owner makes it from the invitation."""
        key = self.keys[silo][0]
        made = _said("member", self.invite(silo), "--key", key, "--world", silo)
        document: Manifest = yaml.safe_load(made)
        own = next(each for each in SPEC["environments"] if each["name"] == silo)
        changes |= {"options": own["options"], "pollSeconds": POLL_SECONDS}
        document["metadata"]["name"] = self.member
        document["spec"] |= changes
        document["spec"]["storage"] = {"s3": self.at.exchange.place(silo, self.name)}
        return document

    def serve(self) -> None:
        """Bring the silo's Secrets and its FederationMember into the clinic's cluster."""
        courier = {consent.build_member_key(self.member, signs=True): consent.YES}
        client = {consent.build_member_key(self.member): consent.YES}
        private, own = self.at.private, f"{self.name}-private"
        silo = self.accept(
            CLINIC,
            signingSecret={"name": f"{self.name}-{SIGNING}"},
            experienceStorage={
                "s3": {
                    **private.place(self.name),
                    "credentialsSecret": {"name": own},
                }
            },
        )
        shared = {"name": self.identity(CLINIC)}
        silo["spec"]["storage"]["s3"]["credentialsSecret"] = shared
        silo["metadata"]["namespace"] = NAMESPACE
        self.at.clinic.cluster.apply(
            self._signing(CLINIC, courier),
            _secret(self.identity(CLINIC), {**self._pair(CLINIC), **courier, **client}),
            _secret(own, {**_variables(private.environ(CLINIC)), **client}),
            silo,
        )

    def join(self) -> Join:
        """`hansa join` in the namespace; the same command after a kill."""
        path, credentials = (self.folder / f"{LONE}.{end}" for end in ("yaml", "json"))
        if not path.exists():
            path.write_text(yaml.safe_dump(self.accept(LONE)))
            credentials.write_text(json.dumps({LONE: self._pair(LONE)}))
        given = ("--key", self.keys[LONE][0], "--credentials", credentials)
        return Join(self.at.island, path, self.folder / "silo", *given)

    def end(self) -> None:
        """Delete what the owners made; nothing of it works on."""
        for where, kind, name in (
            (self.at.hq, constants.SHORT_NAME, self.name),
            (self.at.clinic, constants.MEMBER_SHORT_NAME, self.member),
        ):
            gone = where.cluster.kubectl("delete", kind, name, "--ignore-not-found")
            assert gone.returncode == 0, gone.stderr

    # -- keys -------------------------------------------------------------------------------------

    def _pair(self, party: str) -> dict[str, str]:
        return _variables(self.at.exchange.environ(self.identity(party)))

    def _signing(self, party: str, more: dict[str, str]) -> Manifest:
        printed = _said("keys", "show", self.keys[party][0], "-o", "secret")
        secret: Manifest = yaml.safe_load(printed)
        secret["metadata"] |= {"name": f"{self.name}-{SIGNING}", "namespace": NAMESPACE}
        secret.setdefault("stringData", {}).update(more)
        return secret


def new_key(folder: Path, party: str, *options: str) -> tuple[Path, str]:
    """A party's key: the file of the private one, and the public one."""
    path = folder / f"{party}.key"
    _said("keys", "new", path, *options)
    return path, json.loads(_said("keys", "show", path, "-o", "json"))["publicKey"]


def secrets_of(cluster: Cluster) -> dict[str, dict[str, str]]:
    """All Secrets of a cluster, in every namespace: their values by key, as base64."""
    found = json.loads(cluster.kubectl("get", "secrets", "-A", "-o", "json").stdout)["items"]
    return {
        f"{each['metadata']['namespace']}/{each['metadata']['name']}": each.get("data") or {}
        for each in found
    }


def _variables(environ: dict[str, str]) -> dict[str, str]:
    wanted = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return {name: environ[name] for name in wanted}


def _secret(name: str, data: dict[str, str]) -> Manifest:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": data}


def _object(kind: str, name: str, spec: dict[str, Any]) -> Manifest:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": constants.API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _said(*arguments: str | Path) -> str:
    """What a command printed; it must have succeeded."""
    done = small.hansa(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
