"""Jobs of a plan as Kubernetes objects: a pure builder, so that a golden file can show each one."""

from collections.abc import Mapping
from dataclasses import replace
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
from hansa.api.silo_assignment import SiloWork
from hansa.api.spec import Participation
from hansa.api.status import Federation
from hansa.core.errors import PermanentError
from hansa.core.exits import Exit
from hansa.core.logs import ENV_LOG, EXPERIENCE
from hansa.kubernetes.pod_policy import consent
from hansa.kubernetes.pod_policy.refusals import (
    CLIENT,
    credentials_secret,
    endpoint_secret,
    experience_secret,
    stops,
    too_long,
)
from hansa.kubernetes.pod_policy.shapes import PodViolation
from hansa.members.courier import LONGEST_SECONDS
from hansa_operator import kinds
from hansa_operator.kinds import Thing
from hansa_operator.podstate import CONSENT_VOLUME
from hansa_operator.podtemplate import SERVER, merge, refusals
from hansa_operator.secretfiles import files
from hansa_operator.settings import Settings

CONTAINERS = {
    "client": CLIENT,
    "evaluate": CLIENT,
    "aggregator": SERVER,
    "courier": SERVER,
}
COMMANDS = {
    "client": ["hansa-client"],
    "evaluate": ["hansa-client"],
    "aggregator": ["hansa-server"],
    "courier": ["hansa-courier"],
}
SERVER_PLACES = ("spec.storage", "spec.exchange", "spec.signingSecret")
"""Fields that Jobs of the server's image are made from: what is wrong elsewhere is no matter."""
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

Data = dict[str, Any]


class JobRefused(PermanentError):
    """No Job can be made from the object as it is; its refusals say why."""

    def __init__(self, refusals: list[PodViolation]) -> None:
        super().__init__("; ".join(refusal.sentence for refusal in refusals))
        self.refusals = refusals


FINAL = (
    *(Exit.PERMANENT, Exit.REFUSED, Exit.UNTRUSTED),
    *(Exit.PLUGIN_MISSING, Exit.BUDGET_SPENT),
)
"""Exits by which Kubernetes itself ends a Job: no other Pod would end otherwise."""


def build(request: JobRequest, thing: Thing, settings: Settings) -> Data:
    """The batch/v1 Job of a request; JobRefused when its Pod template or assignment cannot be.

    Pod templates are not frozen with the round: a new attempt uses the newest, so that raising
    a memory limit fixes the open round. Jobs that exist are never changed.
    """
    refused = stops(refusals(thing, settings), request.environment)
    if CONTAINERS[request.role] == SERVER:
        refused = [refusal for refusal in refused if refusal.path.startswith(SERVER_PLACES)]
    if refused:
        raise JobRefused(refused)
    federation = kinds.of(thing).as_federation(thing)
    labels = _labels(request, thing)
    queue = _queue(request, federation)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": request.name,
            "namespace": federation.metadata.namespace,
            "labels": {**labels, **({QUEUE_LABEL: queue} if queue else {})},
            "ownerReferences": [_owner(thing)],
        },
        "spec": {
            **({"suspend": True} if queue else {}),
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": _deadline_seconds(request, federation),
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _failure_policy(CONTAINERS[request.role]),
            "template": _template(request, thing, settings, labels),
        },
    }


def _labels(request: JobRequest, thing: Thing) -> dict[str, str]:
    labels = {
        "app.kubernetes.io/name": "hansa",
        "app.kubernetes.io/component": CONTAINERS[request.role],
        MANAGED_BY: OPERATOR,
        kinds.of(thing).label: thing.metadata.name,
        constants.LABEL_ROLE: request.role,
        constants.LABEL_ROUND: str(request.round),
        constants.LABEL_ATTEMPT: str(request.attempt),
    }
    return {
        **labels,
        **({constants.LABEL_ENVIRONMENT: request.environment} if request.environment else {}),
    }


def _owner(thing: Thing) -> Data:
    """Children go with their object; they never hold it back (blockOwnerDeletion)."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": thing.kind,
        "name": thing.metadata.name,
        "uid": thing.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _queue(request: JobRequest, federation: Federation) -> str:
    if not request.environment:
        return ""
    return federation.spec.environment(request.environment).queue_name or ""


def _deadline_seconds(request: JobRequest, federation: Federation) -> int:
    """A last resort for Jobs that no operator looks after any more.

    Both waits together: the plan's own clocks, which start later, always run out first.
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


def _template(
    request: JobRequest, thing: Thing, settings: Settings, labels: dict[str, str]
) -> Data:
    container, federation = CONTAINERS[request.role], kinds.of(thing).as_federation(thing)
    base: Data = {"spec": _pod(request, thing, settings)}
    layers: list[Mapping[str, Any]] = [settings.server_pod_template]
    if container == CLIENT:
        own = federation.spec.environment(request.environment).pod_template
        layers = [settings.client_pod_template, federation.spec.pod_template, own]
    merged = merge(base, layers)
    metadata = merged.get("metadata", {})
    metadata = {**metadata, "labels": {**metadata.get("labels", {}), **labels}}
    return {"metadata": metadata, "spec": _finished(merged["spec"], container)}


def _pod(request: JobRequest, thing: Thing, settings: Settings) -> Data:
    container, federation = CONTAINERS[request.role], kinds.of(thing).as_federation(thing)
    volumes: list[Data] = [{"name": SCRATCH_VOLUME, "emptyDir": {}}]
    security: Data = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    volumes += [each.source() for each in files(request, federation.spec)]
    consents = _consents(request, federation, settings)
    if consents:
        volumes.append(_consent_volume(consents, kinds.of(thing).consent(thing, request)))
    if settings.model_cache_claim and container == CLIENT:
        claim = {"claimName": settings.model_cache_claim}
        volumes.append({"name": CACHE_VOLUME, "persistentVolumeClaim": claim})
        security |= {"fsGroup": CACHE_GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": security,
        "containers": [_container(request, thing, settings)],
        "volumes": volumes,
    }


