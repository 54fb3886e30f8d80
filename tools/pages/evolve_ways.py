"""What each way to evolve that was measured is, in words."""

from __future__ import annotations

from dataclasses import dataclass

BASE = "base"
"""What users get: the way that all others are compared with."""
SETTINGS = {
    "tiny": "different worlds",
    "few": "few demonstrations",
    "related": "five mazes",
    "smol": "SmolLM2",
}
"""By the name in the results, in the order of the page."""
LEARNERS = {
    BASE: "`success-sft`",
    "sft424": "`success-sft`, four samples a task",
    "dpo": "`dpo`",
    "warmdpo": "`success-sft` first, then `dpo`",
    "grpo": "`grpo`",
    "warmgrpo": "`success-sft` first, then `grpo`",
}
"""Ways that show what a learner brings."""
COMPARING = ("dpo", "warmdpo", "grpo", "warmgrpo")
"""Those of them that learn by comparing episodes."""


@dataclass(frozen=True)
class Way:
    """One way to evolve."""

    words: str
    """Its name in a table."""
    about: str
    """What it changes."""
    after: str = ""
    """Where the idea is from; empty: it is a control."""
    control: str = BASE
    """The way that plays as much, or nearly, without the idea."""
    is_both: bool = False
    """Whether it is two ways together."""

    @property
    def described(self) -> str:
        """What it changes, and where the idea is from."""
        return f"{self.about} ({self.after})" if self.after else self.about


_SAGE = "SAGE"
_R3 = "R³, reverse curriculum"
_SEC = "SEC, Self-Evolving Curriculum"
_EVA = "eva, asymmetric self-play"
_COV = "Clip-Cov"
_EAPO = "EAPO, IterResearch"
_SPEAR = "SPEAR, without its staged bonus"
_RPO = "RPO"
_GRPO = "GRPO, DeepSeekMath"

WAYS = {
    BASE: Way("usual", "successes of all rounds are imitated, one episode a task", "Fed-SE"),
    "more": Way("twice the tasks", "twice the tasks in a round"),
    "again": Way("unsolved again", "unsolved tasks are tried up to three times more"),
    "cold2hot": Way(
        "cold, then hot",
        "tasks at temperature 0.2, unsolved ones up to three times more at 1",
        control="again",
    ),
    "lead": Way(
        "expert begins",
        "unsolved tasks are tried again after the expert's first moves, which are not trained",
        _R3,
        "again",
    ),
    "leadkept": Way(
        "expert begins, trained", "as *expert begins*, and its moves are trained", _R3, "again"
    ),
    "hint": Way(
        "hint, cut",
        "unsolved tasks are tried again with the expert's moves as text, cut before training",
        _SAGE,
        "again",
    ),
    "hintkept": Way(
        "hint, kept", "the same text stays in what is trained, as in SAGE's code", _SAGE, "again"
    ),
    "sibling": Way(
        "sibling's way, cut",
        "unsolved tasks are tried again with what solved another of the kind as text",
        "SE-Agent, revision of trajectories",
        "again",
    ),
    "own": Way(
        "own failure, cut",
        "unsolved tasks are tried again with what failed before as text",
        "Reflexion",
        "again",
    ),
    "relabel": Way(
        "hindsight",
        "failed episodes count as successes of what they did solve; textcraft and babyai alone",
        "Hindsight Experience Replay, LMA3",
    ),
    "bandit": Way("bandit", "more of the kinds of tasks that taught most lately", _SEC),
    "frontier": Way(
        "frontier", "as *bandit*, and in a kind tasks whose best episode beats their mean", _EVA
    ),
    "heat": Way(
        "own temperature",
        "a silo moves its temperature by what failures and repeats cost",
        "B-STaR",
    ),
    "heatsamples": Way(
        "own samples", "a silo moves its temperature and the samples of a task so", "B-STaR"
    ),
    "short7": Way(
        "shortest ways",
        "longer ways of a task count less, 0.7 for a turn; most have only one",
        _EAPO,
    ),
    "half": Way(
        "circles by half",
        "actions that led back to where the agent had been count half, instead of not at all",
    ),
    "sft424": Way("four samples", "all tasks, four samples each"),
    "grpo": Way(
        "grpo", "learner `grpo`, four samples, temperature 1, a smaller rate", _GRPO, "sft424"
    ),
    "grpowaves": Way(
        "grpo, waves", "`grpo`; tasks that teach nothing are drawn anew, twice", "DAPO", "grpo"
    ),
    "clipcov": Way(
        "grpo, entropy", "`grpo` without the tokens that cost most entropy", _COV, "grpo"
    ),
    "dpo": Way("dpo", "learner `dpo`, four samples, a smaller rate", "DPO", "sft424"),
    "warmgrpo": Way(
        "grpo, later",
        "imitation in the first half, then `grpo` at a quarter of the rate",
        _GRPO,
        "sft424",
    ),
    "warmdpo": Way(
        "dpo, later",
        "imitation in the first half, then `dpo` at a quarter of the rate",
        "DPO",
        "sft424",
    ),
    "warmclipcov": Way(
        "grpo, entropy, later",
        "imitation first, then *grpo, entropy* at a quarter of the rate",
        _COV,
        "warmgrpo",
    ),
    "spear424": Way(
        "SPEAR",
        "imitation of all successes beside `grpo`'s advantages, four samples",
        _SPEAR,
        "sft424",
    ),
    "rpo424": Way("RPO", "`dpo`'s pairs beside imitation, four samples", _RPO, "sft424"),
    "again424": Way(
        "four samples + unsolved again",
        "both",
        control="sft424",
        is_both=True,
    ),
    "bandit424": Way("four samples + bandit", "both", _SEC, "sft424", is_both=True),
    "banditagain": Way("bandit + unsolved again", "both", _SEC, "again", is_both=True),
}
"""By the name in the results, in the order of tables."""
