"""`hansa policy`: exactly what one party's credentials must be allowed in the bucket."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli.common import Format, Output, print_data, say
from hansa.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hansa.access import Grant
    from hansa.spec import FederationSpec


def policy(
    party: Annotated[
        str,
        typer.Argument(
            metavar="ENVIRONMENT|aggregator", help="An environment's name, or aggregator."
        ),
    ],
    file: Annotated[Path, typer.Option("-f", "--file", help="Manifest, or - for stdin.")],
    experience: Annotated[
        bool,
        typer.Option(
            "--experience",
            help="Print the policy for the environment's experienceStorage instead.",
        ),
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
    from hansa.load import load

    spec = load(file, here=False).spec
    made, elsewhere = documents(spec, party, write_once=write_once)
    if elsewhere and not experience:
        say("note: its experience is in another store; --experience prints the policy for that")
    if experience and not elsewhere:
        raise InputError(
            f"--experience: got it for {party}, whose experience is in no other store, "
            "expected an environment with experienceStorage elsewhere"
        )
    print_data(elsewhere if experience else made, Format.JSON if output is Format.TABLE else output)


def documents(
    spec: "FederationSpec", party: str, *, write_once: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy for the shared store, and for the party's private one where that is another."""
    from hansa.access import AGGREGATOR, by_endpoint, grants, iam_policy

    granted = grants(spec, party)

    def made(rules: "Iterable[Grant]") -> dict[str, Any]:
        return iam_policy(rules, write_once=write_once)

    if party == AGGREGATOR:  # it averages tensors and never loads the model
        return made(granted), {}
    own = [grant for grant in granted if _is_private(spec, party, grant)]
    if own:  # keys of its own, so the others open nothing of it, even in the same store
        shared = [*(grant for grant in granted if grant not in own), *_model(spec)]
        return made(shared), made(own)
    # With one identity only a store elsewhere has a policy of its own; the shared one comes first.
    shared, *private = by_endpoint([*granted, *_model(spec)]).values()
    return made(shared), made(private[0]) if private else {}


def _is_private(spec: "FederationSpec", party: str, grant: "Grant") -> bool:
    """Whether a grant is for the second identity of a silo, where it has one."""
    from hansa.refusals import experience_secret

    secret = grant.s3.credentials_secret
    return secret is not None and secret.name == experience_secret(spec, party)


def _model(spec: "FederationSpec") -> list["Grant"]:
    """Reading a base model that lies in a bucket of the shared store."""
    from hansa.access import Grant

    source = spec.model.source
    if not source.startswith("s3://") or spec.storage is None:
        return []
    bucket, _, prefix = source.removeprefix("s3://").partition("/")
    store = spec.storage.s3.model_copy(update={"bucket": bucket})
    return [Grant(s3=store, path=f"{prefix.rstrip('/')}/", rights=("read",))]
