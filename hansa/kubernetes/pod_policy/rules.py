"""What a user's Pod template may hold: a table of fields, and a sentence for each refusal.

Fields are allowed by name, so that one a later Kubernetes brings is refused until it was thought
about. Limits: the rules keep a template from reaching the node and other silos' Secrets; they do
not judge images, ConfigMaps or claims, nor bind people who may create Pods in the namespace.
Names that give a Pod more than others have come from the operator's allow-lists.
"""

from posixpath import normpath
from typing import Any

from hansa.api.constants import GROUP
from hansa.kubernetes.pod_policy.shapes import (
    Permit,
    PodViolation,
    Shape,
    Walk,
    a_list,
    a_mapping,
    a_number,
    a_switch,
    entries,
    fields,
    fitting,
    mappings,
    never,
    on_list,
    only,
    secret_in,
    some_text,
    texts,
    with_field,
)
from hansa.validation.messages import describe_value

RESERVED_VARIABLES = ("HANSA_", "AWS_")
RESERVED_VOLUMES = "hansa-"
RESERVED_MOUNTS = ("/etc/hansa", "/dev")
SHARED_MEMORY = "/dev/shm"  # noqa: S108
"""The one place below /dev that is the user's to size."""
RESERVED_METADATA = (GROUP, "kubernetes.io", "x-k8s.io")
FREE_METADATA = ("app.kubernetes.io", "cluster-autoscaler.kubernetes.io")
OWN_SCHEDULER = "default-scheduler"
RESERVED_LABELS = ("job-name", "controller-uid")
SIDECAR = "any other extra container would keep the Job from completing"


def check(template: Any, permit: Permit, path: str) -> list[PodViolation]:
    """All refusals of a Pod template that stands at that path; none: it may be merged."""
    walk = Walk(permit)
    fields(_DEFAULT_TEMPLATE if permit.is_default else _TEMPLATE)(walk, template, path)
    return walk.refusals


def _free_keys(walk: Walk, value: Any, path: str) -> None:
    """Labels and annotations: without a domain they are the user's, of others by allow-list."""
    texts(walk, value, path)
    for name in value if isinstance(value, dict) else ():
        domain, slash, _ = str(name).partition("/")
        reserved = bool(slash) and any(
            domain == mine or domain.endswith(f".{mine}") for mine in RESERVED_METADATA
        )
        if domain in FREE_METADATA:
            continue
        if reserved or name in RESERVED_LABELS:
            fits = f"a key outside {', '.join(RESERVED_METADATA)} and their subdomains"
            walk.refuse(f"{path}.{name}", describe_value(name), fits)
        elif slash:
            walk.listed("annotation_domains", "a domain", domain, f"{path}.{name}")


def _from_one(why: str) -> Shape:
    return fitting(
        lambda it: isinstance(it, int) and not isinstance(it, bool) and it >= 1,
        f"a number from 1 ({why})",
    )


def _scheduler(walk: Walk, value: Any, path: str) -> None:
    if value != OWN_SCHEDULER:
        walk.listed("schedulers", "a scheduler", value, path)


# -- containers -----------------------------------------------------------------------------------


def _program(walk: Walk, value: Any, path: str) -> None:
    name = value.get("name") if isinstance(value, dict) else value
    if name != walk.permit.container:
        known = f"{walk.permit.container}, or a native sidecar: an entry of initContainers"
        walk.refuse(
            f"{path}.name", describe_value(name), f"{known} with restartPolicy Always ({SIDECAR})"
        )
        return
    fields(_DEFAULT_PROGRAM if walk.permit.is_default else _PROGRAM)(walk, value, path)


def _sidecar(walk: Walk, value: Any, path: str) -> None:
    if not isinstance(value, dict):
        walk.refuse(path, describe_value(value), "a mapping")
        return
    if value.get("restartPolicy") != "Always":
        came = describe_value(value["restartPolicy"]) if value.get("restartPolicy") else "nothing"
        walk.refuse(f"{path}.restartPolicy", came, f"Always, a native sidecar ({SIDECAR})")
    if not isinstance(value.get("name"), str) or value["name"] in ("client", "server"):
        walk.refuse(
            f"{path}.name", describe_value(value.get("name")), "a name beside client and server"
        )
    fields(_SIDECAR)(walk, value, path)


