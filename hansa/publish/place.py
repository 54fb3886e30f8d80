"""Where adapters go and come from: `hf:org/name` and `oci://host/repository:tag`."""

import re
from dataclasses import dataclass

from hansa.adapter.lora import BaseName
from hansa.core.errors import InputError

HUB, REGISTRY = "hf:", "oci://"
FITS = "expected hf:org/name or oci://host/repository:tag"
_PART = r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_REPOSITORY = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_REVISION = re.compile(r"[\w.-]{1,100}", re.ASCII)
_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_NAME = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+|/)[a-z0-9]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOOPBACK = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?")


@dataclass(frozen=True)
class HubPlace:
    """A repository of a model hub."""

    repository: str
    """As `org/name`."""
    revision: str = ""
    """Branch, tag or commit; empty: the newest."""

    def __str__(self) -> str:
        return f"{HUB}{self.repository}{'@' if self.revision else ''}{self.revision}"


@dataclass(frozen=True)
class RegistryPlace:
    """An artifact in a registry of images."""

    host: str
    """Name, with a port where it has one."""
    repository: str
    """Below the host."""
    reference: str
    """A tag, or `sha256:` and a digest."""

    def __str__(self) -> str:
        sign = "@" if self.is_digest else ":"
        return f"{REGISTRY}{self.host}/{self.repository}{sign}{self.reference}"

    @property
    def is_digest(self) -> bool:
        """Whether it names content, not a tag that may move."""
        return self.reference.startswith("sha256:")

    @property
    def url(self) -> str:
        """Where its API is; plain HTTP for this machine only."""
        scheme = "http" if is_loopback(self.host) else "https"
        return f"{scheme}://{self.host}/v2/{self.repository}"


def is_place(text: str) -> bool:
    """Whether it looks like a place: no federation's name does."""
    return text.startswith((HUB, REGISTRY))


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    return bool(_LOOPBACK.fullmatch(host))


def parse(option: str, text: str) -> HubPlace | RegistryPlace:
    """The place that an option names."""
    if text.startswith(HUB):
        name = parse_hub_name(option, text.removeprefix(HUB), text)
        return HubPlace(name.name, name.revision)
    if text.startswith(REGISTRY):
        return _parse_registry(option, text)
    raise InputError(f"{option}: got {text!r}, {FITS}")


def parse_hub_name(option: str, text: str, given: str = "") -> BaseName:
    """A repository of the hub, as `org/name` or `org/name@revision`."""
    name, at, revision = text.partition("@")
    is_named = bool(_REPOSITORY.fullmatch(name)) and not re.search(r"--|\.\.", name)
    if not is_named or (at and not _REVISION.fullmatch(revision)):
        fits = f"expected {HUB if given else ''}org/name or {HUB if given else ''}org/name@revision"
        raise InputError(f"{option}: got {given or text!r}, {fits}")
    return BaseName(name, revision)


def _parse_registry(option: str, text: str) -> RegistryPlace:
    host, _, rest = text.removeprefix(REGISTRY).partition("/")
    repository, at, reference = rest.partition("@")
    if not at:
        repository, _, reference = rest.partition(":")
    is_reference = (_DIGEST if at else _TAG).fullmatch(reference or "latest")
    is_named = len(repository) <= 255 and _NAME.fullmatch(repository)
    if not _HOST.fullmatch(host) or not is_named or not is_reference:
        fits = "expected oci://host/repository:tag, the repository in lower case"
        raise InputError(f"{option}: got {text!r}, {fits}")
    return RegistryPlace(host, repository, reference or "latest")
