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


def test_the_policy_of_an_environment_is_this_document() -> None:
    assert access_grants.iam_policy(access_grants.list_grants(spec(), "maze")) == {
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
    policy = access_grants.iam_policy(access_grants.list_grants(spec(), "maze"))
    for root in (bucket_keys.update_root, bucket_keys.evaluation_root, bucket_keys.experience_root):
        assert allows(policy, "s3:PutObject", root(STORAGE.prefix, "maze") + "00001")
        for action in ("s3:GetObject", "s3:PutObject", "s3:ListBucket"):
            assert not allows(policy, action, root(STORAGE.prefix, "maze2") + "00001")
            assert not allows(policy, action, root(STORAGE.prefix, "maze").rstrip("/"))


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
def test_the_aggregator_sees_no_experience_and_no_evaluation(action: str) -> None:
    policy = access_grants.iam_policy(access_grants.list_grants(spec(), "aggregator"))
    for name in ("maze", "maze2"):
        assert not allows(policy, action, bucket_keys.experience_shard(STORAGE.prefix, name, 1))
        assert not allows(policy, action, bucket_keys.evaluation(STORAGE.prefix, name, 1))


def test_the_aggregator_reads_updates_and_writes_only_what_is_shared() -> None:
    policy = access_grants.iam_policy(access_grants.list_grants(spec(), "aggregator"))
    update = bucket_keys.update_folder(STORAGE.prefix, "maze", 3)
    assert allows(policy, "s3:GetObject", update + bucket_keys.ADAPTER)
    assert allows(policy, "s3:ListBucket", update)
    assert not allows(policy, "s3:PutObject", update + bucket_keys.ADAPTER)
    assert allows(
        policy, "s3:PutObject", bucket_keys.global_folder(STORAGE.prefix, 3) + bucket_keys.ADAPTER
    )
    assert allows(policy, "s3:PutObject", bucket_keys.federation(STORAGE.prefix))


def test_the_audit_log_is_written_by_the_aggregator_and_read_by_all() -> None:
    entry = bucket_keys.audit_entry(STORAGE.prefix, 3)
    for identity, may_write in (("aggregator", True), ("maze", False)):
        policy = access_grants.iam_policy(access_grants.list_grants(spec(), identity))
        assert allows(policy, "s3:GetObject", entry)
        assert allows(policy, "s3:ListBucket", bucket_keys.audit_root(STORAGE.prefix))
        assert allows(policy, "s3:PutObject", entry) is may_write


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
def test_a_silo_and_the_aggregator_may_both_write_its_claims_where_updates_are_masked(
    action: str,
) -> None:
    claim, other = (bucket_keys.claim(STORAGE.prefix, name, 3, 0) for name in ("maze", "maze2"))
    silo = access_grants.environment_grants(STORAGE, "maze", claims=True)
    remote = access_grants.remote_grants(STORAGE, "maze", claims=True)
    for granted in (silo, remote):
        assert allows(access_grants.iam_policy(granted), action, claim)
        assert not allows(access_grants.iam_policy(granted), action, other)
    policy = access_grants.iam_policy(access_grants.aggregator_grants(STORAGE, claims=True))
    assert allows(policy, action, claim) and allows(policy, action, other)
    for identity in ("maze", "aggregator"):
        assert not allows(
            access_grants.iam_policy(access_grants.list_grants(spec(), identity)), action, claim
        )


def test_nobody_may_delete() -> None:
    for identity in ("maze", "aggregator"):
        text = json.dumps(access_grants.iam_policy(access_grants.list_grants(spec(), identity)))
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
    assert allows(own, "s3:PutObject", shard, bucket="private")
    assert not allows(own, "s3:PutObject", shard)


def test_a_private_bucket_beside_the_exchange_is_in_the_same_policy() -> None:
    private = {"endpoint": "http://store:9000/", "bucket": "private"}
    stores = access_grants.group_by_endpoint(
        access_grants.list_grants(spec(experienceStorage={"s3": private}), "maze")
    )
    [granted] = stores.values()
    policy = access_grants.iam_policy(granted)
    assert allows(
        policy, "s3:PutObject", bucket_keys.experience_shard("", "maze", 1), bucket="private"
    )
    assert allows(policy, "s3:GetObject", bucket_keys.federation(STORAGE.prefix))


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
    given = spec(demonstrationsFrom="s3://data/silo/shown.jsonl")
    policy = access_grants.iam_policy(access_grants.list_grants(given, "maze"))
    assert allows(policy, "s3:GetObject", "silo/shown.jsonl", "data")
    assert allows(policy, "s3:ListBucket", "silo/shown.jsonl", "data")
    assert not allows(policy, "s3:PutObject", "silo/shown.jsonl", "data")
    assert not allows(policy, "s3:GetObject", "silo/other.jsonl", "data")
    for other in ("maze2", "aggregator"):
        policy = access_grants.iam_policy(access_grants.list_grants(given, other))
        assert not allows(policy, "s3:GetObject", "silo/shown.jsonl", "data")
    without = access_grants.list_grants(spec(demonstrationsFrom="/a/path"), "maze")
    assert access_grants.iam_policy(without) == access_grants.iam_policy(
        access_grants.list_grants(spec(), "maze")
    )


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
        for action in ("s3:GetObject", "s3:PutObject", "s3:ListBucket"):
            assert allows(policy, action, key) is (mine == other)


# Silos in clusters of their own


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
def test_an_environment_of_the_same_cluster_has_nothing_to_do_with_letters(action: str) -> None:
    for identity in ("maze", "aggregator"):
        policy = access_grants.iam_policy(access_grants.list_grants(spec(), identity))
        for key in (bucket_keys.order, bucket_keys.answer):
            assert not allows(policy, action, key(STORAGE.prefix, "maze", 1))


def test_a_remote_silo_reads_its_orders_and_writes_its_answers() -> None:
    policy = access_grants.iam_policy(access_grants.remote_grants(STORAGE, "maze"))
    order, answer = (
        key(STORAGE.prefix, "maze", 7) for key in (bucket_keys.order, bucket_keys.answer)
    )
    assert allows(policy, "s3:GetObject", order)
    assert not allows(policy, "s3:PutObject", order)
    assert allows(policy, "s3:GetObject", answer)
    assert allows(policy, "s3:PutObject", answer)
    for root in (bucket_keys.update_root, bucket_keys.evaluation_root):
        assert allows(policy, "s3:PutObject", root(STORAGE.prefix, "maze") + "00001")
    assert not allows(policy, "s3:PutObject", bucket_keys.global_folder(STORAGE.prefix, 1))


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
def test_a_remote_silo_may_keep_its_own_experience_in_either_bucket_and_no_other(
    action: str,
) -> None:
    shared = access_grants.iam_policy(access_grants.remote_grants(STORAGE, "maze"))
    assert allows(shared, action, bucket_keys.experience_shard(STORAGE.prefix, "maze", 1))
    assert not allows(shared, action, bucket_keys.experience_shard(STORAGE.prefix, "maze2", 1))
    private = S3(bucket="private", prefix="mine")
    own = access_grants.iam_policy(access_grants.private_grants(private, "maze"))
    assert allows(own, action, bucket_keys.experience_shard("mine", "maze", 1), "private")
    assert "hansa/" not in json.dumps(own)


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
def test_a_remote_silo_has_nothing_to_do_with_anothers_letters(action: str) -> None:
    policy = access_grants.iam_policy(access_grants.remote_grants(STORAGE, "maze"))
    for key in (bucket_keys.order, bucket_keys.answer):
        assert not allows(policy, action, key(STORAGE.prefix, "maze2", 1))


def test_the_coordinator_writes_orders_and_reads_answers() -> None:
    policy = access_grants.iam_policy(access_grants.aggregator_grants(STORAGE, has_remote=True))
    for name in ("maze", "maze2"):
        order, answer = (
            key(STORAGE.prefix, name, 1) for key in (bucket_keys.order, bucket_keys.answer)
        )
        assert allows(policy, "s3:PutObject", order)
        assert allows(policy, "s3:GetObject", order)
        assert allows(policy, "s3:GetObject", answer)
        assert not allows(policy, "s3:PutObject", answer)
    assert len(json.dumps(policy)) < 2048, "Amazon takes 2,048 characters for a user's own policy"


def test_nothing_is_overwritten_where_the_store_knows_the_condition() -> None:
    granted = access_grants.remote_grants(STORAGE, "maze")
    plain, once = (access_grants.iam_policy(granted, write_once=each) for each in (False, True))
    [put] = [s for s in once["Statement"] if s["Action"] == ["s3:PutObject"]]
    assert put.pop("Condition") == {"Null": {"s3:if-none-match": "false"}}
    assert once == plain
