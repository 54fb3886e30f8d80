"""Secrets that one party's Jobs use because the spec names them."""

from collections.abc import Iterator
from dataclasses import dataclass

from hansa.api.spec import FederationSpec, SecretKey, SecretName


@dataclass(frozen=True, kw_only=True)
class PartySecrets:
    """Names of Secrets, and keys in them; empty where the spec names none."""

    credentials: str = ""
    """AWS keys for the exchange; empty: the default chain."""
    experience: str = ""
    """AWS keys of the silo's private store, where these are others."""
    ca: SecretKey | None = None
    """Certificate authority of the exchange."""
    experience_ca: SecretKey | None = None
    """Certificate authority of the private store."""
    endpoint: SecretKey | None = None
    """What clients show to the endpoint that they ask."""
    signing: str = ""
    """The key that signs orders, which only couriers get."""
    sealing: str = ""
    """The key that opens sealed updates, which only aggregators get."""
    masking: str = ""
    """The key that a silo's masks follow from."""
    experience_key: str = ""
    """The key that a silo's experience is sealed to."""

    def names(self) -> Iterator[str]:
        """Secrets with keys or passwords; certificates are no secrets."""
        own = (self.credentials, self.experience, self.signing, self.sealing)
        endpoint = self.endpoint.name if self.endpoint else ""
        yield from filter(None, (*own, self.masking, self.experience_key, endpoint))


def find_party_secrets(spec: FederationSpec, party: str) -> PartySecrets:
    """Secrets of an environment; with an empty name, those of the aggregator and the couriers.

    An environment never gets the aggregator's credentials, which open every silo's updates.
    """
    shared = spec.storage.s3 if spec.storage else None
    ca = shared.ca_secret if shared else None
    if not party:
        return PartySecrets(
            credentials=_name(shared.credentials_secret if shared else None),
            ca=ca,
            signing=_name(spec.exchange.signing_secret if spec.exchange else None),
            sealing=_name(spec.storage.sealing_secret if spec.storage else None),
        )
    own = spec.environment(party)
    private = own.experience_storage.s3 if own.experience_storage else None
    credentials = _name(own.credentials_secret)
    experience = _name(private.credentials_secret if private else None)
    return PartySecrets(
        credentials=credentials,
        experience=experience if experience != credentials else "",
        ca=ca,
        experience_ca=private.ca_secret if private else None,
        endpoint=own.endpoint.api_key_secret if own.endpoint else None,
        masking=_name(own.masking_secret),
        experience_key=_name(own.experience_key_secret),
    )


def _name(secret: SecretName | None) -> str:
    return secret.name if secret else ""
