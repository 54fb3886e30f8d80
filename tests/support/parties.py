"""Parties that share nothing but a bucket: a coordinator with maze, and webshop elsewhere."""

import json
from pathlib import Path
from typing import Any

import yaml

from hansa.api.exchange import Cursor
from hansa.api.letters import ORDERS, Letter, LetterLog, compute_run_id
from hansa.api.spec import FederationSpec
from hansa.api.status import Federation
from hansa.crypto.dsse import generate_signing_key, read_key
from hansa.local.objectstore import LocalStore
from hansa.members.invitation import build_member_manifest, invite, open_invitation
from hansa.members.mailbox import Mailbox
from hansa.store import access_grants
from tests.support import small
from tests.support.small import FILES, NAME, SPEC

REMOTE = "webshop"


class Exchange(LocalStore):
    """The store between the parties: each has what `hansa policy` prints for it, and no more."""

    spec: FederationSpec

    def _granted(self, name: str) -> list[access_grants.Grant]:
        if not hasattr(self, "spec"):
            return super()._granted(name)
        place = self.s3.model_copy(update={"prefix": NAME})
        return access_grants.list_grants(self.spec, name, storage=place)

    def restart_with_grants(self) -> None:
        """The same server, with the rights that the manifest gives."""
        self._write_identities()
        self.restart()


class Join(small.Run):
    """`hansa join` in a process group of its own."""

    command = "join"


class Parties:
    """A coordinator with maze, and webshop on a machine of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = {who: self._key(who) for who in ("coordinator", REMOTE)}
        self.store = Exchange(folder / "exchange", list(small.ENVIRONMENTS), prefix=NAME)

    def _key(self, who: str) -> tuple[Path, str]:
        path = self.folder / f"{who}.key"
        assert small.hansa("keys", "new", path).returncode == 0
        shown = small.hansa("keys", "show", path, "-o", "json")
        return path, json.loads(shown.stdout)["publicKey"]

    def manifest(self, digests: dict[str, Any], **changes: Any) -> Path:
        local = next(e for e in SPEC["environments"] if e["name"] != REMOTE)
        document = {
            "apiVersion": "hansa.dev/v1alpha1",
            "kind": "Federation",
            "metadata": {"name": NAME},
            "spec": {
                **SPEC,
                **digests,
                "storage": small.storage(self.store, self.store.s3.endpoint or "", NAME),
                "exchange": {"publicKeys": [self.keys["coordinator"][1]], "pollSeconds": 2},
                "environments": [
                    local,
                    {"name": REMOTE, "member": {"publicKeys": [self.keys[REMOTE][1]]}},
                ],
                **changes,
            },
        }
        path = self.folder / "federation.yaml"
        path.write_text(yaml.safe_dump(document))
        self.store.spec = FederationSpec.model_validate(document["spec"])
        return path

    def credentials(self, *names: str) -> Path:
        path = self.folder / f"{names[0]}.credentials.json"
        path.write_text(json.dumps({name: self.store.environ(name) for name in names}))
        return path

    def member(self, manifest: Path, **changes: Any) -> Path:
        """From the invitation to the silo's manifest, as its owner would make it."""
        signing = self.keys["coordinator"][0]
        invited = small.hansa("invite", REMOTE, "-f", manifest, "--key", signing)
        assert invited.returncode == 0, invited.stderr
        invitation = self.folder / "invitation.json"
        invitation.write_text(invited.stdout)
        key = self.keys[REMOTE][0]
        made = small.hansa("member", invitation, "--key", key, "--world", REMOTE)
        assert made.returncode == 0, made.stderr
        document = yaml.safe_load(made.stdout)
        own = next(e for e in SPEC["environments"] if e["name"] == REMOTE)
        document["spec"] |= {"options": own["options"], "pollSeconds": 2, **changes}
        path = self.folder / "member.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def coordinate(self, manifest: Path) -> small.Run:
        return small.Run(
            manifest,
            self.folder / "coordinator",
            "--credentials",
            self.credentials("aggregator", "maze"),
            "--signing-key",
            self.keys["coordinator"][0],
        )

    def join(self, member: Path, *arguments: str, out: str = "silo", **environ: str) -> Join:
        return Join(
            member,
            self.folder / out,
            "--key",
            self.keys[REMOTE][0],
            "--credentials",
            self.credentials(REMOTE),
            *arguments,
            **environ,
        )


def equal(out: Path, reference: Path) -> None:
    """The final adapter is that of the same federation in one place, byte for byte."""
    for name in FILES:
        ours, theirs = (each / "adapter" / name for each in (out, reference / "run"))
        assert ours.read_bytes() == theirs.read_bytes(), name


def status(silo: Join) -> dict[str, Any]:
    """What the silo's object says of itself; nothing before it was saved."""
    try:
        return dict(json.loads((silo.out / "member.json").read_text())["status"])
    except (OSError, ValueError, KeyError):
        return {}


def state(silo: Join) -> str:
    """What the silo's object says of its order."""
    return str((status(silo).get("current") or {}).get("state", ""))


class Quick(Parties):
    """The same without typing each command: for tests of what goes wrong later."""

    def _key(self, who: str) -> tuple[Path, str]:
        path, key = self.folder / f"{who}.key", generate_signing_key()
        path.write_bytes(key.pem())
        return path, key.public

    def member(self, manifest: Path, **changes: Any) -> Path:
        federation = Federation.model_validate(yaml.safe_load(manifest.read_text()))
        signing = read_key(self.keys["coordinator"][0].read_bytes(), "coordinator")
        invitation, _ = open_invitation(invite(federation, REMOTE, signing), "invitation")
        document = build_member_manifest(invitation, self.keys[REMOTE][1], REMOTE)
        own = next(e for e in SPEC["environments"] if e["name"] == REMOTE)
        document["spec"] |= {"options": own["options"], "pollSeconds": 2, **changes}
        path = self.folder / "member.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def new_silo_key(self) -> str:
        """The silo's owner takes another key from now on."""
        self.keys[REMOTE] = self._key(f"{REMOTE}-new")
        return self.keys[REMOTE][1]

    def log(self, log: LetterLog) -> Mailbox:
        """The silo's orders or answers, as the bucket's owner sees them."""
        spec = self.store.spec
        assert spec.storage and spec.exchange
        silo = next(e.member for e in spec.environments if e.member)
        return Mailbox(
            store=self.store.store(),
            prefix=NAME,
            log=log,
            run=compute_run_id(spec.storage.s3, spec.identity()),
            environment=REMOTE,
            trusted=tuple((spec.exchange if log is ORDERS else silo).public_keys),
        )

    def letters(self, log: LetterLog) -> list[Letter]:
        """Its letters, each of which follows the one before."""
        reading = self.log(log).read(Cursor(), most=None)
        assert not reading.faults, reading.faults
        return [entry.letter for entry in reading.entries]
