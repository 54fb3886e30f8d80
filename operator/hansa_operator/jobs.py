"""Jobs of a plan as Kubernetes objects: a pure builder, so that a golden file can show each one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hansa.api import constants
from hansa.api.assignment import (
    ENV_ASSIGNMENT,
    ENV_IMAGE,
    ENV_MODEL_CACHE,
    ENV_ORDER,
    ENV_WORLD_MODULES,
    TERMINATION_LOG,
)
from hansa.api.endpoint import ENV_API_KEY
from hansa.api.jobs import JobRequest
from hansa.api.silo_assignment import SiloClientAssignment
from hansa.api.spec import Participation
from hansa.api.status import Federation
from hansa.core.errors import PermanentError
from hansa.core.exits import Exit
from hansa.core.logs import ENV_LOG, EXPERIENCE
from hansa.kubernetes.client import Data
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.pod_policy.party_secrets import find_party_secrets
from hansa.kubernetes.pod_policy.refusals import CLIENT, check_length, select_violations
from hansa.kubernetes.pod_policy.shapes import PodViolation
from hansa.members.courier import LONGEST_SECONDS
from hansa_operator import kinds
from hansa_operator.kinds import Thing
from hansa_operator.podstate import CONSENT_VOLUME
from hansa_operator.podtemplate import SERVER, list_violations, merge
from hansa_operator.secretfiles import SecretFile, list_files
from hansa_operator.settings import Settings

CONTAINERS = {"client": CLIENT, "evaluate": CLIENT, "aggregator": SERVER, "courier": SERVER}
SERVER_PLACES = ("spec.storage", "spec.exchange", "spec.signingSecret")
"""Fields that Jobs of the server's image use; refusals elsewhere do not concern them."""
MANAGED_BY, OPERATOR = "app.kubernetes.io/managed-by", "hansa-operator"
MANAGED = f"{MANAGED_BY}={OPERATOR}"
"""Selects the Jobs and Pods of every object."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
SCRATCH = "/tmp"  # noqa: S108  # the Pod's own
SCRATCH_VOLUME = "hansa-scratch"
CONSENT_FOLDER = "/etc/hansa/consent"
CACHE_VOLUME = "model-cache"
"""A volume of this name, the user's or the operator's, keeps base models between Jobs."""
CACHE_FOLDER = "/var/cache/hansa"
CACHE_GROUP = 65532


class JobRefused(PermanentError):
    """No Job can be made from the object as it is; its refusals say why."""

    def __init__(self, refusals: list[PodViolation]) -> None:
        super().__init__("; ".join(refusal.sentence for refusal in refusals))
        self.refusals = refusals


FINAL = (Exit.PERMANENT, Exit.REFUSED, Exit.UNTRUSTED, Exit.PLUGIN_MISSING, Exit.BUDGET_SPENT)
"""Exits by which Kubernetes itself ends a Job: no other Pod would end otherwise."""


@dataclass(frozen=True)
class _JobDraft:
    """What a Job is built from."""

    request: JobRequest
    thing: Thing
    settings: Settings

    @cached_property
    def container(self) -> str:
        return CONTAINERS[self.request.role]

    @cached_property
    def federation(self) -> Federation:
        return kinds.find_kind(self.thing).as_federation(self.thing)

    @cached_property
    def files(self) -> list[SecretFile]:
        return list_files(self.request, self.federation.spec)

    @cached_property
    def consents(self) -> list[str]:
        """Secrets whose consent the kubelet has to find before it starts anything."""
        if self.settings.secret_consent == "off":  # noqa: S105  # no password
            return []
        signs = self.request.role == "courier"
        return consent.list_secrets(self.federation.spec, self.request.environment, signs=signs)


def build_manifest(request: JobRequest, thing: Thing, settings: Settings) -> Data:
    """The batch/v1 Job of a request; JobRefused when its Pod template or assignment cannot be.

    Pod templates are not frozen with the round: a new attempt uses the newest, so that raising
    a memory limit fixes the open round. Jobs that exist are never changed.
    """
    draft = _JobDraft(request, thing, settings)
    refused = select_violations(list_violations(thing, settings), request.environment)
    if draft.container == SERVER:
        refused = [refusal for refusal in refused if refusal.path.startswith(SERVER_PLACES)]
    if refused:
        raise JobRefused(refused)
    labels = _build_labels(request, thing)
    own = draft.federation.spec.environment(request.environment) if request.environment else None
    queue = own.queue_name if own else None
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.name,
            "namespace": thing.metadata.namespace,
            "labels": {**labels, **({QUEUE_LABEL: queue} if queue else {})},
            "ownerReferences": [_build_owner_reference(thing)],
        },
        "spec": {
            **({"suspend": True} if queue else {}),
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": _deadline_seconds(request, draft.federation),
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _failure_policy(draft.container),
            "template": _build_template(draft, labels),
        },
    }


def _build_labels(request: JobRequest, thing: Thing) -> dict[str, str]:
    labels = {
        "app.kubernetes.io/name": "hansa",
        "app.kubernetes.io/component": CONTAINERS[request.role],
        MANAGED_BY: OPERATOR,
        kinds.find_kind(thing).label: thing.metadata.name,
        constants.LABEL_ROLE: request.role,
        constants.LABEL_ROUND: str(request.round),
        constants.LABEL_ATTEMPT: str(request.attempt),
    }
    if request.environment:
        labels[constants.LABEL_ENVIRONMENT] = request.environment
    return labels


def _build_owner_reference(thing: Thing) -> Data:
    """Children go with their object; they never hold it back (blockOwnerDeletion)."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": thing.kind,
        "name": thing.metadata.name,
        "uid": thing.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _deadline_seconds(request: JobRequest, federation: Federation) -> int:
    """A last resort for Jobs without a running operator.

    It is the sum of both timeouts: the plan's own, which start later, always run out first.
    """
    current = federation.status.current
    rules: Participation = federation.spec.participation
    if request.role == "courier":
        return rules.start_timeout_seconds + 2 * int(LONGEST_SECONDS)
    if current and current.round == request.round:
        rules = current.participation
    return rules.start_timeout_seconds + rules.round_timeout_seconds


