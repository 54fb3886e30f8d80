"""The findings of an audit about one round."""

from dataclasses import dataclass, field
from typing import Literal

from hansa.api.bucket_documents import Refusal

Verdict = Literal["equal", "differs", "cannot be"]


@dataclass(kw_only=True)
class Findings:
    """Findings about one round; without any, all is as it was written."""

    round: int
    """The round."""
    merged: list[str] = field(default_factory=list)
    """Environments whose updates were merged."""
    refused: list[Refusal] = field(default_factory=list)
    """Updates that were not; names and reasons are fit for a terminal."""
    failed: bool = False
    """Whether too few updates passed the gate, so that nothing was merged."""
    wrong: list[str] = field(default_factory=list)
    """Differences from what was written, or from what is required."""
    unknown: list[str] = field(default_factory=list)
    """What could not be checked."""
    signed: bool = False
    """Whether an order that the coordinator signed vouches for its entry."""

    @property
    def verdict(self) -> Verdict:
        """The result in a word; a difference outweighs what could not be checked."""
        if self.wrong:
            return "differs"
        return "cannot be" if self.unknown else "equal"
