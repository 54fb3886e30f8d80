"""The MinIO for trying out: policies as `hansa policy` prints them, and keys that stay."""

import base64
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from hansa.api.spec import S3
from hansa.cli.common import Format
from hansa.cli.policy import policy
from hansa.core.errors import Denied
from hansa.kubernetes.pod_policy import consent
from hansa.manifests.load import load
from hansa.store.base import Credentials
from hansa.store.s3 import Retry, S3Store
from tests.chart.charts import NAMESPACE, Objects, find_tool, refusal, render
from tests.support.minio_federations import FEDERATIONS, LONGEST, manifest, masking_policy, pair


@pytest.fixture(scope="module")
def made() -> Objects:
    """A store for some federations, and one with the longest names."""
    return render(minio={"enabled": True, "federations": [*FEDERATIONS, LONGEST]})


@pytest.mark.parametrize("federation", FEDERATIONS, ids=lambda each: str(each["name"]))
def test_policies_are_those_that_hansa_policy_prints(
    made: Objects,
    federation: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "federation.yaml"
    file.write_text(yaml.safe_dump(manifest(federation)))
    data = made.one("ConfigMap", "hansa-minio-provision")["data"]
    for party in ("aggregator", *federation["environments"], *federation.get("members", [])):
        rendered = json.loads(data[f"{federation['name']}-{party}.json"])
        if federation.get("secure") and party in federation["environments"]:
            spec = load(file, here=False).spec
            assert rendered == masking_policy(spec, party, minio=True), party
            continue
        policy(file, party, minio=True, output=Format.JSON)
        assert rendered == json.loads(capsys.readouterr().out), party


def test_each_party_gets_a_secret_where_its_federation_is(made: Objects) -> None:
    users = made.one("Secret", "hansa-minio-users")["data"]
    secrets = [each for each in made.of("Secret") if "AWS_ACCESS_KEY_ID" in each["data"]]
    where = {each["metadata"]["name"]: each["metadata"]["namespace"] for each in secrets}
    assert where == {
        f"{federation['name']}-{party}": federation.get("namespace", NAMESPACE)
        for federation in (*FEDERATIONS, LONGEST)
        for party in (
            "aggregator",
            *federation["environments"],
            *federation.get("members", []),
        )
    }
    for each in secrets:
        name, data = each["metadata"]["name"], each["data"]
        federation = each["metadata"]["labels"]["hansa.dev/federation"]
        party = name.removeprefix(f"{federation}-")
        agreed = consent.build_key(federation, "" if party == "aggregator" else party)
        assert set(data) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", agreed}
        assert base64.b64decode(data["AWS_ACCESS_KEY_ID"]).decode() == name
        assert data["AWS_SECRET_ACCESS_KEY"] == users[name]
    assert len(set(users.values())) == len(users) == 17


@pytest.mark.parametrize(
    "federations, words",
    [
        pytest.param(
            [{"name": "a-b", "environments": ["c"]}, {"name": "a", "environments": ["b-c"]}],
            "minio.federations[1]: got a second Secret a-b-c",
            id="two names that join to one",
        ),
        pytest.param(
            [{"name": "a", "environments": ["aggregator"]}],
            "minio.federations[0].environments: got aggregator",
            id="the aggregator is no environment",
        ),
    ],
)
def test_names_that_cannot_be_told_apart_are_refused(
    federations: list[dict[str, Any]], words: str
) -> None:
    assert words in refusal(minio={"enabled": True, "federations": federations})


@pytest.mark.parametrize("store", ["minio", "seaweedfs"])
def test_the_data_is_on_a_volume_that_stays_unless_told_otherwise(store: str) -> None:
    def volume(**persistence: Any) -> tuple[Objects, dict[str, Any]]:
        objects = render(store=store, **{store: {"persistence": persistence}})
        pod = objects.one("Deployment", f"hansa-{store}")["spec"]["template"]["spec"]
        return objects, next(v for v in pod["volumes"] if v["name"] == "data")

    objects, data = volume(size="3Gi", storageClass="-")
    claim = objects.one("PersistentVolumeClaim")
    assert data["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["storageClassName"] == ""
    assert claim["spec"]["resources"]["requests"] == {"storage": "3Gi"}
    objects, data = volume(existingClaim="mine")
    assert objects.of("PersistentVolumeClaim") == []
    assert data["persistentVolumeClaim"]["claimName"] == "mine"
    objects, data = volume(enabled=False)
    assert objects.of("PersistentVolumeClaim") == []
    assert data["emptyDir"] == {}


# -- the real server ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Server:
    """A MinIO on this machine, and the folder for the script that makes its users."""

    url: str
    folder: Path

    def provision(self, objects: Objects, **broken: str) -> subprocess.CompletedProcess[str]:
        """Run the chart's script with what the chart would mount."""
        config = {**objects.one("ConfigMap", "hansa-minio-provision")["data"], **broken}
        users = objects.one("Secret", "hansa-minio-users")["data"]
        _write(self.folder / "config", config)
        _write(self.folder / "keys", {n: base64.b64decode(k).decode() for n, k in users.items()})
        return subprocess.run(
            ["sh", str(self.folder / "config" / "provision.sh")],
            env={
                "PATH": f"{Path(find_tool('mc')).parent}:{os.environ['PATH']}",
                "TMPDIR": str(self.folder),
                "PROVISION_CONFIG": str(self.folder / "config"),
                "PROVISION_KEYS": str(self.folder / "keys"),
                "MINIO_URL": self.url,
                **ROOT_KEYS,
            },
            capture_output=True,
            text=True,
        )

    def store(self, objects: Objects, user: str, bucket: str, prefix: str) -> S3Store:
        """The bucket as one of the users sees it."""
        s3 = S3(endpoint=self.url, bucket=bucket, prefix=prefix)
        return S3Store(s3, credentials=pair(objects, user), retry=Retry(patience_seconds=1.0))

    def mc(self, *arguments: str, who: Credentials | None = None, token: str = "") -> str:
        """All that MinIO's own client says: `me` has these keys, `hansa` is the server's owner."""
        variables = {"HOME": str(self.folder), "MC_CONFIG_DIR": str(self.folder / "mc")}
        if who:
            login = f"{who.access_key}:{who.secret_key}" + (f":{token}" if token else "")
            variables["MC_HOST_me"] = self.url.replace("//", f"//{login}@")
        done = subprocess.run(
            [find_tool("mc"), *arguments], env=variables, capture_output=True, text=True
        )
        return done.stdout + done.stderr


ROOT_KEYS = {"MINIO_ROOT_USER": "root-user", "MINIO_ROOT_PASSWORD": "root p@ss:word/1"}


def _write(folder: Path, files: dict[str, str]) -> None:
    if folder.exists():
        for old in folder.iterdir():
            old.unlink()
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A MinIO of its own, on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [find_tool("minio"), "server", str(tmp_path / "data"), "--address", f"127.0.0.1:{port}"],
        env={**os.environ, **ROOT_KEYS, "MINIO_BROWSER": "off", "HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Server(url=f"http://127.0.0.1:{port}", folder=tmp_path)
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_real_minio_lets_each_party_do_its_part_and_no_more(server: Server) -> None:
    made = render(minio={"enabled": True, "federations": [FEDERATIONS[0], LONGEST]})
    done = server.provision(made)
    assert done.returncode == 0, done.stdout + done.stderr
    keys = made.one("Secret", "hansa-minio-users")["data"].values()
    assert not any(base64.b64decode(key).decode() in done.stdout + done.stderr for key in keys)
    maze = server.store(made, "five-worlds-maze", "hansa", "five-worlds")
    aggregator = server.store(made, "five-worlds-aggregator", "hansa", "five-worlds")
    maze.put_if_absent("five-worlds/updates/maze/00001/x", b"1")
    assert aggregator.get("five-worlds/updates/maze/00001/x") == b"1"
    for store, key in (
        (maze, "five-worlds/updates/wordle/00001/x"),
        (maze, "five-worlds/global/00001/x"),
        (maze, "other/updates/maze/00001/x"),
        (aggregator, "five-worlds/experience/maze/00001.jsonl.zst"),
    ):
        with pytest.raises(Denied):
            store.put_if_absent(key, b"1")
    again = render(minio={"enabled": True, "federations": [LONGEST]})
    done = server.provision(again)
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(Denied):
        maze.get("five-worlds/updates/maze/00001/x")
    name, (environment,) = LONGEST["name"], LONGEST["environments"]
    other = server.store(again, f"{name}-{environment}", "hansa", name)
    other.put_if_absent(f"{name}/updates/{environment}/00001/x", b"1")
    name = f"{name}-aggregator.json"
    assert server.provision(again, **{name: "no policy"}).returncode != 0, "a failure is one"


MAKES_KEYS = {
    "an access key of its own": ("admin", "user", "svcacct", "add", "me", "five-worlds-maze"),
    "another's access key": ("admin", "user", "svcacct", "add", "me", "five-worlds-wordle"),
    "a user": ("admin", "user", "add", "me", "somebody", "chosen-1"),
    "a secret of its own choice": ("admin", "user", "add", "me", "five-worlds-maze", "chosen-1"),
}
"""The first and the last MinIO allows every user for itself, unless a policy forbids it."""
REFUSALS = ("Access Denied", "Credential is not allowed to be same as admin access key")


@pytest.mark.slow
def test_no_user_makes_itself_further_keys_nor_do_its_temporary_ones(server: Server) -> None:
    """Temporary keys with a policy of their own could, against that policy: CVE-2025-62506."""
    made = render(minio={"enabled": True, "federations": FEDERATIONS[:1]})
    assert server.provision(made, **without_what_is_forbidden(made)).returncode == 0
    assert server.provision(made).returncode == 0, "an upgrade of the release writes it anew"
    silo = pair(made, "five-worlds-maze")
    temporary, token = narrowed(server.url, silo)
    taken = [
        f"{whose} made {what}"
        for what, command in MAKES_KEYS.items()
        for whose, who, given in (("the user", silo, ""), ("temporary keys", temporary, token))
        if not any(no in server.mc(*command, who=who, token=given) for no in REFUSALS)
    ]
    assert taken == []
    listed = server.mc("admin", "user", "svcacct", "list", "hansa", "five-worlds-maze")
    assert listed == "No service accounts found\n"
    maze = server.store(made, "five-worlds-maze", "hansa", "five-worlds")
    maze.put_if_absent("five-worlds/updates/maze/00001/x", b"its key is still the same")


@pytest.mark.slow
def test_the_minio_that_tests_run_on_heeds_the_policy_of_temporary_keys(server: Server) -> None:
    """Even of a user whose own policy forbids nothing: it is no version with CVE-2025-62506."""
    made = render(minio={"enabled": True, "federations": FEDERATIONS[:1]})
    assert server.provision(made, **without_what_is_forbidden(made)).returncode == 0
    temporary, token = narrowed(server.url, pair(made, "five-worlds-maze"))
    make = MAKES_KEYS["an access key of its own"]
    assert "Access Denied" in server.mc(*make, who=temporary, token=token)


def without_what_is_forbidden(made: Objects) -> dict[str, str]:
    """The policy of one user as older charts wrote it."""
    name = "five-worlds-maze.json"
    policy = json.loads(made.one("ConfigMap", "hansa-minio-provision")["data"][name])
    allowed = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    return {name: json.dumps({**policy, "Statement": allowed})}


def narrowed(url: str, who: Credentials) -> tuple[Credentials, str]:
    """Temporary keys of a user, and their token, that may do no more than list one bucket."""
    allowed = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::hansa"]}
    client = boto3.client(
        "sts",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=who.access_key,
        aws_secret_access_key=who.secret_key,
    )
    made = client.assume_role(
        RoleArn="arn:aws:iam::000000000000:role/any",
        RoleSessionName="any",
        Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]}),
    )["Credentials"]
    keys = Credentials(access_key=made["AccessKeyId"], secret_key=made["SecretAccessKey"])
    return keys, str(made["SessionToken"])