def _variable(walk: Walk, value: Any, path: str) -> None:
    _sidecar_variable(walk, value, path)
    name = value.get("name") if isinstance(value, dict) else ""
    if isinstance(name, str) and name.startswith(RESERVED_VARIABLES):
        fits = "a name that does not begin with HANSA_ or AWS_ (the operator sets those)"
        walk.refuse(f"{path}.name", describe_value(name), fits)


def _variables_of(walk: Walk, value: Any, path: str) -> None:
    """All entries of a ConfigMap or Secret: their names are not seen here, but for the prefix."""
    _sidecar_variables(walk, value, path)
    prefix = value.get("prefix") if isinstance(value, dict) else None
    mixes = any(
        not prefix or str(prefix).startswith(own) or own.startswith(str(prefix))
        for own in RESERVED_VARIABLES
    )
    if mixes:
        fits = "a prefix that keeps its variables from being HANSA_ or AWS_ ones, such as MY_"
        walk.refuse(f"{path}.prefix", describe_value(prefix) if prefix else "nothing", fits)


def _variable_value(walk: Walk, value: Any, path: str) -> None:
    if not isinstance(value, str):  # never shown: it may be a password
        walk.refuse(path, "a value that is not text", "text (put it into quotes)")


def _mount_path(walk: Walk, value: Any, path: str) -> None:
    if not isinstance(value, str) or not value.strip("/"):
        walk.refuse(path, describe_value(value), "an absolute path below /")
        return
    clean = normpath(f"/{value}").replace("//", "/")
    mine = any(clean == own or clean.startswith(f"{own}/") for own in RESERVED_MOUNTS)
    if mine and clean != SHARED_MEMORY:
        walk.refuse(path, describe_value(value), f"a path outside {' and '.join(RESERVED_MOUNTS)}")


def _mount(walk: Walk, value: Any, path: str) -> None:
    with_field("mountPath", _mount_path)(walk, value, path)
    if isinstance(value, dict):
        fields(_MOUNT)(walk, value, path)


def _shared_memory(walk: Walk, value: Any, path: str) -> None:
    """The one mount that brings no files along."""
    if isinstance(value, dict):
        fields(_MOUNT_OF_ALL)(walk, value, path)
    place = value.get("mountPath") if isinstance(value, dict) else None
    if place != SHARED_MEMORY:
        came = "nothing" if place is None else describe_value(place)
        fits = f"{SHARED_MEMORY} (others would reach every silo: say it in environments[])"
        walk.refuse(f"{path}.mountPath", came, fits)


def _port(walk: Walk, value: Any, path: str) -> None:
    a_mapping(walk, value, path)
    for name in ("hostPort", "hostIP") if isinstance(value, dict) else ():
        if value.get(name):
            walk.refuse(
                f"{path}.{name}",
                describe_value(value[name]),
                "nothing (Pods take no port of a node)",
            )


def _handler(walk: Walk, value: Any, path: str) -> None:
    """Probes and hooks; they run from the node, so they may not name another host."""
    a_mapping(walk, value, path)
    for name, inner in value.items() if isinstance(value, dict) else ():
        if name == "host" and inner:
            walk.refuse(f"{path}.host", describe_value(inner), "nothing (a probe asks its own Pod)")
        elif isinstance(inner, dict):
            _handler(walk, inner, f"{path}.{name}")


# -- volumes --------------------------------------------------------------------------------------


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str)


_named = fitting(_is_named, "a mapping with a name")


def _volume(walk: Walk, value: Any, path: str) -> None:
    _named(walk, value, path)
    if not _is_named(value):
        return
    if value["name"].startswith(RESERVED_VOLUMES):
        fits = f"a name that does not begin with {RESERVED_VOLUMES}"
        walk.refuse(f"{path}.name", describe_value(value["name"]), fits)
    kinds = _VOLUMES_OF_ALL if walk.permit.is_default else _VOLUMES
    fields({"name": some_text, **kinds})(walk, value, path)


