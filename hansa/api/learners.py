"""The builtin learners: what each is, and what it may be used for; a new one is a line here."""

from dataclasses import dataclass

from hansa.api.plugin_fields import BuiltinEntry


@dataclass(frozen=True, kw_only=True)
class LearnerEntry(BuiltinEntry):
    """A builtin learner, and what a federation may do with it."""

    is_filtered: bool = False
    """Whether experience.filter chooses for it; others choose by themselves."""


BUILTIN: dict[str, LearnerEntry] = {
    "success-sft": LearnerEntry(
        "success_sft:SuccessSft", "imitates successes, as in Fed-SE", is_filtered=True
    ),
    "reward-weighted": LearnerEntry(
        "reward_weighted:RewardWeighted", "imitates each trajectory by its reward, as AgentEvol"
    ),
}
"""Names that no package can take, each with its class below `hansa_client.learners`."""
OF_A_PACKAGE = LearnerEntry(
    "", "", not_private="an example of another learner may be several trajectories"
)
"""What counts of any other name as long as its package is not at hand."""


def entry(name: str) -> LearnerEntry:
    """What is known of a learner by its name."""
    return BUILTIN.get(name, OF_A_PACKAGE)
