"""What of a spec may change between rounds, as it was when a round opened."""

from typing import Annotated

from pydantic import Field

from hansa.api.aggregation import Aggregation
from hansa.api.evaluation import Evaluation
from hansa.api.experience import Experience
from hansa.api.exploration import Exploration
from hansa.api.privacy import Privacy
from hansa.api.probes import Probes
from hansa.api.spec_fields import PersonalizationMode, SpecFields
from hansa.api.training import Training
from hansa.core.model import Model


class RoundSettings(Model):
    """Mutable settings as they were when the round opened; every attempt of it uses these."""

    exploration: Exploration = Field(default_factory=Exploration)
    """How new trajectories are gathered."""
    experience: Experience = Field(default_factory=Experience)
    """What is kept and learned from."""
    training: Training = Field(default_factory=Training)
    """How the adapter is trained."""
    evaluation: Evaluation = Field(default_factory=Evaluation)
    """How the global adapter is measured."""
    aggregation: Aggregation = Field(default_factory=Aggregation)
    """How updates become the next global adapter."""
    step_factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """What the guard makes of a server step `auto`; one that is a number has it in itself."""
    personalization: PersonalizationMode = "none"
    """What each silo may serve instead of the last global adapter."""
    probes: Probes | None = None
    """What tells whether it breaks rules or forgets."""
    privacy: Privacy | None = None
    """What each silo may give away of one record, with its noise; absent: nothing bounds it."""

    @classmethod
    def of(cls, spec: SpecFields, step_factor: float = 1.0) -> "RoundSettings":
        """The settings that a round opened now would use."""
        chosen_by = spec.evaluation.chosen_by(guarded=spec.guarded)
        step = spec.aggregation.server_step
        scaled = step if isinstance(step, str) else step * step_factor
        return cls(
            exploration=spec.exploration,
            experience=spec.experience,
            training=spec.training,
            evaluation=spec.evaluation.model_copy(update={"validation_tasks": chosen_by}),
            aggregation=spec.aggregation.model_copy(update={"server_step": scaled}),
            step_factor=step_factor if scaled == "auto" else 1.0,
            personalization=spec.personalization,
            probes=spec.probes or None,
            privacy=_private(spec),
        )


def _private(spec: SpecFields) -> Privacy | None:
    """The spec's privacy with its noise, which depends on the steps of all rounds."""
    steps = spec.rounds * spec.training.max_steps
    return spec.privacy.fixed(steps) if spec.privacy else None
