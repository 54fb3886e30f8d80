"""A silo on a machine of its own takes part by letters alone, and the result is the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa import access, keys
from hansa.local.objectstore import LocalStore
from hansa.spec import FederationSpec
from tests import small
from tests.small import FILES, NAME, SPEC

pytestmark = pytest.mark.slow
REMOTE = "webshop"


class Exchange(LocalStore):
    """The store between the parties: each has what `hansa policy` prints for it, and no more."""

    spec: FederationSpec

    def _granted(self, name: str) -> list[access.Grant]:
        if not hasattr(self, "spec"):
            return super()._granted(name)
        place = self.s3.model_copy(update={"prefix": NAME})
        return access.grants(self.spec, name, storage=place)

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

    def join(self, member: Path, *arguments: str) -> Join:
        return Join(
            member,
            self.folder / "silo",
            "--key",
            self.keys[REMOTE][0],
            "--credentials",
            self.credentials(REMOTE),
            *arguments,
        )


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """The same federation by `hansa run` in one place."""
    folder = tmp_path_factory.mktemp("reference")
    manifest = small.write_manifest(folder)
    with small.Run(manifest, folder / "run") as run:
        run.finish()
    return folder


@pytest.fixture(scope="module")
def digests(reference: Path) -> dict[str, Any]:
    printed = small.hansa("model", "-f", reference / "federation.yaml", "-o", "json")
    assert printed.returncode == 0, printed.stderr
    spec = json.loads(printed.stdout)
    return {
        "model": {**SPEC["model"], **spec["model"]},
        "adapter": {**SPEC.get("adapter", {}), **spec["adapter"]},
    }


@pytest.fixture
def parties(tmp_path: Path, digests: dict[str, Any]):
    made = Parties(tmp_path)
    with made.store:
        made.manifest(digests)
        made.store.restart_with_grants()
        yield made


def test_the_result_is_byte_for_byte_that_of_one_place(reference, parties) -> None:
    manifest = parties.folder / "federation.yaml"
    with parties.coordinate(manifest) as coordinator:
        with parties.join(parties.member(manifest)) as silo:
            coordinator.finish()
            assert "answered" in (silo.out / "member.json").read_text()
        for name in FILES:
            ours = (coordinator.out / "adapter" / name).read_bytes()
            assert ours == (reference / "run" / "adapter" / name).read_bytes(), name
    objects = parties.store.store()
    everything = b"".join(objects.get(key) for key in objects.list(""))
    assert b"webshop" in everything and b"Thought" not in everything
    assert not any(key.startswith(keys.experience_root(NAME, REMOTE)) for key in objects.list(""))
