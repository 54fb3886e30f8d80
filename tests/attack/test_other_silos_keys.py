"""One silo's credentials against everybody else's objects, on a real S3 server.

What Hansa's own verbs may do is in tests/contract/test_store_grants.py. An attacker has more:
here are other requests that S3 knows. All are refused, and no object is another afterwards.
"""

import contextlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from hansa.api import bucket_keys
from hansa.local.objectstore import LocalStore
from tests.conftest import ENVIRONMENTS, PREFIX

pytestmark = pytest.mark.slow

MINE, OTHER, ROUND = "maze", "maze2", 77
"""The other's name begins with the attacker's: a policy by prefixes must tell them apart."""
OWN = bucket_keys.update_folder(PREFIX, MINE, ROUND) + bucket_keys.ADAPTER
PRIVATE = {
    "update": bucket_keys.update_folder(PREFIX, OTHER, ROUND) + bucket_keys.ADAPTER,
    "experience": bucket_keys.experience_shard(PREFIX, OTHER, ROUND),
    "evaluation": bucket_keys.evaluation(PREFIX, OTHER, ROUND),
}
SHARED = {
    "global adapter": bucket_keys.global_folder(PREFIX, ROUND) + bucket_keys.ADAPTER,
    "audit log": bucket_keys.audit_entry(PREFIX, ROUND),
    "federation.json": bucket_keys.federation(PREFIX),
}
"""What the attacker may read, and never write."""
TARGETS = {**PRIVATE, **SHARED}
PUBLIC = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*",'
PUBLIC += '"Resource":"arn:aws:s3:::hansa/*"}]}'
REFUSED = {"AccessDenied", "InvalidRequest", "SignatureDoesNotMatch"}
"""Answers that mean no; a path with .. is no request that the server takes."""


@dataclass(frozen=True)
class Attacker:
    """Who attacks, and what only the bucket's owner can do."""

    s3: Any
    """Any request of S3, signed with the attacker's credentials."""
    owner: Any
    """The same with those of the owner."""
    bucket: str
    """The federation's bucket."""

    @property
    def own(self) -> dict[str, str]:
        """The attacker's own object, as requests name it."""
        return {"Bucket": self.bucket, "Key": OWN}

    def at(self, key: str) -> dict[str, str]:
        """Any object, as requests name it."""
        return {"Bucket": self.bucket, "Key": key}

    @contextlib.contextmanager
    def upload(self, client: Any, key: str) -> Iterator[dict[str, str]]:
        """A multipart upload that this client has begun and does not end."""
        begun = {
            **self.at(key),
            "UploadId": client.create_multipart_upload(**self.at(key))["UploadId"],
        }
        try:
            yield begun
        finally:
            self.owner.abort_multipart_upload(**begun)


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """A store of its own: in that of all tests are thousands of objects to list again and again."""
    with LocalStore(tmp_path_factory.mktemp("attacked"), ENVIRONMENTS, prefix=PREFIX) as store:
        yield store


@pytest.fixture(scope="module")
def attacker(weed: LocalStore) -> Attacker:
    """With one object of each kind in the bucket."""
    store = weed.store()
    for key in (OWN, *TARGETS.values()):
        if not list(store.list(key)):
            store.put_if_absent(key, f"sound {key}".encode())
    return Attacker(weed.store(MINE)._client(), store._client(), weed.s3.bucket)


def contents(on: Attacker) -> dict[str, str]:
    """Every object of the bucket, with the digest of its bytes."""
    pages = on.owner.get_paginator("list_objects_v2").paginate(Bucket=on.bucket)
    return {each["Key"]: each["ETag"] for page in pages for each in page.get("Contents", [])}


@pytest.fixture(autouse=True)
def nothing_changes(attacker: Attacker) -> Iterator[None]:
    """Whatever a test tries."""
    before = contents(attacker)
    yield
    assert contents(attacker) == before


def refuse(request: Callable[[], Any]) -> None:
    """The request gets no answer but no."""
    with pytest.raises(ClientError) as answer:
        request()
    assert answer.value.response["Error"]["Code"] in REFUSED


def steal_by_copy(on: Attacker, key: str) -> Any:
    return on.s3.copy_object(**on.at(f"{OWN}-stolen"), CopySource=on.at(key))