def _failure_policy(container: str) -> Data:
    codes = [int(code) for code in FINAL]
    final = {"containerName": container, "operator": "In", "values": codes}
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": final},
            {"action": "Ignore", "onPodConditions": disrupted},
        ]
    }


# -- the Pod --------------------------------------------------------------------------------------


def _build_template(draft: _JobDraft, labels: dict[str, str]) -> Data:
    settings, spec = draft.settings, draft.federation.spec
    layers: list[Mapping[str, Any]] = [settings.server_pod_template]
    if draft.container == CLIENT:
        own = spec.environment(draft.request.environment).pod_template
        layers = [settings.client_pod_template, spec.pod_template, own]
    merged = merge({"spec": _build_pod(draft)}, layers)
    metadata = merged.get("metadata", {})
    metadata = {**metadata, "labels": {**metadata.get("labels", {}), **labels}}
    return {"metadata": metadata, "spec": _finish(merged["spec"], draft.container)}


def _build_pod(draft: _JobDraft) -> Data:
    volumes: list[Data] = [{"name": SCRATCH_VOLUME, "emptyDir": {}}]
    security: Data = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    volumes += [each.source() for each in draft.files]
    if draft.consents:
        key = kinds.find_kind(draft.thing).consent(draft.thing, draft.request)
        volumes.append(_consent_volume(draft.consents, key))
    if draft.settings.model_cache_claim and draft.container == CLIENT:
        claim = {"claimName": draft.settings.model_cache_claim}
        volumes.append({"name": CACHE_VOLUME, "persistentVolumeClaim": claim})
        security |= {"fsGroup": CACHE_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": security,
        "containers": [_build_container(draft)],
        "volumes": volumes,
    }


