"""SeaweedFS for trying out: policies as `hansa policy` prints them, and no door but that of S3."""

import base64
import contextlib
import json
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from hansa.api import bucket_keys
from hansa.api.spec import S3
from hansa.cli.policy import build_policies
from hansa.core.errors import Denied, StoreError
from hansa.kubernetes.pod_policy import consent
from hansa.local.objectstore import find_weed
from hansa.local.ports import Block, claim_ports
from hansa.manifests.load import load
from hansa.store import access_grants
from hansa.store.base import Credentials
from hansa.store.s3 import Retry, S3Store
from tests.chart.charts import NAMESPACE, SEAWEEDFS, Objects, refusal, render
from tests.support.minio_federations import FEDERATIONS, LONGEST, manifest, masking_policy, pair
from tests.support.processes import until

USERS = "hansa-seaweedfs-users"
ROOT = "hansa-seaweedfs-root"


def rendered(*federations: dict[str, Any], **more: Any) -> Objects:
    return render(store="seaweedfs", seaweedfs={"federations": list(federations), **more})


@pytest.fixture(scope="module")
def made() -> Objects:
    """A store for three federations, and one with the longest names."""
    return rendered(*FEDERATIONS, LONGEST)


def identities(objects: Objects) -> dict[str, Any]:
    data = objects.one("Secret", USERS)["data"]["identities.json"]
    return dict(json.loads(base64.b64decode(data)))


def test_identities_are_those_of_the_embedded_store_with_what_hansa_policy_prints(
    made: Objects, tmp_path: Path
) -> None:
    found = identities(made)
    policies = {each["name"]: json.loads(each["content"]) for each in found["policies"]}
    users = [each for each in found["identities"] if "actions" not in each]
    for federation in FEDERATIONS:
        file = tmp_path / "federation.yaml"
        file.write_text(yaml.safe_dump(manifest(federation)))
        for party in ("aggregator", *federation["environments"], *federation.get("members", [])):
            name = f"{federation['name']}-{party}"
            spec = load(file, here=False).spec
            if federation.get("secure") and party in federation["environments"]:
                assert policies[name] == masking_policy(spec, party)
            else:
                assert policies[name] == build_policies(spec, party)[0]
            [mine] = [each for each in users if each["name"] == name]
            shape = access_grants.seaweedfs_identities(
                {name: []}, {name: pair(made, name), "r": ADMIN}, "r"
            )
            assert mine == shape["identities"][0]
    [owner] = [each for each in found["identities"] if "actions" in each]
    who = pair(made, ROOT)
    assert owner["credentials"] == [{"accessKey": who.access_key, "secretKey": who.secret_key}]
    assert "_" in who.access_key, "no user of a federation can have this name"
    assert len(users) == len(policies) == 17


ADMIN = Credentials(access_key="r", secret_key="r")


def test_each_party_gets_a_secret_that_consents_where_its_federation_is(made: Objects) -> None:
    secrets = [each for each in made.of("Secret") if "hansa.dev/federation" in labels(each)]
    assert len(secrets) == 17
    for each in secrets:
        federation, name = labels(each)["hansa.dev/federation"], each["metadata"]["name"]
        party = name.removeprefix(f"{federation}-")
        agreed = consent.build_key(federation, "" if party == "aggregator" else party)
        assert set(each["data"]) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", agreed}
        where = "team-b" if federation == "other" else NAMESPACE
        assert each["metadata"]["namespace"] == where


def labels(each: dict[str, Any]) -> dict[str, str]:
    return dict(each["metadata"]["labels"])


def test_the_pod_starts_again_when_who_may_do_what_has_changed() -> None:
    """And only then: Secret and Deployment of one rendering have the same keys."""
    sums = []
    for federations in ([FEDERATIONS[0]], FEDERATIONS):
        objects = rendered(*federations)
        pod = objects.one("Deployment", "hansa-seaweedfs")["spec"]["template"]
        sums.append(pod["metadata"]["annotations"]["checksum/identities"])
    assert sums[0] != sums[1]


