"""A silo outside the cluster takes part by letters alone; the operator is its coordinator."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa import consent, keys
from tests import small
from tests.cluster.installed import BUCKET, ELSEWHERE, NAMESPACE, Hansa
from tests.small import SPEC

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
NAME, SILO = "joined", "webshop"


class Join(small.Run):
    """`hansa join` in a process group of its own."""

    command = "join"


def new_key(folder: Path, who: str) -> tuple[Path, str]:
    path = folder / f"{who}.key"
    assert small.hansa("keys", "new", path).returncode == 0
    return path, json.loads(small.hansa("keys", "show", path, "-o", "json").stdout)["publicKey"]


@pytest.fixture(scope="module")
def manifest(hansa: Hansa, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The small federation with one silo elsewhere, and the coordinator's key in a Secret."""
    folder = tmp_path_factory.mktemp("joined")
    (coordinator, public), (silo, silos) = new_key(folder, "coordinator"), new_key(folder, SILO)
    printed = small.hansa("model", "-f", small.write_manifest(folder), "-o", "json")
    assert printed.returncode == 0, printed.stderr
    made = hansa.manifest(
        NAME,
        **json.loads(printed.stdout),
        exchange={
            "signingSecret": {"name": "hansa-signing"},
            "publicKeys": [public],
            "pollSeconds": 2,
        },
    )
    elsewhere = {"name": SILO, "member": {"publicKeys": [silos]}}
    made["spec"]["environments"] = [
        elsewhere if each["name"] == SILO else each for each in made["spec"]["environments"]
    ]
    secret = yaml.safe_load(small.hansa("keys", "show", coordinator, "-o", "secret").stdout)
    secret["metadata"]["namespace"] = NAMESPACE
    hansa.cluster.apply(secret)
    (folder / "federation.yaml").write_text(yaml.safe_dump(made))
    return {"folder": folder, "manifest": made, "key": silo, "coordinator": coordinator}


def test_its_result_is_that_of_a_local_run_and_the_cluster_has_nothing_of_the_silo(
    hansa: Hansa, manifest: dict[str, Any], local_adapter: dict[str, bytes]
) -> None:
    folder = manifest["folder"]
    hansa.apply(manifest["manifest"])
    said = hansa.wait(NAME, lambda s: "hansa patch" not in s and _waits(s), "waits for consent")
    assert "hansa-signing" in json.dumps(said), "the condition names the Secret of the key"
    patched = hansa.cluster.kubectl(
        *("patch", "secret", "hansa-signing", "--type=merge", "-p"),
        json.dumps({"stringData": {consent.key(NAME, ""): consent.YES}}),
    )
    assert patched.returncode == 0, patched.stderr
    with Join(_member(hansa, manifest), folder / "silo", *_credentials(hansa, manifest)) as silo:
        status = hansa.finish(NAME)
    assert hansa.adapter(NAME) == local_adapter
    assert status["members"][0]["state"] == "Present"
    assert all(SILO not in job["metadata"]["name"] for job in hansa.jobs(NAME)), silo.said
    experience = keys.experience_root(NAME, SILO)
    assert not list(hansa.store(NAME).list(experience))


def _waits(status: dict[str, Any]) -> bool:
    conditions = status.get("conditions") or []
    return any("hansa-signing" in str(c.get("message")) for c in conditions)


def _member(hansa: Hansa, manifest: dict[str, Any]) -> Path:
    """The silo's manifest, with the store's address as the silo's machine has it."""
    folder, file = manifest["folder"], manifest["folder"] / "federation.yaml"
    invited = small.hansa("invite", SILO, "-f", file, "--key", manifest["coordinator"])
    (folder / "invitation.json").write_text(invited.stdout)
    key = manifest["key"]
    made = small.hansa("member", folder / "invitation.json", "--key", key, "--world", SILO)
    assert made.returncode == 0, made.stderr
    document = yaml.safe_load(made.stdout)
    own = next(each for each in SPEC["environments"] if each["name"] == SILO)
    document["spec"] |= {"options": own["options"], "pollSeconds": 2}
    document["spec"]["storage"]["s3"]["endpoint"] = hansa.endpoint
    path: Path = folder / "member.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def _credentials(hansa: Hansa, manifest: dict[str, Any]) -> tuple[str | Path, ...]:
    """The pair that the store's owner gave to the silo."""
    assert SILO in ELSEWHERE[NAME] and BUCKET
    pair = hansa.secret(f"{NAME}-{SILO}")
    kept = {name: value for name, value in pair.items() if name.startswith("AWS_")}
    path = manifest["folder"] / "credentials.json"
    path.write_text(json.dumps({SILO: kept}))
    return ("--key", manifest["key"], "--credentials", path)
