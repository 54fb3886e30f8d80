"""spec.aggregation as data: how the updates of a round become the next global adapter."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from hansa.api import strategies
from hansa.api.ownership import Owner
from hansa.api.plugin_fields import (
    PluginName,
    PluginOptions,
    check_options,
    described,
    known_options,
)
from hansa.api.secure_aggregation import SecureAggregation as SecureAggregation
from hansa.api.strategies import Half, KrumOptions
from hansa.core.model import Model

OptionsModel = TypeVar("OptionsModel", bound=Model)
SealingKey = Annotated[str, Field(pattern=r"^x25519:[A-Za-z0-9_-]{43}$", max_length=60)]
"""A public key to encrypt to, as specs have it: `x25519:` and 32 bytes in base64url."""


class Aggregation(Model):
    """How the updates of a round become the next global adapter."""

    strategy: Annotated[
        PluginName,
        Field(description=f"Rule that merges the updates. {described(strategies.BUILTIN)}"),
    ] = "mean"
    options: Annotated[
        PluginOptions | None, Field(json_schema_extra=known_options(strategies.BUILTIN))
    ] = None
    """Settings of this strategy alone; those of a package it checks itself."""
    server_step: Annotated[
        Annotated[float, Field(gt=0, le=100)] | Literal["auto"], Owner.AGGREGATOR
    ] = 1.0
    """Step from the old global adapter towards the aggregate: 1 is the aggregate itself, `auto` the
    longer the less the round's updates have in common (FedExP), up to 4."""
    max_update_norm: Annotated[Annotated[float, Field(gt=0)] | None, Owner.AGGREGATOR] = None
    """Refuses updates that moved further than this from the start adapter; absent: no bound."""
    max_norm_ratio: Annotated[float, Field(ge=1), Owner.AGGREGATOR] = 10.0
    """Refuses updates that moved further than this times the median of the round's updates, from
    three of them on; 1e9 is no bound."""
    diagnostics: Annotated[bool, Owner.AGGREGATOR] = True
    """Whether cosines, shares and the error against the exact mean of B·A are computed; of many
    members of a large model they are estimates, as a rule within 1 %."""

    seal_to: SealingKey | None = None
    """Public key of the aggregator that updates are encrypted to, so that others who read the
    bucket learns nothing from them; absent: they are not. Every silo needs experienceStorage
    or experienceKeySecret."""
    secure: SecureAggregation | None = None
    """Secure aggregation: silos mask their updates, so that only the sum is readable, for the
    aggregator as well; absent: they do not. Every silo needs maskingKey and experienceStorage."""

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        check_options(self.strategy, self.options, strategies.BUILTIN)
        return self

    def read(self, model: type[OptionsModel]) -> OptionsModel:
        """The options as the strategy's own model has them, with its defaults."""
        return model.model_validate(self.options or {})

    def all_options(self) -> PluginOptions:
        """The options with what counts where nothing is said; a package's are as they came."""
        if self.strategy not in strategies.BUILTIN:
            return self.options or {}
        return self.read(strategies.BUILTIN[self.strategy].options).to_json()

    def half(self, round_: int) -> Half:
        """Which matrices a round trains: `ffa` never A, `rolora` B in odd rounds, A in even."""
        return strategies.entry(self.strategy).halves[round_ % 2]

    def merges_factors(self, round_: int) -> bool:
        """Whether a round merges A with A and B with B, so that all must mean the same by them."""
        return not strategies.entry(self.strategy).is_of_products and self.half(round_) == "both"

    @property
    def needs_moments(self) -> bool:
        """Whether silos send moments of their inputs beside their updates."""
        return strategies.entry(self.strategy).needs_moments

    def check_step(self, *, is_mean: bool | None = None) -> None:
        """Refuse a step that fits a mean where the strategy makes none.

        `is_mean`: what a package says of its own; nobody can tell without the package.
        """
        if is_mean is None:
            is_mean = strategies.entry(self.strategy).is_mean
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
        if strategies.entry(self.strategy).options is not KrumOptions:
            return
        faulty = self.read(KrumOptions).faulty
        needed = 2 * faulty + 3
        if environments < needed:
            raise ValueError(
                f"aggregation.options.faulty: got {faulty}, for which {self.strategy} needs "
                f"{needed} environments (2 x faulty + 3), and spec.environments has {environments}"
            )