def _container(request: JobRequest, thing: Thing, settings: Settings) -> Data:
    container, federation = CONTAINERS[request.role], kinds.of(thing).as_federation(thing)
    mounts: list[Data] = [{"name": SCRATCH_VOLUME, "mountPath": SCRATCH}]
    mounts += [each.mount() for each in files(request, federation.spec)]
    if _consents(request, federation, settings):
        # Unmounted volumes are none of the kubelet's business: it would not look for the keys.
        mounts.append({"name": CONSENT_VOLUME, "mountPath": CONSENT_FOLDER, "readOnly": True})
    return {
        "name": container,
        "image": settings.client_image if container == CLIENT else settings.server_image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": COMMANDS[request.role],
        "env": _variables(request, thing, settings),
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": mounts,
        "terminationMessagePath": TERMINATION_LOG,
        # A Job that fails leaves no report; its last log line then tells the user what to fix.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _variables(request: JobRequest, thing: Thing, settings: Settings) -> list[Data]:
    federation = kinds.of(thing).as_federation(thing)
    variable = ENV_ORDER if isinstance(request.assignment, SiloWork) else ENV_ASSIGNMENT
    variables: list[Data] = [
        {"name": variable, "value": _assignment(request, thing)},
        {"name": "HOME", "value": SCRATCH},
        {"name": "USER", "value": "hansa"},  # some libraries ask who runs them; no passwd knows
    ]
    if settings.job_log != "text":
        variables.append({"name": ENV_LOG, "value": settings.job_log})
    if settings.world_modules and request.environment:
        variables.append({"name": ENV_WORLD_MODULES, "value": ",".join(settings.world_modules)})
    spec = federation.spec
    variables += _keys(credentials_secret(spec, request.environment))
    variables += _keys(experience_secret(spec, request.environment), EXPERIENCE)
    shown = endpoint_secret(spec, request.environment)
    if shown:
        reference = {"secretKeyRef": {"name": shown.name, "key": shown.key}}
        variables.append({"name": ENV_API_KEY, "valueFrom": reference})
    variables += [each.variable() for each in files(request, federation.spec)]
    return variables


def _keys(secret: str, before: str = "") -> list[Data]:
    """A Secret's pair as variables; those of a private store have a name before theirs."""
    if not secret:
        return []
    return [
        _from_secret(secret, "AWS_ACCESS_KEY_ID", before),
        _from_secret(secret, "AWS_SECRET_ACCESS_KEY", before),
        _from_secret(secret, "AWS_SESSION_TOKEN", before, optional=True),
    ]


def _assignment(request: JobRequest, thing: Thing) -> str:
    kind = kinds.of(thing)
    refusal = too_long(request, kind.as_federation(thing).spec)
    if refusal:
        raise JobRefused([replace(refusal, path=kind.own_path(refusal.path))])
    text = request.assignment.model_dump_json(by_alias=True, exclude_none=True)
    # The kubelet replaces $(NAME) in values and reads $$ as one $; options may hold either.
    return text.replace("$", "$$")


def _from_secret(secret: str, key: str, before: str, *, optional: bool = False) -> Data:
    reference = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": f"{before}{key}", "valueFrom": {"secretKeyRef": reference}}


def _consents(request: JobRequest, federation: Federation, settings: Settings) -> list[str]:
    """Secrets whose consent the kubelet has to find before it starts anything."""
    if settings.secret_consent == "off":  # noqa: S105  # no password
        return []
    signs = request.role == "courier"
    return consent.secrets(federation.spec, request.environment, signs=signs)


def _consent_volume(secrets: list[str], key: str) -> Data:
    """A volume and no variable: all volumes are there before any container, sidecars included."""
    sources = [
        {"secret": {"name": name, "items": [{"key": key, "path": str(index)}]}}
        for index, name in enumerate(secrets)
    ]
    return {"name": CONSENT_VOLUME, "projected": {"sources": sources}}


def _finished(pod: Data, container: str) -> Data:
    """What no template changes: privileges stay dropped, and a model cache is found by its name."""
    pod = {**pod, "containers": [_hardened(_named(c, container)) for c in pod["containers"]]}
    if "initContainers" in pod:
        pod["initContainers"] = [_hardened(c) for c in pod["initContainers"]]
    if container == CLIENT and any(v["name"] == CACHE_VOLUME for v in pod["volumes"]):
        pod["containers"] = [_with_cache(c) for c in pod["containers"]]
    return pod


def _named(container: Data, own: str) -> Data:
    """Tell the program its image, which a template may have replaced, for the audit log."""
    if container["name"] != own:
        return container
    variable = {"name": ENV_IMAGE, "value": container["image"].replace("$", "$$")}
    return {**container, "env": [*container["env"], variable]}


def _hardened(container: Data) -> Data:
    fixed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {**container, "securityContext": {**container.get("securityContext", {}), **fixed}}


def _with_cache(container: Data) -> Data:
    mounts = container["volumeMounts"]
    mounted = next((m for m in mounts if m.get("name") == CACHE_VOLUME), None)
    if mounted is None:
        mounted = {"name": CACHE_VOLUME, "mountPath": CACHE_FOLDER}
        mounts = [*mounts, mounted]
    variable = {"name": ENV_MODEL_CACHE, "value": mounted["mountPath"]}
    return {**container, "volumeMounts": mounts, "env": [*container["env"], variable]}
