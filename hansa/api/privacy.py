"""spec.privacy as data: what a silo may give away of one record, and how training keeps to it."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api import dp_accountant
from hansa.api.experience import Experience, Exploration
from hansa.core.model import Model

Unit = Literal["task", "trajectory"]


class Privacy(Model):
    """Record-level differential privacy inside each silo, by DP-SGD; absent: none."""

    unit: Unit = "task"
    """What is protected: all trajectories of a task in all rounds, or one trajectory."""
    epsilon: Annotated[float, Field(gt=0, le=1000)]
    """Upper bound of the privacy loss of one unit in the whole run."""
    delta: Annotated[float, Field(gt=0, le=0.1)]
    """Probability with which epsilon may not hold; below 1 / the number of a silo's units."""
    clip_norm: Annotated[float, Field(gt=0, le=1000)] = 0.5
    """Norm to which the gradient of one trajectory is clipped."""
    noise_multiplier: Annotated[float, Field(ge=0.01, le=dp_accountant.MOST_NOISE)] | None = None
    """Noise of a step in units of clipNorm; absent: the least with which all rounds cost no more
    than epsilon."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Probability with which a unit takes part in a step; draws are secret."""
    evaluation_noise: Annotated[float, Field(ge=0.01, le=dp_accountant.MOST_NOISE)] = 4.0
    """Noise of each reported number of held-out successes, in tasks."""

    def slots(
        self,
        exploration: Exploration,
        experience: Experience,
        demonstrations: int,
        rounds: int,
    ) -> int:
        """Units that a silo may have after that many rounds: public, whatever it has explored."""
        each = exploration.samples_per_task if self.unit == "trajectory" else 1
        explored = exploration.tasks_per_round * each * (rounds if experience.history else 1)
        return max(1, demonstrations + explored)

    def noise(self, steps: int) -> float | None:
        """The noise multiplier for the steps of all rounds; None: none is large enough."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        return dp_accountant.find_noise(self.sampling_rate, steps, self.epsilon, self.delta)

    def fixed(self, steps: int) -> "Privacy":
        """The settings of a round, with the noise multiplier that the steps of all rounds need."""
        return self.model_copy(update={"noise_multiplier": self.noise(steps)})


class PrivacyCost(Model):
    """What one release cost, and how that was computed."""

    unit: Unit
    """What is protected."""
    epsilon: Annotated[float, Field(ge=0, le=1e9)]
    """What all releases of this kind have cost one unit with this one, at `delta`."""
    delta: Annotated[float, Field(gt=0, le=1)]
    """Probability with which epsilon may not hold."""
    noise_multiplier: Annotated[float, Field(gt=0)]
    """Noise of each step, in units of what one record can change."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)]
    """Probability with which a unit takes part in a step."""
    steps: Annotated[int, Field(ge=1)]
    """Steps of the release."""
    accountant: Annotated[str, Field(max_length=20)] = dp_accountant.NAME
    """How costs and epsilon were computed."""


class PrivacyStatement(PrivacyCost):
    """What an update says of its own privacy: the silo's word, which nobody else can check."""

    clip_norm: Annotated[float, Field(gt=0)]
    """Largest norm with which one trajectory's gradient counted."""
    rounds: Annotated[int, Field(ge=1)]
    """Rounds that were paid for, this one included."""

    def follows(self, privacy: Privacy, steps: int) -> bool:
        """Whether it is what the settings of a round ask for."""
        return (
            self.unit == privacy.unit
            and self.noise_multiplier == privacy.noise_multiplier
            and self.clip_norm == privacy.clip_norm
            and self.sampling_rate == privacy.sampling_rate
            and self.steps == steps
            and self.delta <= privacy.delta
            and self.epsilon <= privacy.epsilon
        )
