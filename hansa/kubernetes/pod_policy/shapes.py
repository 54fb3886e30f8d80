"""Refusals and the shapes of values that they come from, as small functions to put into tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from fnmatch import fnmatchcase
from typing import Any

from hansa.validation.messages import describe_value


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
    """StorageClasses of ephemeral volumes, which create claims without approval."""
    annotation_domains: tuple[str, ...] = ()
    """Domains of annotations and labels, which controllers of the cluster obey."""

    @classmethod
    def everything(cls) -> "PodAllowlist":
        """Everything is allowed, as for the operator's own templates."""
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
    """One refused value: its path, what came, what fits."""

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
    is_default: bool = False
    """Whether it is the federation's default, which reaches every silo's Pods."""
    own: frozenset[str] = frozenset()
    """Secrets of that environment."""
    foreign: Mapping[str, str] = field(default_factory=dict)
    """Secrets of others, with whose they are."""
    allowed: PodAllowlist = field(default_factory=PodAllowlist)
    """What the operator lets it name beside that."""


class Walk:
    """Collects refusals while a template is checked."""

    def __init__(self, permit: Permit) -> None:
        self.permit = permit
        self.refusals: list[PodViolation] = []

    def refuse(self, path: str, came: str, expected: str) -> None:
        """Note a refusal and continue, so that the user sees all of them at once."""
        self.refusals.append(PodViolation(path=path, got=came, expected=expected))

    def secret(self, name: Any, path: str) -> None:
        """A Secret that the template names."""
        permit = self.permit
        if not isinstance(name, str):
            self.refuse(path, describe_value(name), "the name of a Secret")
        elif name in permit.foreign and name not in permit.own:
            whose = permit.foreign[name]
            self.refuse(
                path, describe_value(name), f"no Secret of another ('{name}' belongs to {whose})"
            )
        elif name not in permit.own and not permit.allowed.has("secrets", name):
            listed = permit.allowed.setting("secrets")
            fits = f"the environment's credentialsSecret or a Secret the operator allows ({listed})"
            self.refuse(path, describe_value(name), fits)

    def listed(self, kind: str, what: str, name: Any, path: str) -> None:
        """Something that only an allow-list of the operator lets the template name."""
        allowed = self.permit.allowed
        if not isinstance(name, str) or not allowed.has(kind, name):
            fits = f"{what} that the operator allows ({allowed.setting(kind)})"
            self.refuse(path, "nothing" if name in (None, "") else describe_value(name), fits)


Shape = Callable[[Walk, Any, str], None]


# -- shapes of values -----------------------------------------------------------------------------


def fields(table: Mapping[str, Shape]) -> Shape:
    """A mapping with these fields and no others; null stands for absent, as in Kubernetes."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            walk.refuse(path, describe_value(value), "a mapping")
            return
        for name, inner in value.items():
            where = f"{path}.{name}"
            if inner is None:
                continue
            if name in table:
                table[name](walk, inner, where)
            else:
                walk.refuse(
                    where, describe_value(inner), f"one of {', '.join(sorted(table))} instead"
                )

    return shape


def entries(inner: Shape) -> Shape:
    """A list whose entries all have one shape."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, list):
            walk.refuse(path, describe_value(value), "a list")
            return
        for index, entry in enumerate(value):
            inner(walk, entry, f"{path}[{index}]")

    return shape


def fitting(is_fine: Callable[[Any], bool], words: str) -> Shape:
    """A value by itself, and in words what fits."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not is_fine(value):
            walk.refuse(path, describe_value(value), words)

    return shape


def _make_kind(kind: type, words: str) -> Shape:
    return fitting(
        lambda it: isinstance(it, kind) and (kind is bool or not isinstance(it, bool)), words
    )


def only(*values: Any, why: str) -> Shape:
    """One of these values, and the reason why no other."""
    fits = " or ".join(describe_value(v).strip("'") for v in values)
    return fitting(
        lambda it: any(it is v or (isinstance(v, str) and it == v) for v in values),
        f"{fits} ({why})",
    )


def never(why: str) -> Shape:
    """A field that is known and refused, empty ones excepted."""
    return fitting(lambda it: it in ([], {}, ""), f"nothing ({why})")


some_text = _make_kind(str, "text")
a_number = _make_kind(int, "a whole number")
a_switch = _make_kind(bool, "true or false")
a_mapping = _make_kind(dict, "a mapping")
a_list = _make_kind(list, "a list")
mappings = entries(a_mapping)


def texts(walk: Walk, value: Any, path: str) -> None:
    """A mapping of texts; numbers and switches are what YAML makes of them without quotes."""
    if not isinstance(value, dict):
        walk.refuse(path, describe_value(value), "a mapping of texts")
        return
    for name, inner in value.items():
        if not isinstance(inner, str):
            walk.refuse(f"{path}.{name}", describe_value(inner), "text (put it into quotes)")


def on_list(kind: str, what: str) -> Shape:
    """A name of one of the operator's allow-lists."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        walk.listed(kind, what, value, path)

    return shape


def with_field(key: str, inner: Shape, absent: Any = None) -> Shape:
    """A mapping of which only this field is judged."""

    def shape(walk: Walk, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            walk.refuse(path, describe_value(value), "a mapping")
        else:
            came = value.get(key)
            inner(walk, absent if came is None else came, f"{path}.{key}")

    return shape


def secret_in(key: str) -> Shape:
    """A mapping that names a Secret under this key."""
    return with_field(key, Walk.secret)