@pytest.mark.parametrize(
    "values, words",
    [
        pytest.param({"store": "ceph"}, "/store", id="no store that the chart has"),
        pytest.param(
            {"store": "seaweedfs", "minio": {"enabled": True}},
            "store: got seaweedfs beside minio.enabled, expected one store",
            id="two stores",
        ),
        pytest.param(
            {"store": "seaweedfs", "minio": {"federations": [FEDERATIONS[0]]}},
            "minio.federations: got some with store seaweedfs, expected them in "
            "seaweedfs.federations",
            id="federations of the other store",
        ),
        pytest.param(
            {"minio": {"enabled": True}, "seaweedfs": {"federations": [FEDERATIONS[0]]}},
            "seaweedfs.federations: got some with store minio",
            id="and the other way round",
        ),
        pytest.param(
            {"store": "seaweedfs", "seaweedfs": {"federations": [{"name": "a"}]}},
            "missing property 'environments'",
            id="no environments",
        ),
        pytest.param(
            {
                "store": "seaweedfs",
                "seaweedfs": {"federations": [{"name": "a", "environments": ["aggregator"]}]},
            },
            "seaweedfs.federations[0].environments: got aggregator",
            id="the aggregator is no environment",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(values: dict[str, Any], words: str) -> None:
    assert words in refusal(**values)


def test_it_is_reached_by_jobs_only_and_at_its_one_port() -> None:
    made = render(**SEAWEEDFS)
    policy = made.one("NetworkPolicy", "hansa-seaweedfs")["spec"]
    [rule] = policy["ingress"]
    assert rule["ports"] == [{"port": 8333, "protocol": "TCP"}]
    [peer] = rule["from"]
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/managed-by": "hansa-operator"}
    assert policy["egress"] == []
    jobs = made.one("NetworkPolicy", "hansa-jobs")["spec"]
    [out] = [rule for rule in jobs["egress"] if rule["ports"][0]["port"] == 8333]
    assert out["to"][0]["podSelector"] == policy["podSelector"]
    service = made.one("Service", "hansa-seaweedfs")["spec"]
    assert service["selector"] == policy["podSelector"]["matchLabels"]
    assert service["ports"] == [{"name": "s3", "port": 8333, "targetPort": "s3"}]
    for each in made.all:
        assert labels(each)["app.kubernetes.io/instance"] == "hansa"
        assert len(each["metadata"]["name"]) <= 63


def test_minio_is_the_same_by_either_name() -> None:
    by_switch, by_name = render(minio={"enabled": True}), render(store="minio")
    assert by_switch.kinds() == by_name.kinds()
    assert by_name.one("Deployment", "hansa-minio")


# -- the real server ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Server:
    """Both of the Pod's containers as processes of this machine, with ports of their own."""

    objects: Objects
    block: Block

    def store(self, user: str, prefix: str, bucket: str = "hansa") -> S3Store:
        """The bucket as somebody sees it."""
        s3 = S3(endpoint=self.url, bucket=bucket, prefix=prefix)
        who = pair(self.objects, user)
        return S3Store(s3, credentials=who, retry=Retry(patience_seconds=20.0))

    def has_buckets(self) -> bool:
        """Whether all that it was asked for are there."""
        for bucket in ("hansa", "second"):
            try:
                self.store(ROOT, "", bucket).check()
            except Denied:
                return False
        return True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.block.ports['s3.port']}"


@contextlib.contextmanager
def serve(objects: Objects, folder: Path) -> Iterator[Server]:
    """Run what the chart's Deployment would run."""
    block = claim_ports()
    data = objects.one("Secret", USERS)["data"]
    for name in ("identities.json", "tls.crt", "tls.key"):
        (folder / name).write_bytes(base64.b64decode(data[name]))
    (folder / "data").mkdir(exist_ok=True)
    pod = objects.one("Deployment", "hansa-seaweedfs")["spec"]["template"]["spec"]
    ports = {name: port for name, port in block.every.items() if not name.startswith("s3.")}
    own = {
        "store": ports,
        "s3": {
            "port": block.ports["s3.port"],
            "port.grpc": block.ports["s3.port.grpc"],
            "filer": f"127.0.0.1:{ports['filer.port']}.{ports['filer.port.grpc']}",
        },
    }
    with contextlib.ExitStack() as running:
        running.callback(block.close)
        running.callback(block.remove_sockets)
        for container in pod["containers"]:
            flags = [f"-{name}={value}" for name, value in own[container["name"]].items()]
            words = [_here(word, folder) for word in container["command"][1:]] + flags
            env = {each["name"]: _here(each["value"], folder) for each in container["env"]}
            process = subprocess.Popen(
                [str(find_weed()), *words],
                env={"PATH": os.defpath, **env},
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=(folder / f"{container['name']}.log").open("wb"),
            )
            running.callback(process.wait)
            running.callback(process.kill)
        yield Server(objects=objects, block=block)


def _here(word: str, folder: Path) -> str:
    return word.replace("/etc/seaweedfs", str(folder)).replace("=/data", f"={folder}/data")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A store of three federations, one of them in a bucket of its own."""
    with serve(rendered(*FEDERATIONS[:2], FEDERATIONS[-1]), tmp_path) as running:
        until(running.has_buckets, "its buckets to be made, which may be after its first answer")
        yield running


@pytest.mark.slow
def test_a_real_seaweedfs_lets_each_party_do_its_part_and_no_more(server: Server) -> None:
    maze = server.store("five-worlds-maze", "five-worlds")
    aggregator = server.store("five-worlds-aggregator", "five-worlds")
    maze.put_if_absent("five-worlds/updates/maze/00001/x", b"1")
    assert aggregator.get("five-worlds/updates/maze/00001/x") == b"1"
    other = server.store("other-maze", "", bucket="second")
    other.put_if_absent("experience/maze/00001.jsonl.zst", b"1")
    for store, key in (
        (maze, "five-worlds/updates/wordle/00001/x"),
        (maze, "five-worlds/global/00001/x"),
        (maze, "other/updates/maze/00001/x"),
        (aggregator, "five-worlds/experience/maze/00001.jsonl.zst"),
        (server.store("five-worlds-maze", "", bucket="second"), "updates/maze/00001/x"),
    ):
        with pytest.raises(Denied):
            store.put_if_absent(key, b"1")
    experience = "five-worlds/experience/wordle/00001.jsonl.zst"
    server.store("five-worlds-wordle", "five-worlds").put_if_absent(experience, b"private")
    for reader in (maze, aggregator, other):
        with pytest.raises(StoreError):
            reader.get(experience)
    adapter = bucket_keys.global_folder("five-worlds", 1) + bucket_keys.ADAPTER
    aggregator.put_if_absent(adapter, b"1")
    with pytest.raises(Denied):
        aggregator.remove(adapter)
    for name, port in server.block.every.items():
        # Whoever listens on all addresses of a machine answers on this one, too.
        with contextlib.closing(socket.socket()) as outside:
            answers = outside.connect_ex(("127.0.0.2", port)) == 0
        assert answers == name.startswith("s3."), name


@pytest.mark.slow
def test_nobody_makes_identities_by_s3_or_by_the_inner_door(server: Server) -> None:
    maze = server.store("five-worlds-maze", "five-worlds")
    maze.put_if_absent("five-worlds/updates/maze/00001/x", b"it answers")
    for user in ("five-worlds-maze", ROOT):
        who = pair(server.objects, user)
        iam = botocore.session.Session().create_client(
            "iam",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id=who.access_key,
            aws_secret_access_key=who.secret_key,
        )
        for name, fields in (
            ("CreateAccessKey", {"UserName": "five-worlds-maze"}),
            ("CreateUser", {"UserName": "somebody"}),
        ):
            with pytest.raises((ClientError, ResponseParserError)):
                iam._make_api_call(name, fields)
    inner = ("127.0.0.1", server.block.ports["s3.port.grpc"])
    context = ssl._create_unverified_context()  # noqa: S323  (it is the server that is to ask)
    context.set_alpn_protocols(["h2"])
    with (
        pytest.raises(ssl.SSLError, match="certificate required"),
        socket.create_connection(inner, timeout=20) as plain,
        context.wrap_socket(plain) as stranger,
    ):
        stranger.sendall(HTTP2)
        stranger.recv(1)
    with socket.create_connection(inner, timeout=20) as plain:
        plain.sendall(HTTP2)
        with contextlib.suppress(ConnectionError):
            assert not plain.recv(9).startswith(b"\x00\x00"), "no answer without TLS"


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""How a client of gRPC begins."""
