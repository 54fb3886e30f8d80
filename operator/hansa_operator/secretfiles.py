"""Files of Secrets that a Job's Pod gets: private keys, and certificate authorities."""

from typing import Any, NamedTuple

from hansa.api.courier_assignment import ENV_SIGNING_KEY
from hansa.api.jobs import JobRequest
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.api.spec import FederationSpec, SecretKey
from hansa.core.logs import EXPERIENCE
from hansa.crypto.sealing import ENV_SEALING_KEY
from hansa.kubernetes.pod_policy.party_secrets import find_party_secrets
from hansa.store.experience import ENV_EXPERIENCE_KEY

FOLDER = "/etc/hansa"
"""Where they lie, each in a folder of its own."""
AUTHORITY = "ca.crt"
SEALING = "sealing.key"


class SecretFile(NamedTuple):
    """One key of a Secret as a file, and the variable that names it."""

    name: str
    """Of its volume, after `hansa-`, and of its folder."""
    secret: str
    key: str
    file: str
    variable_name: str

    def source(self) -> dict[str, Any]:
        """The Pod's volume."""
        items = [{"key": self.key, "path": self.file}]
        secret = {"secretName": self.secret, "items": items}
        return {"name": f"hansa-{self.name}", "secret": secret}

    def mount(self) -> dict[str, Any]:
        """Where the container has it."""
        path = f"{FOLDER}/{self.name}"
        return {"name": f"hansa-{self.name}", "mountPath": path, "readOnly": True}

    def variable(self) -> dict[str, Any]:
        """How the program finds it."""
        return {"name": self.variable_name, "value": f"{FOLDER}/{self.name}/{self.file}"}


def list_files(request: JobRequest, spec: FederationSpec) -> list[SecretFile]:
    """The files that a Job needs, and no others."""
    own = find_party_secrets(spec, request.environment)
    made = [_authority("ca", own.ca, "")] if own.ca else []
    if own.experience_ca:
        made.append(_authority("experience-ca", own.experience_ca, EXPERIENCE))
    if request.role == "courier":  # it signs letters
        made.append(_private_key("signing", own.signing, ENV_SIGNING_KEY))
    if request.role == "aggregator" and own.sealing:  # it opens sealed updates
        made.append(_private_key("sealing", own.sealing, ENV_SEALING_KEY))
    if request.role == "client" and own.masking:  # needed only to send an update
        made.append(_private_key("masking", own.masking, ENV_MASKING_KEY))
    if own.experience_key:  # clients and evaluations write experience
        key = (own.experience_key, SEALING, SEALING, ENV_EXPERIENCE_KEY)
        made.append(SecretFile("experience", *key))
    return made


def _authority(name: str, secret: SecretKey, before: str) -> SecretFile:
    return SecretFile(name, secret.name, secret.key, AUTHORITY, f"{before}AWS_CA_BUNDLE")


def _private_key(name: str, secret: str, variable: str) -> SecretFile:
    return SecretFile(name, secret, f"{name}.key", f"{name}.key", variable)
