"""The builtin strategies: what each is, what it may be used for, and its options.

A new one is a line of the table, beside its model where it has options.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hansa.api.plugin_fields import BuiltinEntry
from hansa.core.model import Model

Half = Literal["both", "A", "B"]
"""Which of LoRA's two matrices a round trains."""
Rank = Annotated[int, Field(ge=1, le=4096)]
Share = Annotated[float, Field(ge=0, lt=1)]


class WeightedMeanOptions(Model):
    """What members are weighed by."""

    weight_by: Literal["examples", "successes"] = "examples"
    """For `weighted-mean`: trajectories trained on, or successful episodes of the round."""
    max_weight_ratio: Annotated[float, Field(ge=1)] = 3.0
    """For `weighted-mean`: how many times the median one member counts at most (of two members, the
    lower), since numbers are its own word; 1e9 is no bound."""

    def claim(self, examples: int, successes: int) -> int:
        """What a member says that it has of what members are weighed by."""
        return examples if self.weight_by == "examples" else successes


class FrozenOptions(Model):
    """How large the part of the adapter grows that is trained no more."""

    max_rank: Rank = 64
    """For `flora`, `fedex`, `regmean`: rank of the frozen part; beyond it, it is recompressed."""


class RegMeanOptions(FrozenOptions):
    """Also how much silos tell of their inputs."""

    moments_rank: Rank = 64
    """For `regmean`: directions that a silo sends of each layer's inputs; all of at most 128."""


class MomentumOptions(Model):
    """What a server remembers of its steps."""

    momentum: Share = 0.9
    """For `fedavgm`, `fedadam` and `fedyogi`: share of the last step that the next one keeps."""


class AdaptiveOptions(Model):
    """How a server divides its steps."""

    server_learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.001
    """For `fedadagrad`, `fedadam` and `fedyogi`: learning rate of the server's optimizer."""
    adaptivity: Annotated[float, Field(gt=0, le=1)] = 0.001
    """For these three: tau, the smallest divisor; larger is less adaptive."""


class AdamOptions(MomentumOptions, AdaptiveOptions):
    """Both, and how long squares are remembered."""

    second_momentum: Share = 0.99
    """For `fedadam` and `fedyogi`: what `momentum` is, for the squares of the steps."""


class TrimmedMeanOptions(Model):
    """How many extremes are left out."""

    trim: Annotated[float, Field(ge=0, lt=0.5)] = 0.2
    """For `trimmed-mean`: share of the values left out at each end."""


class KrumOptions(Model):
    """How many members may be hostile."""

    faulty: Annotated[int, Field(ge=0, le=48)] = 1
    """For `krum` and `multi-krum`: hostile members to withstand; needs 2 x faulty + 3 of them."""


@dataclass(frozen=True, kw_only=True)
class StrategyEntry(BuiltinEntry):
    """A builtin strategy, and what a federation may do with it."""

    is_mean: bool = False
    """Whether `serverStep: auto` may make up for what a mean of all updates loses."""
    is_sum: bool = False
    """Whether it needs no more than the sum, so that updates may be masked."""
    is_of_products: bool = False
    """Whether it merges the products B·A, which are the same however their factors are turned."""
    needs_moments: bool = False
    """Whether silos send moments of their inputs beside their updates."""
    halves: tuple[Half, Half] = ("both", "both")
    """Which matrices even rounds train, and which odd ones."""


BUILTIN: dict[str, StrategyEntry] = {
    "mean": StrategyEntry(
        "mean:Mean", "A and B averaged element by element, as in Fed-SE", is_mean=True, is_sum=True
    ),
    "weighted-mean": StrategyEntry(
        "mean:Mean",
        "the same by members' sizes or successes",
        WeightedMeanOptions,
        is_mean=True,
        is_sum=True,
        not_private="counts are not sent",
    ),
    "svd": StrategyEntry(
        "svd:ProductSvd", "the best adapter for the mean of B·A", is_mean=True, is_of_products=True
    ),
    "flora": StrategyEntry(
        "flora:Flora",
        "all updates stacked into a frozen part",
        FrozenOptions,
        is_mean=True,
        is_of_products=True,
    ),
    "fedex": StrategyEntry(
        "fedex:FedEx", "the mean, and what it lacks as a frozen part", FrozenOptions, is_mean=True
    ),
    "regmean": StrategyEntry(
        "regmean:RegMean",
        "each update where its own silo's inputs are",
        RegMeanOptions,
        is_of_products=True,
        needs_moments=True,
        not_private="moments are sent without noise",
    ),
    "ffa": StrategyEntry(
        "half:HalfMean", "B averaged, A never trained", is_mean=True, is_sum=True, halves=("B", "B")
    ),
    "rolora": StrategyEntry(
        "half:HalfMean", "B in odd rounds, A in even", is_mean=True, is_sum=True, halves=("A", "B")
    ),
    "fedavgm": StrategyEntry(
        "optimizers:FedAvgM", "the mean change with momentum", MomentumOptions, is_sum=True
    ),
    "fedadagrad": StrategyEntry(
        "optimizers:FedAdagrad", "Adagrad on it", AdaptiveOptions, is_sum=True
    ),
    "fedadam": StrategyEntry("optimizers:FedAdam", "Adam on it", AdamOptions, is_sum=True),
    "fedyogi": StrategyEntry("optimizers:FedYogi", "Yogi on it", AdamOptions, is_sum=True),
    "trimmed-mean": StrategyEntry(
        "robust:TrimmedMean", "the mean without the extremes", TrimmedMeanOptions
    ),
    "median": StrategyEntry("robust:Median", "value by value, the middle"),
    "krum": StrategyEntry("krum:Krum", "the member nearest to the others", KrumOptions),
    "multi-krum": StrategyEntry(
        "krum:MultiKrum", "the mean of the members nearest to the others", KrumOptions
    ),
    "norm-balanced": StrategyEntry(
        "norm_balanced:NormBalanced", "the mean of changes of equal length", is_mean=True
    ),
    "none": StrategyEntry("", "nothing is merged, each environment continues alone", is_mean=True),
}
"""Names that no package can take, each with its class below `hansa_server.strategies`."""
OF_A_PACKAGE = StrategyEntry("", "", is_mean=True)
"""What counts of any other name as long as its package is not at hand."""


def entry(name: str) -> StrategyEntry:
    """What is known of a strategy by its name."""
    return BUILTIN.get(name, OF_A_PACKAGE)
