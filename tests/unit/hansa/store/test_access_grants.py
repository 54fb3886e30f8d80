"""The policies that keep one silo's objects from the others."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hansa.api import bucket_keys
from hansa.api.spec import S3, FederationSpec
from hansa.core.errors import InputError
from hansa.store import access_grants
from hansa.store.base import Credentials

STORAGE = S3(endpoint="http://store:9000", bucket="hansa", prefix="five/worlds")


def spec(**environment: Any) -> FederationSpec:
    return FederationSpec.model_validate(
        {
            "storage": {"s3": STORAGE.to_json()},
            "environments": [
                {"name": "maze", "world": "maze", **environment},
                {"name": "maze2", "world": "maze"},
            ],
        }
    )


def allows(policy: dict[str, Any], action: str, key: str, bucket: str = "hansa") -> bool:
    """What a server makes of a policy: any statement that fits allows."""
    for statement in policy["Statement"]:
        if action not in statement["Action"]:
            continue
        if action == "s3:ListBucket":
            prefixes = statement["Condition"]["StringLike"]["s3:prefix"]
            fits = statement["Resource"] == [f"arn:aws:s3:::{bucket}"]
            if fits and any(fnmatchcase(key, prefix) for prefix in prefixes):
                return True
        elif any(fnmatchcase(f"arn:aws:s3:::{bucket}/{key}", r) for r in statement["Resource"]):
            return True
    return False


ACTIONS = {"read": "s3:GetObject", "list": "s3:ListBucket", "write": "s3:PutObject"}
ALL = " ".join(ACTIONS)


def rights(policy: dict[str, Any], key: str, bucket: str = "hansa") -> str:
    """Everything that a policy allows with a key."""
    return " ".join(n for n, action in ACTIONS.items() if allows(policy, action, key, bucket))


def policy_of(identity: str, **environment: Any) -> dict[str, Any]:
    return access_grants.iam_policy(access_grants.list_grants(spec(**environment), identity))


def test_the_policy_of_an_environment_is_this_document() -> None:
    assert policy_of("maze") == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": ["arn:aws:s3:::hansa"],
                "Condition": {
                    "StringLike": {
                        "s3:prefix": [
                            "five/worlds/audit/*",
                            "five/worlds/evaluations/maze/*",
                            "five/worlds/experience/maze/*",
                            "five/worlds/federation.json",
                            "five/worlds/global/*",
                            "five/worlds/updates/maze/*",
                        ]
                    }
                },
            },
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject"],
                "Resource": [
                    "arn:aws:s3:::hansa/five/worlds/audit/*",
                    "arn:aws:s3:::hansa/five/worlds/evaluations/maze/*",
                    "arn:aws:s3:::hansa/five/worlds/experience/maze/*",
                    "arn:aws:s3:::hansa/five/worlds/federation.json",
                    "arn:aws:s3:::hansa/five/worlds/global/*",
                    "arn:aws:s3:::hansa/five/worlds/updates/maze/*",
                ],
            },
            {
                "Effect": "Allow",
                "Action": ["s3:PutObject"],
                "Resource": [
                    "arn:aws:s3:::hansa/five/worlds/evaluations/maze/*",
                    "arn:aws:s3:::hansa/five/worlds/experience/maze/*",
                    "arn:aws:s3:::hansa/five/worlds/updates/maze/*",
                ],
            },
        ],
    }


def test_a_name_that_begins_with_anothers_name_opens_nothing() -> None:
    policy = policy_of("maze")
    for root in (bucket_keys.update_root, bucket_keys.evaluation_root, bucket_keys.experience_root):
        assert rights(policy, root(STORAGE.prefix, "maze") + "00001") == ALL
        assert rights(policy, root(STORAGE.prefix, "maze2") + "00001") == ""
        assert rights(policy, root(STORAGE.prefix, "maze").rstrip("/")) == ""


def test_the_aggregator_sees_no_experience_and_no_evaluation() -> None:
    for name in ("maze", "maze2"):
        for key in (bucket_keys.experience_shard, bucket_keys.evaluation):
            assert rights(policy_of("aggregator"), key(STORAGE.prefix, name, 1)) == ""


def test_the_aggregator_reads_updates_and_writes_only_what_is_shared() -> None:
    policy = policy_of("aggregator")
    for folder, allowed in (
        (bucket_keys.update_folder(STORAGE.prefix, "maze", 3), "read list"),
        (bucket_keys.global_folder(STORAGE.prefix, 3), ALL),
    ):
        assert rights(policy, folder + bucket_keys.ADAPTER) == allowed
    assert rights(policy, bucket_keys.federation(STORAGE.prefix)) == ALL


def test_the_audit_log_is_written_by_the_aggregator_and_read_by_all() -> None:
    for identity, allowed in (("aggregator", ALL), ("maze", "read list")):
        assert rights(policy_of(identity), bucket_keys.audit_entry(STORAGE.prefix, 3)) == allowed
        assert "list" in rights(policy_of(identity), bucket_keys.audit_root(STORAGE.prefix))


def test_a_silo_and_the_aggregator_may_both_write_its_claims_where_updates_are_masked() -> None:
    claim, other = (bucket_keys.claim(STORAGE.prefix, name, 3, 0) for name in ("maze", "maze2"))
    silo = access_grants.environment_grants(STORAGE, "maze", claims=True)
    remote = access_grants.remote_grants(STORAGE, "maze", claims=True)
    for policy in map(access_grants.iam_policy, (silo, remote)):
        assert (rights(policy, claim), rights(policy, other)) == (ALL, "")
    policy = access_grants.iam_policy(access_grants.aggregator_grants(STORAGE, claims=True))
    assert (rights(policy, claim), rights(policy, other)) == (ALL, ALL)
    for identity in ("maze", "aggregator"):
        assert rights(policy_of(identity), claim) == ""


def test_nobody_may_delete() -> None:
    for identity in ("maze", "aggregator"):
        text = json.dumps(policy_of(identity))
        assert "Delete" not in text
        assert "s3:*" not in text


def test_a_private_store_elsewhere_has_a_policy_of_its_own() -> None:
    private = {"endpoint": "http://silo:9000", "bucket": "private", "prefix": "mine"}
    stores = access_grants.group_by_endpoint(
        access_grants.list_grants(spec(experienceStorage={"s3": private}), "maze"),
    )
    assert list(stores) == ["http://store:9000", "http://silo:9000"]
    shared, own = (access_grants.iam_policy(granted) for granted in stores.values())
    assert "experience" not in json.dumps(shared)
    shard = bucket_keys.experience_shard("mine", "maze", 1)
    assert (rights(own, shard, "private"), rights(own, shard)) == (ALL, "")


def test_a_private_bucket_beside_the_exchange_is_in_the_same_policy() -> None:
    private = {"endpoint": "http://store:9000/", "bucket": "private"}
    stores = access_grants.group_by_endpoint(
        access_grants.list_grants(spec(experienceStorage={"s3": private}), "maze")
    )
    [granted] = stores.values()
    policy = access_grants.iam_policy(granted)
    assert rights(policy, bucket_keys.experience_shard("", "maze", 1), "private") == ALL
    assert rights(policy, bucket_keys.federation(STORAGE.prefix)) == "read list"


@pytest.mark.parametrize(
    "region, start",
    [
        ("us-east-1", "arn:aws:s3"),
        ("cn-north-1", "arn:aws-cn:s3"),
        ("us-gov-west-1", "arn:aws-us-gov:s3"),
        ("local", "arn:aws:s3"),
    ],
)
def test_resources_are_named_as_the_region_wants(region: str, start: str) -> None:
    storage = S3(bucket="hansa", region=region)
    policy = access_grants.iam_policy(access_grants.aggregator_grants(storage))
    assert policy["Statement"][0]["Resource"] == [f"{start}:::hansa"]


def test_a_file_of_demonstrations_may_be_read_by_its_environment_alone() -> None:
    given = {"demonstrationsFrom": "s3://data/silo/shown.jsonl"}
    assert rights(policy_of("maze", **given), "silo/shown.jsonl", "data") == "read list"
    assert rights(policy_of("maze", **given), "silo/other.jsonl", "data") == ""
    for other in ("maze2", "aggregator"):
        assert rights(policy_of(other, **given), "silo/shown.jsonl", "data") == ""
    assert policy_of("maze", demonstrationsFrom="/a/path") == policy_of("maze")


@pytest.mark.parametrize(
    "file",
    [
        "s3://fed/*",
        "s3://fed/p/experience/",
        "s3://*/x",
        "s3://fed/a?c",
        "s3://fed/${aws:username}",
    ],
)
def test_a_file_that_would_open_more_than_itself_is_refused(file: str) -> None:
    with pytest.raises(ValidationError, match="demonstrationsFrom"):
        spec(demonstrationsFrom=file)


def test_an_unknown_identity_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="got 'wordle', expected aggregator, maze, maze2"):
        access_grants.list_grants(spec(), "wordle")


def test_a_spec_without_storage_needs_one_given() -> None:
    bare = FederationSpec.model_validate({"environments": [{"name": "maze", "world": "maze"}]})
    with pytest.raises(InputError, match=r"spec\.storage: got nothing"):
        access_grants.list_grants(bare, "maze")
    assert access_grants.list_grants(bare, "maze", STORAGE)


def test_the_servers_file_holds_the_same_policies_and_one_administrator() -> None:
    pairs = {
        name: Credentials(access_key=f"key-{name}", secret_key=f"secret-{name}")
        for name in ("maze", "root")
    }
    granted = {"maze": access_grants.list_grants(spec(), "maze")}
    document = access_grants.seaweedfs_identities(granted, pairs, admin="root")
    [policy] = document["policies"]
    assert json.loads(policy["content"]) == access_grants.iam_policy(granted["maze"])
    maze, root = document["identities"]
    assert maze["credentials"] == [{"accessKey": "key-maze", "secretKey": "secret-maze"}]
    assert maze["policyNames"] == ["maze"]
    assert "actions" not in maze
    assert root["actions"] == ["Admin"]


def test_the_aggregators_policy_does_not_grow_with_the_environments() -> None:
    many = FederationSpec.model_validate(
        {
            "storage": {"s3": STORAGE.to_json()},
            "environments": [{"name": f"silo-{n}", "world": "maze"} for n in range(100)],
        }
    )
    policy = json.dumps(access_grants.iam_policy(access_grants.list_grants(many, "aggregator")))
    assert len(policy) < 2048, "Amazon takes 2,048 characters for a user's own policy"


names = st.text("ab0", min_size=1, max_size=3)


@given(mine=names, other=names, prefix=st.sampled_from(["", "p", "p/updates", "experience"]))
def test_no_environment_reaches_into_another(mine: str, other: str, prefix: str) -> None:
    storage = S3(bucket="hansa", prefix=prefix)
    policy = access_grants.iam_policy(access_grants.environment_grants(storage, mine, claims=True))
    theirs = [
        bucket_keys.update_folder(prefix, other, 1),
        bucket_keys.evaluation(prefix, other, 1),
        bucket_keys.experience_shard(prefix, other, 1),
        bucket_keys.claim(prefix, other, 1, 0),
    ]
    for key in theirs:
        assert rights(policy, key) == (ALL if mine == other else "")


# Silos in clusters of their own


LETTERS = (bucket_keys.order, bucket_keys.answer)


def letter_rights(policy: dict[str, Any], name: str) -> tuple[str, ...]:
    """What it allows with orders to a silo and answers of it."""
    return tuple(rights(policy, key(STORAGE.prefix, name, 7)) for key in LETTERS)


def test_an_environment_of_the_same_cluster_has_nothing_to_do_with_letters() -> None:
    for identity in ("maze", "aggregator"):
        assert letter_rights(policy_of(identity), "maze") == ("", "")


def test_a_remote_silo_reads_its_orders_and_writes_its_answers_and_no_others() -> None:
    policy = access_grants.iam_policy(access_grants.remote_grants(STORAGE, "maze"))
    assert letter_rights(policy, "maze") == ("read list", ALL)
    assert letter_rights(policy, "maze2") == ("", "")
    for root in (bucket_keys.update_root, bucket_keys.evaluation_root):
        assert rights(policy, root(STORAGE.prefix, "maze") + "00001") == ALL
    assert rights(policy, bucket_keys.global_folder(STORAGE.prefix, 1)) == "read list"


def test_a_remote_silo_may_keep_its_own_experience_in_either_bucket_and_no_other() -> None:
    shared = access_grants.iam_policy(access_grants.remote_grants(STORAGE, "maze"))
    assert rights(shared, bucket_keys.experience_shard(STORAGE.prefix, "maze", 1)) == ALL
    assert rights(shared, bucket_keys.experience_shard(STORAGE.prefix, "maze2", 1)) == ""
    private = S3(bucket="private", prefix="mine")
    own = access_grants.iam_policy(access_grants.private_grants(private, "maze"))
    assert rights(own, bucket_keys.experience_shard("mine", "maze", 1), "private") == ALL
    assert "hansa/" not in json.dumps(own)


def test_the_coordinator_writes_orders_and_reads_answers() -> None:
    policy = access_grants.iam_policy(access_grants.aggregator_grants(STORAGE, has_remote=True))
    for name in ("maze", "maze2"):
        assert letter_rights(policy, name) == (ALL, "read list")
    assert len(json.dumps(policy)) < 2048, "Amazon takes 2,048 characters for a user's own policy"


def test_nothing_is_overwritten_where_the_store_knows_the_condition() -> None:
    granted = access_grants.remote_grants(STORAGE, "maze")
    plain, once = (access_grants.iam_policy(granted, write_once=each) for each in (False, True))
    [put] = [s for s in once["Statement"] if s["Action"] == ["s3:PutObject"]]
    assert put.pop("Condition") == {"Null": {"s3:if-none-match": "false"}}
    assert once == plain


def test_minio_is_told_to_make_no_further_access_keys() -> None:
    granted = access_grants.remote_grants(STORAGE, "maze")
    plain, minio = (access_grants.iam_policy(granted, minio=each) for each in (False, True))
    denied = {"Effect": "Deny", "Action": ["admin:*"]}
    assert minio["Statement"] == [*plain["Statement"], denied]
