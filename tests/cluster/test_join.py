"""A silo outside the cluster takes part by letters alone; the operator is its coordinator."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api import bucket_keys
from hansa.kubernetes.pod_policy import consent
from tests.cluster.installed import Hansa
from tests.cluster.silos import SIGNING, Invited, invite, pair
from tests.support import small

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
NAME, SILO = "joined", "webshop"


class Join(small.Run):
    """`hansa join` in a process group of its own."""

    command = "join"


@pytest.fixture(scope="module")
def invited(hansa: Hansa, tmp_path_factory: pytest.TempPathFactory) -> Invited:
    """The small federation with one silo elsewhere."""
    return invite(hansa, tmp_path_factory.mktemp("joined"), NAME, SILO)


def test_its_result_is_that_of_a_local_run_and_the_cluster_has_nothing_of_the_silo(
    hansa: Hansa, invited: Invited, local_adapter: dict[str, bytes]
) -> None:
    folder = invited.folder
    hansa.apply(invited.federation)
    said = hansa.wait(NAME, lambda s: "hansa patch" not in s and _waits(s), "waits for consent")
    assert SIGNING in json.dumps(said), "the condition names the Secret of the key"
    patched = hansa.cluster.kubectl(
        *("patch", "secret", SIGNING, "--type=merge", "-p"),
        json.dumps({"stringData": {consent.build_key(NAME, ""): consent.YES}}),
    )
    assert patched.returncode == 0, patched.stderr
    with Join(_member(hansa, invited), folder / "silo", *_credentials(hansa, invited)) as silo:
        status = hansa.finish(NAME)
    assert hansa.adapter(NAME) == local_adapter
    assert status["members"][0]["state"] == "Present"
    assert all(SILO not in job["metadata"]["name"] for job in hansa.jobs(NAME)), silo.said
    experience = bucket_keys.experience_root(NAME, SILO)
    assert not list(hansa.store(NAME).list(experience))


def _waits(status: dict[str, Any]) -> bool:
    conditions = status.get("conditions") or []
    return any(SIGNING in str(c.get("message")) for c in conditions)


def _member(hansa: Hansa, invited: Invited) -> Path:
    """The silo's manifest, with the store's address as the silo's machine has it."""
    invited.member["spec"]["storage"]["s3"]["endpoint"] = hansa.endpoint
    path = invited.folder / "member.yaml"
    path.write_text(yaml.safe_dump(invited.member))
    return path


def _credentials(hansa: Hansa, invited: Invited) -> tuple[str | Path, ...]:
    """The pair that the store's owner gave to the silo."""
    path = invited.folder / "credentials.json"
    path.write_text(json.dumps({SILO: pair(hansa, f"{NAME}-{SILO}")}))
    return ("--key", invited.key, "--credentials", path)
