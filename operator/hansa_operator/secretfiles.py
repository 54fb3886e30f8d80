"""Files of Secrets that a Job's Pod gets: private keys, and certificate authorities."""

from typing import Any, NamedTuple

from hansa.api.courier_assignment import ENV_SIGNING_KEY
from hansa.api.jobs import JobRequest
from hansa.api.secure_aggregation import ENV_MASKING_KEY
from hansa.api.spec import FederationSpec, SecretKey
from hansa.core.logs import EXPERIENCE
from hansa.crypto.sealing import ENV_SEALING_KEY
from hansa.kubernetes.pod_policy.refusals import (
    ca_secret,
    experience_ca_secret,
    experience_key_secret,
    masking_secret,
    sealing_secret,
    signing_secret,
)
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
        return {"name": self._volume, "secret": {"secretName": self.secret, "items": items}}

    def mount(self) -> dict[str, Any]:
        """Where the container has it."""
        return {"name": self._volume, "mountPath": f"{FOLDER}/{self.name}", "readOnly": True}

    def variable(self) -> dict[str, Any]:
        """How the program finds it."""
        return {"name": self.variable_name, "value": f"{FOLDER}/{self.name}/{self.file}"}

    @property
    def _volume(self) -> str:
        return f"hansa-{self.name}"


def files(request: JobRequest, spec: FederationSpec) -> list[SecretFile]:
    """What a Job needs, and no other Job's."""
    shared, private = ca_secret(spec), experience_ca_secret(spec, request.environment)
    made = [_authority("ca", shared, "")] if shared else []
    if private:
        made.append(_authority("experience-ca", private, EXPERIENCE))
    opening = sealing_secret(spec)
    if request.role == "courier":  # it signs letters
        made.append(_private_key("signing", signing_secret(spec), ENV_SIGNING_KEY))
    if request.role == "aggregator" and opening:  # it opens sealed updates
        made.append(_private_key("sealing", opening, ENV_SEALING_KEY))
    masking = masking_secret(spec, request.environment) if request.role == "client" else ""
    if masking:  # its silo's alone, and only to send an update
        made.append(_private_key("masking", masking, ENV_MASKING_KEY))
    own = experience_key_secret(spec, request.environment)
    if own and request.role in ("client", "evaluate"):  # they write experience
        made.append(SecretFile("experience", own, SEALING, SEALING, ENV_EXPERIENCE_KEY))
    return made


def _authority(name: str, secret: SecretKey, before: str) -> SecretFile:
    return SecretFile(name, secret.name, secret.key, AUTHORITY, f"{before}AWS_CA_BUNDLE")


def _private_key(name: str, secret: str, variable: str) -> SecretFile:
    return SecretFile(name, secret, f"{name}.key", f"{name}.key", variable)
