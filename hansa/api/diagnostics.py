"""What the manifest of a global adapter says of the updates behind it."""

from pydantic import Field

from hansa.core.model import Model


class Diagnostics(Model):
    """How the updates of a round relate to one another and to what was made of them.

    All of it but `factorNorms` is about changes of the weights themselves, alpha / rank times B·A.
    Of many members of a large model the norms, cosines and the error are estimated by random
    projections, as a rule within 1 % (of 1, for a cosine); of few members, or of a small model,
    they are exact.
    """

    norm: float
    """Frobenius norm of the change from the old global adapter to the new one; may be estimated."""
    error: float
    """How far the new one is from the exact mean of the updates, as a share of that mean; may be
    estimated."""
    effective_rank: float
    """Directions that the new adapter uses, by the entropy of its singular values; layers' mean."""
    norms: dict[str, float] = Field(default_factory=dict)
    """Norm of each update's change; may be estimated."""
    cosine: dict[str, float] = Field(default_factory=dict)
    """Cosine of each update's change with the global adapter's: below 0 they pull apart; may be
    estimated."""
    share: dict[str, float] = Field(default_factory=dict)
    """Each update's part of the sum of all norms; may be estimated."""
    factor_norms: dict[str, float] = Field(default_factory=dict)
    """Norm of each update's change of A and B themselves, which most strategies merge: factors that
    were turned make a large one of a usual change of the weights. Exact."""
