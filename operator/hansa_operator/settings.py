"""The operator's settings, read from environment variables and flags."""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from hansa.core.errors import InputError
from hansa.version import __version__

PREFIX = "HANSA_"


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


def _choice(choices: Any) -> _Kind:
    """One of the texts of a Literal."""
    return _text("|".join(get_args(choices)), " or ".join(get_args(choices)))


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


PullPolicy = Literal["Always", "IfNotPresent", "Never"]
LogShape = Literal["text", "json"]
Consent = Literal["required", "off"]

_Image = Annotated[str, _text(r"\S{1,1000}", "the name of an image")]
_OptionalName = Annotated[
    str, _text(rf"({_DNS_DOTTED})?", "a name of lower-case letters, digits, - and .")
]
_Names = Annotated[tuple[str, ...], _list(rf"{_DNS_DOTTED}", "names, separated by commas")]
_Patterns = Annotated[
    tuple[str, ...], _list(r"[a-z0-9.*-]+", "names, separated by commas, with * for any text")
]
_PodTemplate = Annotated[dict[str, Any], _Kind(_read_mapping, "a Pod template as a JSON object")]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the person who installs the operator decides, for all federations it looks after."""

    namespaces: _Names = ()
    """Namespaces whose federations are looked after; none: all of the cluster's."""
    resync_seconds: Annotated[int, _whole(5, 86_400)] = 300
    """How often every federation is looked at even without an event."""
    workers: Annotated[int, _whole(1, 64)] = 8
    """Federations looked at at a time; one is never handled by two workers."""
    client_image: _Image = f"hansa-client:{__version__}"
    """Image of the clients; a Pod template may name another for its environment."""
    server_image: _Image = f"hansa-server:{__version__}"
    """Image of the aggregators."""
    image_pull_policy: Annotated[PullPolicy, _choice(PullPolicy)] = "IfNotPresent"
    """When the kubelet pulls those images."""
    client_pod_template: _PodTemplate = field(default_factory=dict)
    """JSON of a Pod template below every client's; the allow-lists do not bind it."""
    server_pod_template: _PodTemplate = field(default_factory=dict)
    """JSON of a Pod template for the aggregators, whose container is `server`."""
    allowed_service_accounts: _Patterns = ()
    """ServiceAccounts that a user's Pod template may name; `*` stands for any text."""
    allowed_secrets: _Patterns = ()
    """Secrets a user's Pod template may name beside the environment's own; `*`: any text."""
    allowed_priority_classes: _Patterns = ()
    """PriorityClasses that it may name."""
    allowed_tolerations: Annotated[
        tuple[str, ...],
        _list(r"[A-Za-z0-9._/*-]+", "keys of taints, separated by commas, with * for any text"),
    ] = ()
    """Keys of taints that it may tolerate, such as nvidia.com/gpu; `*`: also without a key."""
    allowed_runtime_classes: _Patterns = ()
    """RuntimeClasses that it may name."""
    allowed_schedulers: _Patterns = ()
    """Schedulers that it may name beside Kubernetes' own."""
    allowed_csi_drivers: _Patterns = ()
    """Drivers of inline CSI volumes that it may name."""
    allowed_storage_classes: _Patterns = ()
    """StorageClasses of its ephemeral volumes."""
    allowed_annotation_domains: _Patterns = ()
    """Domains of its annotations and labels; those without a domain are free."""
    secret_consent: Annotated[Consent, _choice(Consent)] = "required"  # noqa: S105  # no password
    """Whether a Secret that a federation names must hold a key that lets this party use it."""
    world_modules: Annotated[
        tuple[str, ...], _list(r"\w+(\.\w+)*(:\w+)?", "Python modules, separated by commas")
    ] = ()
    """Modules that options of world `gymnasium` may name; none: what the client's image says."""
    model_cache_claim: _OptionalName = ""
    """PersistentVolumeClaim, in each federation's namespace, that keeps base models; or none."""
    cluster_autoscaler: Annotated[bool, _Kind(_read_switch, "true or false")] = False
    """Whether an autoscaler adds nodes: a Pod that fits no present node then waits for one."""
    job_log: Annotated[LogShape, _choice(LogShape)] = "text"
    """Shape of the Jobs' logs."""
    metrics_port: Annotated[int, _whole(0, 65_535)] = 8080
    """Port of /metrics and of the health checks; 0: none."""
    lease_name: Annotated[
        str, _text(_DNS_DOTTED, "a name of lower-case letters, digits, - and .")
    ] = "hansa-operator"
    """Lease that decides which replica acts."""
    lease_namespace: _OptionalName = ""
    """Namespace of that Lease; empty: the operator's own."""
    lease_seconds: Annotated[int, _whole(3, 3600)] = 10
    """How long a silent leader stays the leader."""


KINDS: dict[str, _Kind] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Settings, include_extras=True).items()
}
"""How each setting is read."""

# Kubernetes gives every Pod variables of the Services around it: one called hansa-metrics would
# set HANSA_METRICS_PORT to an address.
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://")


def name_variable(name: str) -> str:
    """The environment variable of a setting: resync_seconds -> HANSA_RESYNC_SECONDS."""
    return f"{PREFIX}{name.upper()}"


def name_flag(name: str) -> str:
    """The flag of a setting: resync_seconds -> --resync-seconds."""
    return f"--{name.replace('_', '-')}"


def parse_settings(environ: Mapping[str, str], arguments: Sequence[str] = ()) -> Settings:
    """The settings from the environment, with flags (`--workers 8`, `--workers=8`) above them.

    An empty variable counts as absent, since that is how a chart writes an option left out.
    """
    given: dict[str, Any] = {}
    for name, kind in KINDS.items():
        text = environ.get(name_variable(name), "").strip()
        if text and not _SERVICE_LINK.match(text):
            given[name] = _read(name_variable(name), text, kind)
    for name, text in _flags(arguments).items():
        given[name] = _read(name_flag(name), text.strip(), KINDS[name])
    return Settings(**given)


def _read(source: str, text: str, kind: _Kind) -> Any:
    try:
        return kind.read(text)
    except ValueError:  # a JSONDecodeError is one
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        raise InputError(f"{source}: got {shown!r}, expected {kind.fits}") from None


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    known = {name_flag(name): name for name in KINDS}
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
