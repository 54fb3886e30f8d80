"""Who may do what in the bucket: one list of grants, printed as an S3 policy or given to a server.

An environment reads what is shared and writes only below its own name; the aggregator reads every
update and no experience. Folders end in a slash, so that a grant for `maze` does not match `maze2`.
With secure aggregation both may write the same claims, and the first writer decides.

Limits: a policy guards the bucket, not the machines that hold the credentials.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hansa.api import bucket_keys
from hansa.api.spec import S3, FederationSpec
from hansa.core.errors import InputError
from hansa.store.base import Credentials

AGGREGATOR = "aggregator"
"""Identity of the aggregator; no environment can have this name."""

Right = Literal["read", "write"]


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What an identity may do with one object, or with everything below one folder."""

    s3: S3
    """Store and bucket that hold it."""
    path: str
    """Key of an object, or a folder when it ends in a slash."""
    rights: tuple[Right, ...]
    """Reading includes listing: without it a missing object looks like a forbidden one."""

    def pattern(self) -> str:
        """The keys it covers, as policies write them."""
        return f"{self.path}*" if self.path.endswith("/") else self.path


def _grants(s3: S3, rights: tuple[Right, ...], *paths: str) -> list[Grant]:
    return [Grant(s3=s3, path=path, rights=rights) for path in paths]


def environment_grants(
    storage: S3,
    name: str,
    private: S3 | None = None,
    *,
    claims: bool = False,
    ledger: bool = False,
) -> list[Grant]:
    """What one environment needs; `private` is its experienceStorage, where it has one.

    `claims`: it masks its updates; `ledger`: it keeps a privacy ledger in its private store.
    """
    prefix = storage.prefix
    shared = (bucket_keys.federation, bucket_keys.global_root, bucket_keys.audit_root)
    own = [bucket_keys.update_root, bucket_keys.evaluation_root]
    own += [bucket_keys.claim_root] if claims else []
    return [
        *_grants(storage, ("read",), *(key(prefix) for key in shared)),
        *_grants(storage, ("read", "write"), *(key(prefix, name) for key in own)),
        *private_grants(private or storage, name, ledger=ledger and private is not None),
        *(_grants(private, ("read",), bucket_keys.privacy_budget(name)) if private else ()),
    ]


def remote_grants(storage: S3, name: str, *, claims: bool = False) -> list[Grant]:
    """What a silo in a cluster of its own needs of the exchange: its letters, too.

    Its experience is in a store of its own, or sealed to its own key in its folder of this one.
    """
    return [
        *environment_grants(storage, name, claims=claims),
        *_grants(storage, ("read",), bucket_keys.order_root(storage.prefix, name)),
        *_grants(storage, ("read", "write"), bucket_keys.answer_root(storage.prefix, name)),
    ]


def private_grants(private: S3, name: str, *, ledger: bool = True) -> list[Grant]:
    """What a silo needs of the store that has its experience."""
    paths = [bucket_keys.experience_root(private.prefix, name)]
    paths += [bucket_keys.privacy_root(name)] if ledger else []
    return _grants(private, ("read", "write"), *paths)


def aggregator_grants(
    storage: S3, *, has_remote: bool = False, claims: bool = False
) -> list[Grant]:
    """What the aggregator needs; it may read no experience and no evaluations.

    Where environments are in clusters of their own, its identity is also the coordinator's, which
    writes orders and reads answers.
    """
    writes = [bucket_keys.federation, bucket_keys.global_root, bucket_keys.audit_root]
    writes += [bucket_keys.orders_root] if has_remote else []
    writes += [bucket_keys.claims_root] if claims else []
    reads = [bucket_keys.updates_root, *([bucket_keys.answers_root] if has_remote else [])]
    return [
        *_grants(storage, ("read", "write"), *(key(storage.prefix) for key in writes)),
        *_grants(storage, ("read",), *(key(storage.prefix) for key in reads)),
    ]