def steal_by_part(on: Attacker, key: str) -> Any:
    with on.upload(on.s3, f"{OWN}-stolen") as upload:
        return on.s3.upload_part_copy(**upload, PartNumber=1, CopySource=on.at(key))


READS: dict[str, Callable[[Attacker, str], Any]] = {
    "tags": lambda on, key: on.s3.get_object_tagging(**on.at(key)),
    "access list": lambda on, key: on.s3.get_object_acl(**on.at(key)),
    "attributes": lambda on, key: on.s3.get_object_attributes(
        **on.at(key), ObjectAttributes=["ObjectSize"]
    ),
    "copied to an own key": steal_by_copy,
    "copied as a part": steal_by_part,
    "by a path with dots": lambda on, key: on.s3.get_object(**on.at(dotted(key))),
    "by a path with a slash more": lambda on, key: on.s3.get_object(**on.at(f"/{key}")),
    "uploads in progress": lambda on, key: on.s3.list_multipart_uploads(
        Bucket=on.bucket, Prefix=key
    ),
    "listed by the first version": lambda on, key: on.s3.list_objects(Bucket=on.bucket, Prefix=key),
    "versions": lambda on, key: on.s3.list_object_versions(Bucket=on.bucket, Prefix=key),
}


def dotted(key: str) -> str:
    """The same object by a path that begins within the attacker's own folder."""
    return f"{bucket_keys.update_root(PREFIX, MINE)}../../{key.removeprefix(f'{PREFIX}/')}"


@pytest.mark.attack(
    by="a silo",
    does="reads another silo's objects, by 10 kinds of requests",
    result="denied",
)
@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("kind", PRIVATE)
def test_what_is_another_silos_cannot_be_read(attacker: Attacker, kind: str, how: str) -> None:
    refuse(lambda: READS[how](attacker, PRIVATE[kind]))


def remove_many(on: Attacker, key: str) -> Any:
    answer = on.s3.delete_objects(Bucket=on.bucket, Delete={"Objects": [{"Key": key}]})
    [error] = answer["Errors"]
    raise ClientError({"Error": error}, "DeleteObjects")


def add_a_part(on: Attacker, key: str) -> Any:
    with on.upload(on.owner, key) as upload:
        return on.s3.upload_part(**upload, PartNumber=1, Body=b"forged")


def complete(on: Attacker, key: str) -> Any:
    with on.upload(on.owner, key) as upload:
        part = on.owner.upload_part(**upload, PartNumber=1, Body=b"of the owner")
        parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
        return on.s3.complete_multipart_upload(**upload, MultipartUpload=parts)


def abort(on: Attacker, key: str) -> Any:
    with on.upload(on.owner, key) as upload:
        return on.s3.abort_multipart_upload(**upload)


WRITES: dict[str, Callable[[Attacker, str], Any]] = {
    "overwritten": lambda on, key: on.s3.put_object(**on.at(key), Body=b"forged"),
    "put beside it": lambda on, key: on.s3.put_object(**on.at(f"{key}-more"), Body=b"forged"),
    "deleted": lambda on, key: on.s3.delete_object(**on.at(key)),
    "deleted in a batch": remove_many,
    "copied over": lambda on, key: on.s3.copy_object(**on.at(key), CopySource=on.own),
    "uploaded in parts": lambda on, key: on.s3.create_multipart_upload(**on.at(key)),
    "given a part": add_a_part,
    "completed": complete,
    "aborted": abort,
    "tagged": lambda on, key: on.s3.put_object_tagging(
        **on.at(key), Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}
    ),
    "made public": lambda on, key: on.s3.put_object_acl(**on.at(key), ACL="public-read-write"),
    "put by a path with dots": lambda on, key: on.s3.put_object(
        **on.at(dotted(key)), Body=b"forged"
    ),
    "put by a path with a slash more": lambda on, key: on.s3.put_object(
        **on.at(key.replace("/", "//", 1)), Body=b"forged"
    ),
}


@pytest.mark.attack(
    by="a silo",
    does=(
        "writes, deletes, copies over or uploads parts of what is not its own, by 13 kinds of "
        "requests"
    ),
    result="denied",
)
@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("kind", TARGETS)
def test_what_is_not_its_own_a_silo_cannot_change(attacker: Attacker, kind: str, how: str) -> None:
    refuse(lambda: WRITES[how](attacker, TARGETS[kind]))


