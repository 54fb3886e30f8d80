"""Probes: whether an adapter breaks rules, and what it has forgotten.

Their tasks and seeds follow from the spec alone, so that honest silos report the same figures of
an adapter.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hansa.api.assignment import Assignment
from hansa.api.probes import (
    LONGEST_ANSWER,
    MOST_NATS,
    Probe,
    ProbeFigure,
    compile_pattern,
)
from hansa.api.probes import check as fit_together
from hansa.core.errors import PermanentError
from hansa_client import seeds
from hansa_client.rollout import tasks
from hansa_client.trajectory import Sequence as Tokens
from hansa_worlds import Observation, Split, Task, World, make

if TYPE_CHECKING:
    from hansa_client.agent import Agent
    from hansa_client.silo import Silo


class Prompted(World):
    """Answers to prompts, in one turn each; each forbidden pattern in one breaks a rule."""

    name = "prompts"
    max_turns = 1
    has_rules = True

    def __init__(self, prompts: Sequence[str], forbidden: Sequence[str]) -> None:
        super().__init__({"prompt": "none"})
        self._prompts = prompts
        self._forbidden = [compile_pattern(pattern) for pattern in forbidden]

    def tasks(self, split: Split) -> Sequence[Task]:
        """The prompts, in every split: nobody trains on them here."""
        return [Task(f"prompt-{at}", split, (text,)) for at, text in enumerate(self._prompts)]

    def _begin(self, task: Task) -> str:
        return task.payload[0]

    def _act(self, action: str) -> Observation:
        raise NotImplementedError  # `step` takes the answer as it is

    def step(self, action: str) -> Observation:
        """Search the whole answer, thoughts included."""
        answer = action[:LONGEST_ANSWER].encode(errors="replace").decode()  # RE2 reads UTF-8
        self._done = True
        self._violations = sum(bool(one.search(answer)) for one in self._forbidden)
        return Observation("", 0.0, True)


def make_world(probe: Probe) -> World:
    """The world of a probe, or a permanent error that names the field."""
    if probe.kind == "prompts":
        return Prompted(probe.prompts, probe.forbidden)
    with tasks.explain_world_errors(f"spec.probes[{probe.name}]"):
        return make(probe.world, probe.options)


def check(assignment: Assignment) -> None:
    """Refuse, before torch is loaded, a probe that counts nothing or would take forever.

    An order comes from another party, whose patterns were not validated here.
    """
    wanted = assignment.settings.probes or []
    try:
        fit_together(wanted, None, assignment.settings.aggregation.strategy)
    except ValueError as error:
        raise PermanentError(f"settings.{error}") from None
    for probe in wanted:
        if probe.kind == "texts":
            continue
        where, world = f"spec.probes[{probe.name}].options", make_world(probe)
        if not world.has_rules:
            raise PermanentError(
                f"{where}: world {probe.world} counts no broken rules with them, expected options "
                "with which it does"
            )
        if not world.tasks("test"):
            raise PermanentError(f"{where}: world {probe.world} has no test task with them")


def play(silo: "Silo", agent: "Agent") -> dict[str, ProbeFigure] | None:
    """The figures of all probes of the start adapter; None where there are none."""
    probes = silo.assignment.settings.probes
    if not probes:
        return None
    return {
        probe.name: _measure_forgetting(silo, agent, probe)
        if probe.kind == "texts"
        else _count_violations(silo, agent, probe)
        for probe in probes
    }


def _count_violations(silo: "Silo", agent: "Agent", probe: Probe) -> ProbeFigure:
    seed = seeds.derive(silo.assignment.seed, "", 0, f"probe/{probe.name}")
    jobs = tasks.choose_held_out_jobs(make_world(probe).tasks("test"), probe.episodes, seed)
    played = silo.play_probe(agent, jobs, lambda: make_world(probe))
    broke = sum(bool(episode.violations) for episode in played.episodes)
    return ProbeFigure(episodes=len(played.episodes), violations=broke)


def _measure_forgetting(silo: "Silo", agent: "Agent", probe: Probe) -> ProbeFigure:
    """How much less likely the texts are than without an adapter."""
    from hansa_client.training.scoring import count_agent_tokens, measure_surprise

    longest = agent.base.cap_length(silo.assignment.settings.training.max_length)
    texts = [tokens[:-1][:longest] for tokens in agent.base.chat.encode_actions(probe.texts)]
    sequences = [Tokens(tokens, [True] * len(tokens)) for tokens in texts if tokens]
    if not count_agent_tokens(sequences):
        return ProbeFigure()
    before = measure_surprise(agent.base, sequences)
    with agent.merge_adapter() as base:
        nats = measure_surprise(base, sequences) - before
    # An adapter whose logits are NaN has forgotten everything.
    bounded = min(max(nats, -MOST_NATS), MOST_NATS) if math.isfinite(nats) else MOST_NATS
    return ProbeFigure(forgotten=round(bounded, 6))
