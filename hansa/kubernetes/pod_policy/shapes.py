"""Refusals and the shapes of values that they come from, as small functions to put into tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from fnmatch import fnmatchcase
from typing import Any

from hansa.validation.messages import got


@dataclass(frozen=True, kw_only=True)
class PodAllowlist:
    """What the operator's settings let Pod templates name: nothing by default, `*` for any text."""

    secrets: tuple[str, ...] = ()
    """Secrets beside the environment's own."""
    service_accounts: tuple[str, ...] = ()
    """ServiceAccounts."""
    priority_classes: tuple[str, ...] = ()
    """PriorityClasses: a high one drives other Pods off their nodes."""
    tolerations: tuple[str, ...] = ()
    """Keys of taints that may be tolerated; only `*` allows a toleration without a key."""
    runtime_classes: tuple[str, ...] = ()
    """RuntimeClasses: how far a Pod is kept apart from its node."""
    schedulers: tuple[str, ...] = ()
    """Schedulers other than Kubernetes' own."""
    csi_drivers: tuple[str, ...] = ()
    """Drivers of inline CSI volumes: some hand out secrets, or folders of the node."""
    storage_classes: tuple[str, ...] = ()
    """StorageClasses of ephemeral volumes, which make a claim without anybody's leave."""
    annotation_domains: tuple[str, ...] = ()
    """Domains of annotations and labels, which controllers of the cluster obey."""

    @classmethod
    def everything(cls) -> "PodAllowlist":
        """What binds nobody, as for whoever installs the operator."""
        return cls(**{each.name: ("*",) for each in fields_of(cls)})

    def has(self, kind: str, name: str) -> bool:
        """Whether one of the lists has the name."""
        return any(fnmatchcase(name, pattern) for pattern in getattr(self, kind))

    def setting(self, kind: str) -> str:
        """The operator's setting of a list with what it holds, for a refusal."""
        listed = ", ".join(getattr(self, kind)) or "none"
        return f"HANSA_ALLOWED_{kind.upper()}: {listed}"


@dataclass(frozen=True, kw_only=True)
class PodViolation:
    """One thing that cannot be: where it stands, what came, what fits."""

    path: str
    """The field as users write it."""
    got: str
    """What came."""
    expected: str
    """What fits."""
    environment: str = ""
    """Environment it stops; empty: all of them."""

    @property
    def sentence(self) -> str:
        """For conditions and messages."""
        return f"{self.path}: got {self.got}, expected {self.expected}"


@dataclass(frozen=True, kw_only=True)
class Permit:
    """What one template's author may name."""

    container: str
    """The container of the program."""
    environment: str = ""
    """Whose template it is; empty: the federation's default."""
    is_default: bool = False
    """Whether it is the federation's default, which reaches every silo's Pods."""
    own: frozenset[str] = frozenset()
    """Secrets of that environment."""
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Secrets of others, with whose they are."""
    allowed: PodAllowlist = field(default_factory=PodAllowlist)
    """What the operator lets it name beside that."""


class Walk:
    """Refusals in the making."""

    def __init__(self, permit: Permit) -> None:
        self.permit = permit
        self.refusals: list[PodViolation] = []

    def refuse(self, path: str, came: str, expected: str) -> None:
        """Note a refusal and go on: a user fixes all of them at once."""
        environment = self.permit.environment
        refusal = PodViolation(path=path, got=came, expected=expected, environment=environment)
        self.refusals.append(refusal)

    def secret(self, name: Any, path: str) -> None:
        """A Secret that the template names."""
        permit = self.permit
        if not isinstance(name, str):
            self.refuse(path, got(name), "the name of a Secret")
        elif name in permit.foreign and name not in permit.own:
            whose = permit.foreign[name]
            self.refuse(path, got(name), f"no Secret of another ('{name}' belongs to {whose})")
        elif name not in permit.own and not permit.allowed.has("secrets", name):
            listed = permit.allowed.setting("secrets")
            fits = f"the environment's credentialsSecret or a Secret the operator allows ({listed})"
            self.refuse(path, got(name), fits)

    def listed(self, kind: str, what: str, name: Any, path: str) -> None:
        """Something that only an allow-list of the operator lets the template name."""
        allowed = self.permit.allowed
        if not isinstance(name, str) or not allowed.has(kind, name):
            fits = f"{what} that the operator allows ({allowed.setting(kind)})"
            self.refuse(path, "nothing" if name in (None, "") else got(name), fits)


Shape = Callable[[Walk, Any, str], None]


# -- shapes of values -----------------------------------------------------------------------------


def fields(table: Mapping[str, Shape]) -> Shape:
    """A mapping with these fields and no others; null stands for absent, as in Kubernetes."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            walk.refuse(path, got(value), "a mapping")
            return
        for name, inner in value.items():
            where = f"{path}.{name}"
            if inner is None:
                continue
            if name in table:
                table[name](walk, inner, where)
            else:
                walk.refuse(where, got(inner), f"one of {', '.join(sorted(table))} instead")

    return shape


def entries(inner: Shape) -> Shape:
    """A list whose entries all have one shape."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, list):
            walk.refuse(path, got(value), "a list")
            return
        for index, entry in enumerate(value):
            inner(walk, entry, f"{path}[{index}]")

    return shape


def _kind(kind: type, words: str) -> Shape:
    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            walk.refuse(path, got(value), words)

    return shape


def only(*values: Any, why: str) -> Shape:
    """One of these values, and the reason why no other."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not any(value is v or (isinstance(v, str) and value == v) for v in values):
            walk.refuse(path, got(value), f"{' or '.join(_word(v) for v in values)} ({why})")

    return shape


def never(why: str) -> Shape:
    """A field that is known and refused, empty ones excepted."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if value not in ([], {}, ""):
            walk.refuse(path, got(value), f"nothing ({why})")

    return shape


def _word(value: Any) -> str:
    return got(value).strip("'")


some_text = _kind(str, "text")
a_number = _kind(int, "a whole number")
a_switch = _kind(bool, "true or false")
a_mapping = _kind(dict, "a mapping")
a_list = _kind(list, "a list")
mappings = entries(a_mapping)


def texts(walk: Walk, value: Any, path: str) -> None:
    """A mapping of texts; numbers and switches are what YAML makes of them without quotes."""
    if not isinstance(value, dict):
        walk.refuse(path, got(value), "a mapping of texts")
        return
    for name, inner in value.items():
        if not isinstance(inner, str):
            walk.refuse(f"{path}.{name}", got(inner), "text (put it into quotes)")


def on_list(kind: str, what: str) -> Shape:
    """A name of one of the operator's allow-lists."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        walk.listed(kind, what, value, path)

    return shape


def secret_in(key: str) -> Shape:
    """A mapping that names a Secret under this key."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            walk.refuse(path, got(value), "a mapping")
        else:
            walk.secret(value.get(key), f"{path}.{key}")

    return shape
