"""Strategies and learners by their names: an entry point, and a model that checks their options.

A manifest names them; it never names a module. Builtin ones stand in the tables of hansa.api, and
their names are never looked for among packages, so that none can replace one unseen. A plug-in is
code that runs with the rights of the program: who builds the image decides which there are.
"""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar

from hansa.api import learners, strategies
from hansa.api.aggregation import Aggregation
from hansa.api.plugin_fields import BuiltinEntry, NoOptions
from hansa.api.spec import FederationSpec
from hansa.core.errors import InputError, PermanentError, PluginMissing
from hansa.core.model import Model
from hansa.core.text import shorten
from hansa.validation.fit import validate_model

if TYPE_CHECKING:
    from hansa.api.status import RoundSettings

_LONGEST_REASON = 300
"""Characters of what a package says when it cannot be loaded."""


Options = Model
"""What a plug-in's options subclass: closed, so unknown keys are refused, and camelCase outside."""


class Plugin:
    """What all strategies and learners are: made once for a Job, with options that fit."""

    Options: ClassVar[type[Model]] = NoOptions
    """Model of the options in the spec."""

    def __init__(self, options: Model) -> None:
        self.options: Any = options


class StrategyFacts(Plugin):
    """What a spec is checked by; `hansa_server.plugin.StrategyPlugin` is the whole."""

    is_mean: ClassVar[bool] = False
    """Whether the result is a mean of all updates, which `serverStep: auto` makes up for."""


class LearnerFacts(Plugin):
    """What a spec is checked by; `hansa_client.learners.plugin.LearnerPlugin` is the whole."""

    compares: ClassVar[bool] = False
    """Whether it compares episodes of one task, and so needs several of each."""


@dataclass(frozen=True, kw_only=True)
class PluginField:
    """A field that names a strategy or a learner."""

    group: str
    """Entry-point group: `mine = "my_package.mine:Mine"`."""
    path: tuple[str, str]
    """Where its name is in a spec; its options are beside it."""
    builtin: Mapping[str, BuiltinEntry]
    """Names that are never looked for among packages."""
    home: str
    """Package of the builtin ones."""
    base: type[Plugin]
    """What it must be."""
    whole: str
    """The class that a package subclasses, for a sentence."""

    @property
    def field(self) -> str:
        """The field that names one."""
        return f"spec.{'.'.join(self.path)}"

    def names(self) -> list[str]:
        """Those that packages offer here, without what a builtin hides."""
        offered = {point.name for point in entry_points(group=self.group)}
        return sorted(offered - set(self.builtin))


STRATEGY = PluginField(
    group="hansa.strategies",
    path=("aggregation", "strategy"),
    builtin=strategies.BUILTIN,
    home="hansa_server.strategies",
    base=StrategyFacts,
    whole="hansa_server.plugin.StrategyPlugin",
)
LEARNER = PluginField(
    group="hansa.learners",
    path=("training", "learner"),
    builtin=learners.BUILTIN,
    home="hansa_client.learners",
    base=LearnerFacts,
    whole="hansa_client.learners.plugin.LearnerPlugin",
)


def make(kind: PluginField, name: str, options: Mapping[str, Any] | None) -> Plugin:
    """That one with its options; PluginMissing or InputError says what is wrong."""
    plugin = _load(kind, _find(kind, name))
    model = kind.builtin[name].options if name in kind.builtin else plugin.Options
    where = ("spec", kind.path[0], "options")
    try:
        return plugin(validate_model(model, dict(options or {}), where))
    except (InputError, PermanentError):
        raise
    except Exception as error:  # a model or a constructor of any package may refuse in its own way
        reason = shorten(f"{type(error).__name__}: {error}", _LONGEST_REASON)
        raise InputError(f"{'.'.join(where)}: {reason}") from error


def check(spec: FederationSpec) -> None:
    """Refuse plug-ins that this machine lacks, and what those it has would refuse in a Job.

    A package whose own imports are missing here (torch, on a machine that only applies) is left to
    the Job, as a world's is.
    """
    strategy = _try_make(STRATEGY, spec.aggregation.strategy, spec.aggregation.options)
    if strategy is not None:
        check_strategy(strategy, spec.aggregation)
    learner = _try_make(LEARNER, spec.training.learner, spec.training.options)
    if learner is not None:
        check_learner(learner, spec)


def check_strategy(plugin: Plugin, settings: Aggregation) -> None:
    """Refuse a step that fits a mean, where the plug-in makes none."""
    if settings.strategy in strategies.BUILTIN:
        return  # its table says so, and the spec was checked by it
    with _as_input_error():
        settings.check_step(is_mean=isinstance(plugin, StrategyFacts) and plugin.is_mean)


def check_learner(plugin: Plugin, spec: "FederationSpec | RoundSettings") -> None:
    """Refuse an exploration that leaves a comparing plug-in nothing to compare."""
    with _as_input_error():
        spec.training.check_exploration(
            spec.exploration.tasks_per_round,
            spec.exploration.samples_per_task,
            spec.experience.filter,
            compares=isinstance(plugin, LearnerFacts) and plugin.compares,
        )


@contextmanager
def _as_input_error() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise InputError(f"spec.{error}") from None


def _try_make(kind: PluginField, name: str, options: Mapping[str, Any] | None) -> Plugin | None:
    if name in kind.builtin:
        return None
    try:
        return make(kind, name, options)
    except PermanentError as error:
        if isinstance(error.__cause__, ImportError):
            return None
        raise InputError(error.message, hint=error.hint) from None


# -- one plug-in ----------------------------------------------------------------------------------


def _find(kind: PluginField, name: str) -> EntryPoint:
    builtin = kind.builtin.get(name)
    if builtin and builtin.code:
        return EntryPoint(name, f"{kind.home}.{builtin.code}", kind.group)
    points = [point for point in entry_points(group=kind.group) if point.name == name]
    if not points:
        known = [*kind.builtin, *kind.names()]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        raise PluginMissing(
            f"{kind.field}: got '{name}', which no package here offers (entry point {kind.group}), "
            f"expected {' or '.join(known)}",
            hint=f"did you mean {near[0]}?" if near else "",
        )
    packages = sorted({_package(point) for point in points})
    if len(packages) > 1:
        raise PermanentError(
            f"{kind.field}: got '{name}', which {' and '.join(packages)} offer, expected one of "
            "these packages alone"
        )
    return points[0]


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "a package without a name"


def _load(kind: PluginField, point: EntryPoint) -> type[Plugin]:
    try:
        plugin = point.load()
    except Exception as error:  # a package may fail in its own way while it is imported
        reason = shorten(f"{type(error).__name__}: {error}", _LONGEST_REASON)
        raise PluginMissing(
            f"{kind.field}: got '{point.name}' of package {_package(point)}, which cannot be "
            f"loaded here ({reason}), expected {point.value} with all that it imports"
        ) from error
    return _check_class(kind, point, plugin)


def _check_class(kind: PluginField, point: EntryPoint, plugin: Any) -> type[Plugin]:
    if not (isinstance(plugin, type) and issubclass(plugin, kind.base)):
        raise PermanentError(
            f"{kind.field}: got '{point.name}', but {point.value} is no {kind.whole}"
        )
    if not (isinstance(plugin.Options, type) and issubclass(plugin.Options, Model)):
        raise PermanentError(
            f"{kind.field}: got '{point.name}', but the Options of {point.value} are no "
            "hansa.manifests.plugins.Options"
        )
    return plugin