def _build_container(draft: _JobDraft) -> Data:
    settings = draft.settings
    program = "courier" if draft.request.role == "courier" else draft.container
    mounts: list[Data] = [{"name": SCRATCH_VOLUME, "mountPath": SCRATCH}]
    mounts += [each.mount() for each in draft.files]
    if draft.consents:
        # The kubelet ignores volumes that no container mounts: it would not look for the keys.
        mounts.append({"name": CONSENT_VOLUME, "mountPath": CONSENT_FOLDER, "readOnly": True})
    return {
        "name": draft.container,
        "image": settings.client_image if draft.container == CLIENT else settings.server_image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": [f"hansa-{program}"],
        "env": _build_variables(draft),
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": mounts,
        "terminationMessagePath": TERMINATION_LOG,
        # A Job that fails leaves no report; its last log line then tells the user what to fix.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _build_variables(draft: _JobDraft) -> list[Data]:
    request, settings = draft.request, draft.settings
    variable = ENV_ORDER if isinstance(request.assignment, SiloClientAssignment) else ENV_ASSIGNMENT
    variables: list[Data] = [
        {"name": variable, "value": _encode_assignment(draft)},
        {"name": "HOME", "value": SCRATCH},
        {"name": "USER", "value": "hansa"},  # some libraries ask who runs them; no passwd knows
    ]
    if settings.job_log != "text":
        variables.append({"name": ENV_LOG, "value": settings.job_log})
    if settings.world_modules and request.environment:
        variables.append({"name": ENV_WORLD_MODULES, "value": ",".join(settings.world_modules)})
    own = find_party_secrets(draft.federation.spec, request.environment)
    variables += [
        *_build_key_variables(own.credentials),
        *_build_key_variables(own.experience, EXPERIENCE),
    ]
    if own.endpoint:
        variables.append(_build_secret_variable(ENV_API_KEY, own.endpoint.name, own.endpoint.key))
    variables += [each.variable() for each in draft.files]
    return variables


def _build_key_variables(secret: str, before: str = "") -> list[Data]:
    """A Secret's pair as variables; those of a private store have a name before theirs."""
    if not secret:
        return []
    return [
        _build_secret_variable(f"{before}{key}", secret, key, optional=key == "AWS_SESSION_TOKEN")
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    ]


def _encode_assignment(draft: _JobDraft) -> str:
    refusal = check_length(draft.request, draft.federation.spec)
    if refusal:
        path = kinds.find_kind(draft.thing).own_path(refusal.path)
        raise JobRefused([replace(refusal, path=path)])
    text = draft.request.assignment.model_dump_json(by_alias=True, exclude_none=True)
    # The kubelet replaces $(NAME) in values and reads $$ as one $; options may hold either.
    return text.replace("$", "$$")


def _build_secret_variable(variable: str, secret: str, key: str, *, optional: bool = False) -> Data:
    reference = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


def _consent_volume(secrets: list[str], key: str) -> Data:
    """A volume and no variable: all volumes are there before any container, sidecars included."""
    sources = [
        {"secret": {"name": name, "items": [{"key": key, "path": str(index)}]}}
        for index, name in enumerate(secrets)
    ]
    return {"name": CONSENT_VOLUME, "projected": {"sources": sources}}


def _finish(pod: Data, container: str) -> Data:
    """What no template changes: privileges stay dropped, and a model cache is found by its name."""
    pod = {
        **pod,
        "containers": [_harden(_add_image_variable(c, container)) for c in pod["containers"]],
    }
    if "initContainers" in pod:
        pod["initContainers"] = [_harden(c) for c in pod["initContainers"]]
    if container == CLIENT and any(v["name"] == CACHE_VOLUME for v in pod["volumes"]):
        pod["containers"] = [_mount_cache(c) for c in pod["containers"]]
    return pod


def _add_image_variable(container: Data, own: str) -> Data:
    """Tell the program its image, which a template may have replaced, for the audit log."""
    if container["name"] != own:
        return container
    variable = {"name": ENV_IMAGE, "value": container["image"].replace("$", "$$")}
    return {**container, "env": [*container["env"], variable]}


def _harden(container: Data) -> Data:
    fixed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {**container, "securityContext": {**container.get("securityContext", {}), **fixed}}


def _mount_cache(container: Data) -> Data:
    mounts = container["volumeMounts"]
    mounted = next((m for m in mounts if m.get("name") == CACHE_VOLUME), None)
    if mounted is None:
        mounted = {"name": CACHE_VOLUME, "mountPath": CACHE_FOLDER}
        mounts = [*mounts, mounted]
    variable = {"name": ENV_MODEL_CACHE, "value": mounted["mountPath"]}
    return {**container, "volumeMounts": mounts, "env": [*container["env"], variable]}
