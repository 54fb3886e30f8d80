"""An invitation: what a federation asks of a silo, signed by the coordinator, with no secret in it.

The invitation contains its own public key, so the signature only shows that it was not changed.
That the key is the coordinator's, people verify: they compare its fingerprint elsewhere.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import ValidationError, model_validator

from hansa.api import constants
from hansa.api.bucket_documents import Sha256, canonical
from hansa.api.exchange import PublicKeys
from hansa.api.letters import SILO_EXPERIENCE, compute_run_id
from hansa.api.member_spec import Agreement, AllowedChanges
from hansa.api.ownership import clear_fields
from hansa.api.spec import S3, DnsName, FederationName, FederationSpec
from hansa.api.status import Federation, RoundSettings
from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.crypto import dsse
from hansa.crypto.dsse import SigningKey, Unverified
from hansa.members.allowances import build_limits, parse_allowances
from hansa.validation.messages import describe_first_misfit
from hansa.version import __version__

PAYLOAD_TYPE = "application/vnd.hansa.invitation.v1+json"
MOST_BYTES = 64 * 1024


class Invitation(Model):
    """Everything that a silo's owner is asked to agree to."""

    version: Literal[1] = 1
    """Version of this document."""
    federation: FederationName
    """Name of the federation."""
    run: Sha256
    """Which run of it."""
    environment: DnsName
    """The silo's name in it."""
    storage: S3
    """The bucket; its address may be another one for the silo."""
    public_keys: PublicKeys
    """Keys that sign orders."""
    agreed: Agreement
    """What orders will ask for."""
    allow: AllowedChanges | None = None
    """What the owner is asked to allow beyond that; nothing of it counts before they say so."""
    program: str
    """Version of the coordinator's program."""

    @model_validator(mode="after")
    def _check_allowances(self) -> Self:
        if self.allow and (wrong := self.allow.find_unknown_path()):
            raise ValueError(wrong)
        return self


def invite(federation: Federation, name: str, key: SigningKey, allow: Sequence[str] = ()) -> bytes:
    """The invitation for one silo; an InputError says what the manifest lacks."""
    spec = federation.spec
    remote = sorted(e.name for e in spec.environments if e.member)
    if name not in remote:
        known = ", ".join(remote) or "an environment with member"
        raise InputError(f"environment: got '{name}', expected {known}")
    if spec.exchange is None or spec.storage is None:  # the spec's own rule
        raise InputError("spec.exchange: got nothing, expected one")
    if key.public not in spec.exchange.public_keys:
        raise InputError(
            f"--key: got the key {key.public}, expected one of spec.exchange.publicKeys"
        )
    place = spec.storage.s3.model_copy(update={"credentials_secret": None, "ca_secret": None})
    agreed = _build_agreed(spec, name)
    made = Invitation(
        federation=federation.metadata.name,
        run=compute_run_id(spec.storage.s3, spec.identity()),
        environment=name,
        storage=place,
        public_keys=spec.exchange.public_keys,
        agreed=agreed,
        allow=parse_allowances(allow, agreed),
        program=__version__,
    )
    return dsse.sign_envelope(key, PAYLOAD_TYPE, canonical(made.to_json()))


def _build_agreed(spec: FederationSpec, name: str) -> Agreement:
    settings = RoundSettings.from_spec(spec)
    experience = clear_fields(settings.experience, SILO_EXPERIENCE)
    return Agreement(
        seed=spec.seed,
        rounds=spec.rounds,
        model=spec.model,
        adapter=spec.adapter,
        settings=settings.model_copy(update={"experience": experience}),
        demonstrations=spec.environment(name).demonstrations,
        masking_keys=_list_masking_keys(spec),
    )


def _list_masking_keys(spec: FederationSpec) -> dict[str, str] | None:
    if spec.aggregation.secure is None:
        return None
    return {e.name: e.masking_key for e in spec.environments if e.masking_key}


def open_invitation(data: bytes, name: str) -> tuple[Invitation, str]:
    """An invitation and the key that signed it, which is one of those that it names."""
    if len(data) > MOST_BYTES:
        raise InputError(f"{name}: got {len(data)} bytes, expected an invitation of at most 64 KiB")
    try:
        payload = json.loads(dsse.read_unverified_payload(data))
        claimed = Invitation.model_validate(payload)
    except (Unverified, ValueError) as error:
        why = describe_first_misfit(error) if isinstance(error, ValidationError) else "it is none"
        raise InputError(
            f"{name}: {why}, expected an invitation",
            hint="the coordinator makes one with `hansa invite`",
        ) from None
    for key in claimed.public_keys:
        try:
            dsse.verify_envelope(data, PAYLOAD_TYPE, [key])
        except Unverified:
            continue
        return claimed, key
    raise InputError(f"{name}: it is not signed by a key that it names, so somebody changed it")


def build_member_manifest(invitation: Invitation, own_key: str, world: str) -> dict[str, Any]:
    """The FederationMember that a silo's owner completes: world and stores are theirs to say."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.MEMBER_KIND,
        "metadata": {"name": invitation.federation},
        "spec": {
            "federation": {
                "name": invitation.federation,
                "run": invitation.run,
                "environment": invitation.environment,
                "publicKeys": list(invitation.public_keys),
            },
            "storage": {"s3": invitation.storage.to_json()},
            "publicKeys": [own_key],
            "world": world,
            "agreed": invitation.agreed.to_json(),
            **({"limits": build_limits(invitation.allow)} if invitation.allow else {}),
        },
    }