BUCKET: dict[str, Callable[[Attacker], Any]] = {
    "opened to all by a policy": lambda on: on.s3.put_bucket_policy(
        Bucket=on.bucket, Policy=PUBLIC
    ),
    "opened to all by an access list": lambda on: on.s3.put_bucket_acl(
        Bucket=on.bucket, ACL="public-read-write"
    ),
    "emptied by a lifecycle": lambda on: on.s3.put_bucket_lifecycle_configuration(
        Bucket=on.bucket,
        LifecycleConfiguration={
            "Rules": [
                {
                    "ID": "all",
                    "Status": "Enabled",
                    "Filter": {"Prefix": ""},
                    "Expiration": {"Days": 1},
                }
            ]
        },
    ),
    "versioned": lambda on: on.s3.put_bucket_versioning(
        Bucket=on.bucket, VersioningConfiguration={"Status": "Enabled"}
    ),
    "deleted": lambda on: on.s3.delete_bucket(Bucket=on.bucket),
    "joined by another": lambda on: on.s3.create_bucket(Bucket="another"),
    "stripped of its own update": lambda on: on.s3.delete_object(**on.own),
}


@pytest.mark.attack(
    by="a silo",
    does="changes the bucket's policy, access list or lifecycle, or deletes the bucket",
    result="denied",
)
@pytest.mark.parametrize("how", BUCKET)
def test_the_bucket_itself_is_not_a_silos_to_change(attacker: Attacker, how: str) -> None:
    refuse(lambda: BUCKET[how](attacker))


@pytest.mark.attack(
    by="a silo",
    does="lists above its own folders",
    result="sees nothing",
)
@pytest.mark.parametrize(
    "prefix", ["/", "/updates/", f"/updates/{MINE}/../", f"/experience/{OTHER}"]
)
def test_a_list_shows_nothing_of_others(attacker: Attacker, prefix: str) -> None:
    asked = {"Bucket": attacker.bucket, "Prefix": f"{PREFIX}{prefix}"}
    for version in (attacker.s3.list_objects, attacker.s3.list_objects_v2):
        try:
            listed = version(**asked).get("Contents", [])
        except ClientError as error:
            assert error.response["Error"]["Code"] in REFUSED
        else:
            assert listed == []


@pytest.mark.attack(
    by="a reader of the bucket",
    does="sends requests without credentials",
    result="denied",
)
@pytest.mark.parametrize("kind", TARGETS)
def test_without_credentials_nothing_is_shown(
    attacker: Attacker, weed: LocalStore, kind: str
) -> None:
    address = f"{weed.s3.endpoint}/{attacker.bucket}/{TARGETS[kind]}"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address)  # noqa: S310  (http, on this machine)


@pytest.mark.attack(
    by="a silo",
    does="turns a signed address of its own into another's",
    result="denied",
)
def test_a_signed_address_opens_no_other_object(attacker: Attacker) -> None:
    address = attacker.s3.generate_presigned_url("get_object", Params=attacker.own)
    with urllib.request.urlopen(address) as answer:  # noqa: S310
        assert answer.read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address.replace(f"/{MINE}/", f"/{OTHER}/"))  # noqa: S310


@pytest.mark.attack(
    by="a silo",
    does="makes itself keys in another's name",
    result="denied",
)
@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(("CreateAccessKey", {"UserName": OTHER}), id="a key in another's name"),
        pytest.param(("CreateAccessKey", {"UserName": MINE}), id="a further key of its own"),
        pytest.param(
            ("PutUserPolicy", {"UserName": MINE, "PolicyName": "all", "PolicyDocument": PUBLIC}),
            id="a policy of its own",
        ),
        pytest.param(("ListUsers", {}), id="who else there is"),
    ],
)
def test_no_credentials_can_be_made(weed: LocalStore, request_: tuple[str, dict[str, str]]) -> None:
    """The same door answers some requests of IAM."""
    import botocore.session

    pair, (name, fields) = weed.credentials[MINE], request_
    client = botocore.session.Session().create_client(
        "iam",
        endpoint_url=weed.s3.endpoint,
        region_name="us-east-1",
        aws_access_key_id=pair.access_key,
        aws_secret_access_key=pair.secret_key,
    )
    with pytest.raises(ClientError) as answer:
        client._make_api_call(name, fields)
    assert answer.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 403, 404, 405, 501)