def _ephemeral(walk: Walk, value: Any, path: str) -> None:
    """A claim that comes and goes with the Pod: of a StorageClass that is named, and allowed."""
    inner = value
    for name in ("volumeClaimTemplate", "spec"):
        a_mapping(walk, inner, path)
        inner, path = (inner.get(name) or {} if isinstance(inner, dict) else {}), f"{path}.{name}"
    a_mapping(walk, inner, path)
    chosen = inner.get("storageClassName") if isinstance(inner, dict) else None
    walk.listed("storage_classes", "a StorageClass", chosen, f"{path}.storageClassName")


# -- the tables -----------------------------------------------------------------------------------

_NODE = "Pods stay apart from their node"
_PRIVILEGE = "Pods follow the restricted Pod Security standard"

_PROFILE = fields(
    {"type": only("RuntimeDefault", "Localhost", why=_PRIVILEGE), "localhostProfile": some_text}
)
_GROUP = _from_one("group 0 owns files of images and nodes")
_SECURITY: dict[str, Shape] = {
    "appArmorProfile": _PROFILE,
    "runAsGroup": _GROUP,
    "runAsNonRoot": only(True, why="Pods never run as root"),
    "runAsUser": _from_one("Pods never run as root"),
    "seLinuxOptions": fields({"level": some_text}),
    "seccompProfile": _PROFILE,
}
_POD_SECURITY: dict[str, Shape] = {
    **_SECURITY,
    "fsGroup": _GROUP,
    "fsGroupChangePolicy": some_text,
    "supplementalGroups": entries(_GROUP),
    "supplementalGroupsPolicy": some_text,
}
_CONTAINER_SECURITY: dict[str, Shape] = {
    **_SECURITY,
    "allowPrivilegeEscalation": only(False, why=_PRIVILEGE),
    "capabilities": fields({"add": never(_PRIVILEGE), "drop": a_list}),
    "privileged": only(False, why=_PRIVILEGE),
    "procMount": only("Default", why=_PRIVILEGE),
    "readOnlyRootFilesystem": a_switch,
}
_SOURCE = fields(
    {
        "configMapKeyRef": a_mapping,
        "fieldRef": a_mapping,
        "fileKeyRef": a_mapping,
        "resourceFieldRef": a_mapping,
        "secretKeyRef": secret_in("name"),
    }
)
_sidecar_variables = fields(
    {"configMapRef": a_mapping, "prefix": some_text, "secretRef": secret_in("name")}
)
_sidecar_variable = fields({"name": some_text, "value": _variable_value, "valueFrom": _SOURCE})
_CONTAINER: dict[str, Shape] = {
    "env": entries(_sidecar_variable),
    "envFrom": entries(_sidecar_variables),
    "image": some_text,
    "imagePullPolicy": some_text,
    "name": some_text,
    "ports": entries(_port),
    "resources": fields({"claims": mappings, "limits": a_mapping, "requests": a_mapping}),
    "securityContext": fields(_CONTAINER_SECURITY),
    "volumeMounts": entries(_mount),
    "workingDir": some_text,
}
_COMMAND = never("the operator decides what this container runs")
_PROGRAM: dict[str, Shape] = {
    **_CONTAINER,
    "args": _COMMAND,
    "command": _COMMAND,
    "env": entries(_variable),
    "envFrom": entries(_variables_of),
}
_SIDECAR: dict[str, Shape] = {
    **_CONTAINER,
    "args": a_list,
    "command": a_list,
    "lifecycle": _handler,
    "livenessProbe": _handler,
    "readinessProbe": _handler,
    "restartPolicy": some_text,
    "startupProbe": _handler,
}
_MOUNT: dict[str, Shape] = {
    "mountPath": lambda *_: None,  # `_mount` looks at it, also where it is absent
    "mountPropagation": only("None", why=_NODE),
    "name": some_text,
    "readOnly": a_switch,
    "recursiveReadOnly": some_text,
    "subPath": some_text,
    "subPathExpr": never("it writes variables, also secret ones, into the names of files"),
}
_MOUNT_OF_ALL = {name: _MOUNT[name] for name in ("mountPath", "name", "readOnly")}
_VOLUMES: dict[str, Shape] = {
    "configMap": a_mapping,
    "csi": fields(
        {
            "driver": on_list("csi_drivers", "a CSI driver"),
            "fsType": some_text,
            "nodePublishSecretRef": secret_in("name"),
            "readOnly": a_switch,
            "volumeAttributes": texts,
        }
    ),
    "downwardAPI": a_mapping,
    "emptyDir": a_mapping,
    "ephemeral": _ephemeral,
    "hostPath": never(f"{_NODE}: use a claim or an emptyDir"),
    "image": a_mapping,
    "persistentVolumeClaim": a_mapping,
    "projected": fields(
        {
            "defaultMode": a_number,
            "sources": entries(
                fields(
                    {
                        "clusterTrustBundle": a_mapping,
                        "configMap": a_mapping,
                        "downwardAPI": a_mapping,
                        "secret": secret_in("name"),
                        "serviceAccountToken": never("no Pod of Hansa gets a token"),
                    }
                )
            ),
        }
    ),
    "secret": secret_in("secretName"),
}
_HOST = only(False, why=_NODE)
_POD: dict[str, Shape] = {
    "activeDeadlineSeconds": never("participation.roundTimeoutSeconds decides"),
    "affinity": a_mapping,
    "automountServiceAccountToken": only(False, why="no Pod of Hansa gets a token"),
    "containers": entries(_program),
    "dnsConfig": a_mapping,
    "dnsPolicy": some_text,
    "enableServiceLinks": a_switch,
    "ephemeralContainers": never("they are for debugging a running Pod"),
    "hostAliases": mappings,
    "hostIPC": _HOST,
    "hostNetwork": _HOST,
    "hostPID": _HOST,
    "hostUsers": _HOST,
    "imagePullSecrets": entries(secret_in("name")),
    "initContainers": entries(_sidecar),
    "nodeSelector": texts,
    "priorityClassName": on_list("priority_classes", "a PriorityClass"),
    "resourceClaims": entries(_named),
    "restartPolicy": only("Never", why="a retry is a new Job"),
    "runtimeClassName": on_list("runtime_classes", "a RuntimeClass"),
    "schedulerName": _scheduler,
    "securityContext": fields(_POD_SECURITY),
    "serviceAccountName": on_list("service_accounts", "a ServiceAccount"),
    "terminationGracePeriodSeconds": a_number,
    # A toleration without a key would let a Pod run on any node, also of the control plane.
    "tolerations": entries(with_field("key", on_list("tolerations", "the key of a taint"), "")),
    "topologySpreadConstraints": mappings,
    "volumes": entries(_volume),
}
_TEMPLATE: dict[str, Shape] = {
    "metadata": fields({"annotations": _free_keys, "labels": _free_keys}),
    "spec": fields(_POD),
}

# The federation's default reaches every silo's Pods, which hold that silo's keys: it says where and
# with how much they run, and brings no programs, files, variables or addresses into them.
_SILOS = never("it would reach every silo: say it in environments[].podTemplate")
_VOLUMES_OF_ALL: dict[str, Shape] = {
    kind: shape if kind == "emptyDir" else _SILOS for kind, shape in _VOLUMES.items()
}
_DEFAULT_PROGRAM: dict[str, Shape] = {
    **_PROGRAM,
    **dict.fromkeys(("env", "envFrom", "image", "workingDir"), _SILOS),
    "volumeMounts": entries(_shared_memory),
}
_DEFAULT_TEMPLATE: dict[str, Shape] = {
    **_TEMPLATE,
    "spec": fields(
        {
            **_POD,
            **dict.fromkeys(("dnsConfig", "dnsPolicy", "hostAliases", "initContainers"), _SILOS),
        }
    ),
}
