"""What a tracker's Pod has that others have not, and what it never gets: a pure builder."""

from collections.abc import Mapping
from typing import Any

from hansa.podshapes import Refusal
from hansa.refusals import CLIENT
from hansa.spec import FederationSpec
from hansa.tracking.task import ENV_TRACKED

TRACKER_PLACE = "spec.tracking"
"""Field that a tracker's Job is made from."""
SERVER_PLACES = ("spec.storage", "spec.exchange", "spec.signingSecret")
"""Fields that other Jobs of the server's image are made from."""
FILES_VOLUME = "hansa-tracked"
FILES_FOLDER = "/var/lib/hansa/tracked"
FILES_GROUP = 65532
CA_VOLUME = "hansa-tracker-ca"
CA_FOLDER = "/etc/hansa/tracker-ca"
CA_FILE = "ca.crt"
ENV_CA = "MLFLOW_TRACKING_SERVER_CERT_PATH"
KEYS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
"""The only keys of its Secret that a tracker's Job sees."""

Data = dict[str, Any]


def concerns(refusal: Refusal, role: str, container: str) -> bool:
    """Whether a Job of that role is made from the field: a tracker disturbs nobody else."""
    is_tracking = refusal.path.startswith(TRACKER_PLACE)
    if role == "tracker":
        return is_tracking
    return not is_tracking and (container == CLIENT or refusal.path.startswith(SERVER_PLACES))


class TrackerPod:
    """Volumes and variables of a tracker's Pod, from spec.tracking alone."""

    def __init__(self, spec: FederationSpec) -> None:
        self._tracking = spec.tracking

    def volumes(self) -> list[Data]:
        """The claim for files, and the server's certificate authority."""
        made: list[Data] = []
        if self._tracking and self._tracking.claim:
            claim = {"claimName": self._tracking.claim}
            made.append({"name": FILES_VOLUME, "persistentVolumeClaim": claim})
        if self._tracking and self._tracking.ca_secret:
            secret = self._tracking.ca_secret
            items = [{"key": secret.key, "path": CA_FILE}]
            made.append({"name": CA_VOLUME, "secret": {"secretName": secret.name, "items": items}})
        return made

    def security(self) -> Data:
        """A claim is written by a group that its files get."""
        if not (self._tracking and self._tracking.claim):
            return {}
        return {"fsGroup": FILES_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}

    def mounts(self) -> list[Data]:
        """Where they are in the container."""
        made: list[Data] = []
        if self._tracking and self._tracking.claim:
            made.append({"name": FILES_VOLUME, "mountPath": FILES_FOLDER})
        if self._tracking and self._tracking.ca_secret:
            made.append({"name": CA_VOLUME, "mountPath": CA_FOLDER, "readOnly": True})
        return made

    def variables(self) -> list[Data]:
        """The Secret's three keys, as far as it has them, and where the rest is."""
        made: list[Data] = []
        if self._tracking and self._tracking.credentials_secret:
            name = self._tracking.credentials_secret.name
            for key in KEYS:
                reference = {"name": name, "key": key, "optional": True}
                made.append({"name": key, "valueFrom": {"secretKeyRef": reference}})
        if self._tracking and self._tracking.claim:
            made.append({"name": ENV_TRACKED, "value": FILES_FOLDER})
        if self._tracking and self._tracking.ca_secret:
            made.append({"name": ENV_CA, "value": f"{CA_FOLDER}/{CA_FILE}"})
        return made


def without_identity(template: Mapping[str, Any]) -> Data:
    """The operator's template for servers without its ServiceAccount: that may open the bucket."""
    spec = dict(template.get("spec") or {})
    spec.pop("serviceAccountName", None)
    return {**template, **({"spec": spec} if "spec" in template else {})}
