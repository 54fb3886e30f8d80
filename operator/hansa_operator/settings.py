"""The operator's settings: one table, one parse function, one form of message for all of them."""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from hansa.core.errors import InputError
from hansa.version import __version__

PREFIX = "HANSA_"

PullPolicy = Literal["Always", "IfNotPresent", "Never"]
LogShape = Literal["text", "json"]
Consent = Literal["required", "off"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What whoever installs the operator decides, for all federations it looks after."""

    namespaces: tuple[str, ...] = ()
    """Namespaces whose federations are looked after; none: all of the cluster's."""
    resync_seconds: int = 300
    """How often every federation is looked at even if no watch said anything."""
    workers: int = 8
    """Federations looked at together; one of them never by two workers."""
    client_image: str = f"hansa-client:{__version__}"
    """Image of the clients; a Pod template may name another for its environment."""
    server_image: str = f"hansa-server:{__version__}"
    """Image of the aggregators."""
    image_pull_policy: PullPolicy = "IfNotPresent"
    """When the kubelet pulls those images."""
    client_pod_template: dict[str, Any] = field(default_factory=dict)
    """JSON of a Pod template below every client's; the allow-lists do not bind it."""
    server_pod_template: dict[str, Any] = field(default_factory=dict)
    """JSON of a Pod template for the aggregators, whose container is `server`."""
    allowed_service_accounts: tuple[str, ...] = ()
    """ServiceAccounts that a user's Pod template may name; `*` stands for any text."""
    allowed_secrets: tuple[str, ...] = ()
    """Secrets a user's Pod template may name beside the environment's own; `*`: any text."""
    allowed_priority_classes: tuple[str, ...] = ()
    """PriorityClasses that it may name."""
    allowed_tolerations: tuple[str, ...] = ()
    """Keys of taints that it may tolerate, such as nvidia.com/gpu; `*`: also without a key."""
    allowed_runtime_classes: tuple[str, ...] = ()
    """RuntimeClasses that it may name."""
    allowed_schedulers: tuple[str, ...] = ()
    """Schedulers that it may name beside Kubernetes' own."""
    allowed_csi_drivers: tuple[str, ...] = ()
    """Drivers of inline CSI volumes that it may name."""
    allowed_storage_classes: tuple[str, ...] = ()
    """StorageClasses of its ephemeral volumes."""
    allowed_annotation_domains: tuple[str, ...] = ()
    """Domains of its annotations and labels; those without a domain are free."""
    secret_consent: Consent = "required"  # noqa: S105  # no password
    """Whether a Secret that a federation names must hold a key that lets this party use it."""
    world_modules: tuple[str, ...] = ()
    """Modules that options of world `gymnasium` may name; none: what the client's image says."""
    model_cache_claim: str = ""
    """PersistentVolumeClaim, in each federation's namespace, that keeps base models; or none."""
    cluster_autoscaler: bool = False
    """Whether an autoscaler adds nodes: a Pod that fits no present node then waits for one."""
    job_log: LogShape = "text"
    """Shape of the Jobs' logs."""
    metrics_port: int = 8080
    """Port of /metrics and of the health checks; 0: none."""
    lease_name: str = "hansa-operator"
    """Lease that decides which replica acts."""
    lease_namespace: str = ""
    """Namespace of that Lease; empty: the operator's own."""
    lease_seconds: int = 10
    """How long a silent leader stays the leader."""


class _Kind(NamedTuple):
    """How a text becomes a value; a ValueError says that it does not fit."""

    read: Callable[[str], Any]
    fits: str


_DNS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_DOTTED = rf"{_DNS}(\.{_DNS})*"


def _text(pattern: str, fits: str) -> _Kind:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return _Kind(read, fits)


def _whole(low: int, high: int) -> _Kind:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    return _Kind(read, f"a whole number from {low} to {high}")


def _list(pattern: str, fits: str) -> _Kind:
    def read(text: str) -> tuple[str, ...]:
        names = [part.strip() for part in text.split(",") if part.strip()]
        if not all(re.fullmatch(pattern, name) for name in names):
            raise ValueError
        return tuple(dict.fromkeys(names))

    return _Kind(read, fits)


def _choice(*choices: str) -> _Kind:
    return _text("|".join(choices), " or ".join(choices))


def _read_mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return value


_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


def _read_switch(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ValueError
    return text.lower() in _YES


_IMAGE = _text(r"\S{1,1000}", "the name of an image")
_OPTIONAL_NAME = _text(rf"({_DNS_DOTTED})?", "a name of lower-case letters, digits, - and .")
_NAMES = _list(rf"{_DNS_DOTTED}", "names, separated by commas")
_PATTERNS = _list(r"[a-z0-9.*-]+", "names, separated by commas, with * for any text")
_TAINTS = _list(r"[A-Za-z0-9._/*-]+", "keys of taints, separated by commas, with * for any text")
_MAPPING = _Kind(_read_mapping, "a Pod template as a JSON object")
_SWITCH = _Kind(_read_switch, "true or false")

KINDS: dict[str, _Kind] = {
    "namespaces": _NAMES,
    "resync_seconds": _whole(5, 86_400),
    "workers": _whole(1, 64),
    "client_image": _IMAGE,
    "server_image": _IMAGE,
    "image_pull_policy": _choice("Always", "IfNotPresent", "Never"),
    "client_pod_template": _MAPPING,
    "server_pod_template": _MAPPING,
    "allowed_service_accounts": _PATTERNS,
    "allowed_secrets": _PATTERNS,
    "allowed_priority_classes": _PATTERNS,
    "allowed_tolerations": _TAINTS,
    "allowed_runtime_classes": _PATTERNS,
    "allowed_schedulers": _PATTERNS,
    "allowed_csi_drivers": _PATTERNS,
    "allowed_storage_classes": _PATTERNS,
    "allowed_annotation_domains": _PATTERNS,
    "secret_consent": _choice("required", "off"),
    "world_modules": _list(r"\w+(\.\w+)*(:\w+)?", "Python modules, separated by commas"),
    "model_cache_claim": _OPTIONAL_NAME,
    "cluster_autoscaler": _SWITCH,
    "job_log": _choice("text", "json"),
    "metrics_port": _whole(0, 65_535),
    "lease_name": _text(_DNS_DOTTED, "a name of lower-case letters, digits, - and ."),
    "lease_namespace": _OPTIONAL_NAME,
    "lease_seconds": _whole(3, 3600),
}
"""How each setting is read; a test fails when this and Settings differ."""

# Kubernetes gives every Pod variables of the Services around it: one called hansa-metrics would
# set HANSA_METRICS_PORT to an address.
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")


def variable(name: str) -> str:
    """The environment variable of a setting: resync_seconds -> HANSA_RESYNC_SECONDS."""
    return f"{PREFIX}{name.upper()}"


def flag(name: str) -> str:
    """The flag of a setting: resync_seconds -> --resync-seconds."""
    return f"--{name.replace('_', '-')}"


def parse(environ: Mapping[str, str], arguments: Sequence[str] = ()) -> Settings:
    """The settings from the environment, with flags (`--workers 8`, `--workers=8`) above them.

    An empty variable counts as absent, since that is how a chart writes an option left out.
    """
    given: dict[str, Any] = {}
    for name, kind in KINDS.items():
        text = environ.get(variable(name), "").strip()
        if text and not _SERVICE_LINK.match(text):
            given[name] = _read(variable(name), text, kind)
    for name, text in _flags(arguments).items():
        given[name] = _read(flag(name), text.strip(), KINDS[name])
    return Settings(**given)


def _read(source: str, text: str, kind: _Kind) -> Any:
    try:
        return kind.read(text)
    except ValueError:  # a JSONDecodeError is one
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        raise InputError(f"{source}: got {shown!r}, expected {kind.fits}") from None


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    known = {flag(f.name): f.name for f in fields(Settings)}
    texts: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word, equals, text = rest.pop(0).partition("=")
        if word not in known:
            near = difflib.get_close_matches(word, known, n=1) or sorted(known)
            raise InputError(f"{word}: got an unknown option, expected {' or '.join(near)}")
        if not equals and not rest:
            raise InputError(f"{word}: got nothing, expected {KINDS[known[word]].fits}")
        texts[known[word]] = text if equals else rest.pop(0)
    return texts
