"""spec.aggregation as data: how the updates of a round become the next global adapter."""

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import Field

from hansa.api.plugin_fields import PluginName, PluginOptions, check_options
from hansa.api.secure_aggregation import Secure as Secure
from hansa.core.model import Model

Strategy = Literal[
    "mean",
    "weighted-mean",
    "svd",
    "flora",
    "fedex",
    "regmean",
    "ffa",
    "rolora",
    "fedavgm",
    "fedadagrad",
    "fedadam",
    "fedyogi",
    "trimmed-mean",
    "median",
    "krum",
    "multi-krum",
    "norm-balanced",
    "none",
]
BUILTIN: tuple[str, ...] = get_args(Strategy)
"""Names that no package can take."""
DEFAULT_RATIOS = {"maxNormRatio": 10.0, "maxWeightRatio": 3.0}
"""How much further than the median an update may move, and how much more it may count, where the
spec says nothing."""
Half = Literal["both", "A", "B"]
"""Which of LoRA's two matrices a round trains."""

FITTED = frozenset(
    {"mean", "weighted-mean", "svd", "flora", "fedex", "ffa", "rolora", "norm-balanced", "none"}
)
"""Strategies whose server step may be `auto`: it makes up for a mean that shortens every update."""
KRUM = frozenset({"krum", "multi-krum"})
"""Strategies that count on spec.aggregation.faulty."""
PRODUCTS = frozenset({"svd", "flora", "regmean"})
"""Strategies that merge the products B·A, which are the same however their factors are turned."""
SealingKey = Annotated[str, Field(pattern=r"^x25519:[A-Za-z0-9_-]{43}$", max_length=60)]
"""A public key to encrypt to, as specs have it: `x25519:` and 32 bytes in base64url."""
Share = Annotated[float, Field(ge=0, lt=1)]


class Aggregation(Model):
    """How the updates of a round become the next global adapter."""

    strategy: Annotated[
        PluginName,
        Field(
            description="Rule that merges the updates; `mean` averages A and B element by element, "
            f"as in Fed-SE. Builtin: {', '.join(BUILTIN)}. Others are of packages."
        ),
    ] = "mean"
    options: PluginOptions | None = None
    """For a strategy of a package: settings of its own, which it checks itself."""
    server_step: Annotated[float, Field(gt=0, le=100)] | Literal["auto"] = 1.0
    """Step from the old global adapter towards the aggregate: 1 is the aggregate itself, `auto` the
    longer the less the round's updates have in common (FedExP), up to 4."""
    weight_by: Literal["examples", "successes"] = "examples"
    """For `weighted-mean`: trajectories trained on, or successful episodes of the round."""
    max_weight_ratio: Annotated[float, Field(ge=1)] = DEFAULT_RATIOS["maxWeightRatio"]
    """For `weighted-mean`: how many times the median one member counts at most (of two members, the
    lower), since numbers are its own word; 1e9 is no bound."""
    max_rank: Annotated[int, Field(ge=1, le=4096)] = 64
    """For `flora`, `fedex`, `regmean`: rank of the frozen part; beyond it, it is recompressed."""
    moments_rank: Annotated[int, Field(ge=1, le=4096)] = 64
    """For `regmean`: directions that a silo sends of each layer's inputs; all of at most 128."""
    momentum: Share = 0.9
    """For `fedavgm`, `fedadam` and `fedyogi`: share of the last step that the next one keeps."""
    second_momentum: Share = 0.99
    """For `fedadam` and `fedyogi`: the same for the squares of the steps."""
    server_learning_rate: Annotated[float, Field(gt=0, le=10)] = 0.001
    """For `fedadagrad`, `fedadam` and `fedyogi`: learning rate of the server's optimizer."""
    adaptivity: Annotated[float, Field(gt=0, le=1)] = 0.001
    """For these three: tau, the smallest divisor; larger is less adaptive."""
    trim: Annotated[float, Field(ge=0, lt=0.5)] = 0.2
    """For `trimmed-mean`: share of the values left out at each end."""
    faulty: Annotated[int, Field(ge=0, le=48)] = 1
    """For `krum` and `multi-krum`: hostile members to withstand; needs 2 x faulty + 3 of them."""
    max_update_norm: Annotated[float, Field(gt=0)] | None = None
    """Refuses updates that moved further than this from the start adapter; absent: no bound."""
    max_norm_ratio: Annotated[float, Field(ge=1)] = DEFAULT_RATIOS["maxNormRatio"]
    """Refuses updates that moved further than this times the median of the round's updates, from
    three of them on; 1e9 is no bound."""
    diagnostics: bool = True
    """Whether cosines, shares and the error against the exact mean of B·A are computed; of many
    members of a large model they are estimates, as a rule within 1 %."""

    seal_to: SealingKey | None = None
    """Public key of the aggregator that updates are encrypted to, so that whoever else reads the
    bucket learns nothing from them; absent: they are not. Every silo needs experienceStorage
    or experienceKeySecret."""
    secure: Secure | None = None
    """Secure aggregation: silos mask their updates, so that only the sum is readable, for the
    aggregator as well; absent: they do not. Every silo needs maskingKey and experienceStorage."""

    def half(self, round_: int) -> Half:
        """Which matrices a round trains: `ffa` never A, `rolora` B in odd rounds, A in even."""
        if self.strategy == "ffa":
            return "B"
        if self.strategy == "rolora":
            return "B" if round_ % 2 else "A"
        return "both"

    def merges_factors(self, round_: int) -> bool:
        """Whether a round merges A with A and B with B, so that all must mean the same by them."""
        return self.strategy not in PRODUCTS and self.half(round_) == "both"

    @property
    def needs_moments(self) -> bool:
        """Whether silos send moments of their inputs beside their updates."""
        return self.strategy == "regmean"

    def check_options(self) -> None:
        """Refuse options that nobody reads; what a package's are, only the package can tell."""
        check_options("aggregation", "strategy", self.strategy, self.options, BUILTIN)

    def check_step(self, *, is_mean: bool | None = None) -> None:
        """Refuse a step that fits a mean where the strategy makes none.

        `is_mean`: what a package says of its own; nobody can tell without the package.
        """
        if is_mean is None:
            is_mean = self.strategy in FITTED or self.strategy not in BUILTIN
        if self.server_step == "auto" and not is_mean:
            raise ValueError(
                f"aggregation.serverStep: got auto with {self.strategy}, expected a number (auto "
                "makes up for what a mean of all updates loses, which this strategy does not take)"
            )

    def check_sealing(self, is_apart: Sequence[bool]) -> None:
        """Refuse sealed updates that nobody merges, or whose silo's experience lies open beside.

        `is_apart`: whether each environment keeps its experience in a store of its own, or sealed.
        """
        if not self.seal_to:
            return
        if self.strategy == "none":
            raise ValueError(
                "aggregation.sealTo: got a key, and with aggregation.strategy none nobody merges "
                "updates, expected another strategy or no key"
            )
        if not all(is_apart):
            raise ValueError(
                f"environments[{is_apart.index(False)}].experienceStorage: got nothing, expected a "
                "store of the silo's own, or experienceKeySecret, since aggregation.sealTo hides "
                "its update from those who read the shared one"
            )

    def check_members(self, environments: int) -> None:
        """Refuse a number of hostile members that the federation is too small to withstand."""
        needed = 2 * self.faulty + 3
        if self.strategy in KRUM and environments < needed:
            raise ValueError(
                f"aggregation.faulty: got {self.faulty}, for which {self.strategy} needs {needed} "
                f"environments (2 x faulty + 3), and spec.environments has {environments}"
            )
