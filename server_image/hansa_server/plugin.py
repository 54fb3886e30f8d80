"""The base class of strategies, builtin or from packages, and checks of what they return."""

from abc import ABC, abstractmethod
from dataclasses import replace

from hansa.api.aggregation import Aggregation
from hansa.core.errors import PermanentError
from hansa.manifests import plugins
from hansa_server.merge_input import Merge, Merged, MergeInput, Strategy


class StrategyPlugin(plugins.StrategyFacts, ABC):
    """A rule that merges updates.

        class Midrange(StrategyPlugin):
            class Options(plugins.Options):
                pull: float = 0.5

            def merge(self, task): ...

    `self.options` has the options of the spec. Every member has the weight 1, and silos send
    nothing but their updates. Equal members must give equal bytes: use no clock and no randomness.
    """

    @abstractmethod
    def merge(self, task: MergeInput) -> Merge:
        """Prepare a merge, which makes one layer at a time, called from any thread."""


def get(settings: Aggregation) -> Strategy:
    """The strategy that the settings name, with its options and its step checked."""
    plugin = plugins.make(plugins.STRATEGY, settings.strategy, settings.options)
    if not isinstance(plugin, StrategyPlugin):
        raise PermanentError(
            f"{plugins.STRATEGY.field}: got '{settings.strategy}', which is no "
            f"{plugins.STRATEGY.whole}"
        )
    plugins.check_strategy(plugin, settings)

    def merge(task: MergeInput) -> Merge:
        return _guard(plugin.merge(task), settings.strategy)

    return merge


def _guard(made: Merge, name: str) -> Merge:
    """The plug-in's merge with checks of its type and of each layer."""

    def of_kind(kind: type, value: object, what: str) -> None:
        if not isinstance(value, kind):
            raise PermanentError(
                f"{plugins.STRATEGY.field}: {name} made {type(value).__name__} {what}, "
                f"expected hansa_server.merge_input.{kind.__name__}"
            )

    of_kind(Merge, made, "of a task")

    def layer(module: str) -> Merged:
        merged = made.layer(module)
        of_kind(Merged, merged, f"of layer {module}")
        if set(merged.moments) != set(made.moments):
            raise PermanentError(
                f"{plugins.STRATEGY.field}: {name} remembers {sorted(merged.moments)} of layer "
                f"{module}, expected {sorted(made.moments)}, as its Merge says"
            )
        return merged

    return replace(made, layer=layer)
