"""`hansa policy`: exactly what one party's credentials must be allowed in the bucket."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.target import Manifest
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.api.spec import FederationSpec
    from hansa.store.access_grants import Grant


def policy(
    file: Manifest,
    party: Annotated[
        str,
        typer.Argument(
            metavar="ENVIRONMENT|aggregator", help="An environment's name, or aggregator."
        ),
    ],
    experience: Annotated[
        bool,
        typer.Option(
            "--experience",
            help="Print the policy for the environment's experienceStorage instead.",
        ),
    ] = False,
    minio: Annotated[
        bool,
        typer.Option("--minio", help="For MinIO: forbid to make further access keys, too."),
    ] = False,
    write_once: Annotated[
        bool,
        typer.Option(
            "--write-once",
            help="Allow no overwriting, by a condition that Amazon knows and others may not.",
        ),
    ] = False,
    output: Output = Format.JSON,
) -> None:
    """Print the bucket policy of one party: an IAM policy in JSON.

    It allows what the credentials of that environment, or of the aggregator, need, and no more.
    """
    from hansa.manifests.load import load

    spec = load(file, here=False).spec
    made, elsewhere = build_policies(spec, party, minio=minio, write_once=write_once)
    if elsewhere and not experience:
        say("note: its experience is in another store; --experience prints the policy for that")
    if experience and not elsewhere:
        raise InputError(
            f"--experience: got it for {party}, whose experience is in no other store, "
            "expected an environment with experienceStorage elsewhere"
        )
    print_data(elsewhere if experience else made, Format.JSON if output is Format.TABLE else output)


def build_policies(
    spec: "FederationSpec", party: str, *, minio: bool = False, write_once: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy for the shared store, and for the party's private one where that is another."""
    from hansa.store.access_grants import AGGREGATOR, iam_policy, list_grants

    granted = list_grants(spec, party)
    if party != AGGREGATOR:  # the aggregator averages tensors and never loads the model
        granted = [*granted, *_list_model_grants(spec)]
    made = [
        iam_policy(each, minio=minio, write_once=write_once)
        for each in _split_by_identity(spec, party, granted)
    ]
    return made[0], made[1] if len(made) > 1 else {}


def _split_by_identity(
    spec: "FederationSpec", party: str, granted: list["Grant"]
) -> list[list["Grant"]]:
    """The shared store's grants, then the private one's, where that is another or has own keys."""
    from hansa.kubernetes.pod_policy.party_secrets import find_party_secrets
    from hansa.store.access_grants import AGGREGATOR, group_by_endpoint

    own = find_party_secrets(spec, party).experience if party != AGGREGATOR else ""
    if not own:
        return list(group_by_endpoint(granted).values())  # the shared store's grants come first
    private = [
        grant
        for grant in granted
        if grant.s3.credentials_secret and grant.s3.credentials_secret.name == own
    ]
    return [[grant for grant in granted if grant not in private], private]


def _list_model_grants(spec: "FederationSpec") -> list["Grant"]:
    """Reading a base model that lies in a bucket of the shared store."""
    from hansa.store.access_grants import Grant

    source = spec.model.source
    if not source.startswith("s3://") or spec.storage is None:
        return []
    bucket, _, prefix = source.removeprefix("s3://").partition("/")
    store = spec.storage.s3.model_copy(update={"bucket": bucket})
    return [Grant(s3=store, path=f"{prefix.rstrip('/')}/", rights=("read",))]