def list_grants(spec: FederationSpec, identity: str, storage: S3 | None = None) -> list[Grant]:
    """All grants of an environment or `aggregator`; `storage` stands in for a spec without one."""
    storage = storage or (spec.storage.s3 if spec.storage else None)
    if storage is None:
        raise InputError("spec.storage: got nothing, expected storage.s3 to write a policy for")
    claims = spec.aggregation.secure is not None
    if identity == AGGREGATOR:
        has_remote = any(e.member for e in spec.environments)
        return aggregator_grants(storage, has_remote=has_remote, claims=claims)
    known = sorted(e.name for e in spec.environments)
    if identity not in known:
        raise InputError(f"identity: got '{identity}', expected aggregator, {', '.join(known)}")
    environment = spec.environment(identity)
    if environment.member:
        return remote_grants(storage, identity, claims=claims)
    private = environment.experience_storage.s3 if environment.experience_storage else None
    file = environment.demonstrations_from or spec.experience.demonstrations_from
    return [
        *environment_grants(
            storage, identity, private, claims=claims, ledger=spec.privacy is not None
        ),
        *_demonstrations_grants(private or storage, file or ""),
    ]


def _demonstrations_grants(own: S3, file: str) -> list[Grant]:
    """To read the file of demonstrations, in the store that has the environment's experience."""
    bucket, _, key = file.removeprefix("s3://").partition("/")
    if not file.startswith("s3://"):
        return []
    return _grants(own.model_copy(update={"bucket": bucket, "prefix": ""}), ("read",), key)


def group_by_endpoint(granted: Iterable[Grant]) -> dict[str, list[Grant]]:
    """Grants of each store: an experienceStorage elsewhere has a policy of its own there."""
    stores: dict[str, list[Grant]] = {}
    for grant in granted:
        stores.setdefault((grant.s3.endpoint or "").rstrip("/"), []).append(grant)
    return stores


def iam_policy(
    granted: Iterable[Grant], *, minio: bool = False, write_once: bool = False
) -> dict[str, Any]:
    """The policy document that Amazon, MinIO and SeaweedFS understand.

    MinIO lets every user create access keys and change its secret unless a policy forbids it:
    with `minio` this one does. Temporary keys cannot be forbidden there; they have no more rights
    than their user, and expire.

    `write_once` allows writes only with `If-None-Match`, as all programs do, so that stolen
    credentials cannot overwrite objects. Stores other than Amazon's may not know the condition.
    """
    conditional = {"Null": {"s3:if-none-match": "false"}}
    statements: list[dict[str, Any]] = []
    buckets: dict[str, list[Grant]] = {}
    for grant in granted:
        buckets.setdefault(_arn(grant.s3), []).append(grant)
    for arn, rules in sorted(buckets.items()):
        read = sorted(rule.pattern() for rule in rules if "read" in rule.rights)
        write = sorted(rule.pattern() for rule in rules if "write" in rule.rights)
        listing = {"StringLike": {"s3:prefix": read}}
        if read:
            statements.append(_allow("s3:ListBucket", [arn], Condition=listing))
            statements.append(_allow("s3:GetObject", [f"{arn}/{path}" for path in read]))
        if write:
            once = {"Condition": conditional} if write_once else {}
            statements.append(_allow("s3:PutObject", [f"{arn}/{path}" for path in write], **once))
    if minio:
        statements.append({"Effect": "Deny", "Action": ["admin:*"]})
    return {"Version": "2012-10-17", "Statement": statements}


def seaweedfs_identities(
    granted: Mapping[str, list[Grant]], credentials: Mapping[str, Credentials], admin: str
) -> dict[str, Any]:
    """SeaweedFS's identities file: each name has the policy of its grants, `admin` all rights."""
    rights = {name: {"policyNames": [name]} for name in sorted(granted)}
    identities, policies = [], []
    for name, may in {**rights, admin: {"actions": ["Admin"]}}.items():
        who = credentials[name]
        pair = {"accessKey": who.access_key, "secretKey": who.secret_key}
        identities.append({"name": name, "credentials": [pair], **may})
    for name in rights:
        policies.append({"name": name, "content": json.dumps(iam_policy(granted[name]))})
    return {"identities": identities, "policies": policies}


def _allow(action: str, resources: list[str], **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": [action], "Resource": resources, **more}


def _arn(s3: S3) -> str:
    partitions = {"cn": "aws-cn", "us-gov": "aws-us-gov"}
    area = s3.region.rsplit("-", 2)[0]
    return f"arn:{partitions.get(area, 'aws')}:s3:::{s3.bucket}"
