"""The world babyai: tasks are levels and seeds, turns are actions in words.

The words are AgentGym's, so that its agents and data fit. Where it would mislead a learner, we
differ: a mission keeps its order ("then", "after you": AgentGym says "and" for all); a thing has
the same number wherever it is named; only what can be done is listed; boxes and open doors can be
toggled; a mission that fails is over; and a walk stops where the mission ends.
"""

import random
from collections.abc import Mapping, Sequence

from hansa_worlds.babyai import levels, macros, text
from hansa_worlds.babyai.goals import Goal, Status, build_goal
from hansa_worlds.babyai.grid import DROP, Grid
from hansa_worlds.babyai.levels import LEVELS, SOLVABLE
from hansa_worlds.babyai.view import FieldOfView
from hansa_worlds.base import Move, Observation, Split, Task, TaskList, World

_SEEDS: dict[Split, tuple[int, int]] = {
    "test": (0, 100),
    "validation": (1_000, 50),
    "train": (10_000, 500),
}
"""First seed and how many seeds of every level; tests come first, as AgentGym numbers them."""
_FRESH = 1_000_000
"""First seed of pre-training tasks."""


class BabyAI(World):
    """Fulfil a mission in rooms that are seen in part.

    The reward is MiniGrid's 1 - 0.9 * steps / allowed steps on success, and 0 otherwise. A turn
    takes several of MiniGrid's steps, and these are counted. The reward is never 1 and, as the
    episode ends with the allowed steps, at least 0.1: success is done and reward > 0.
    """

    name = "babyai"
    rules = text.RULES
    brief = text.BRIEF
    max_turns = 20

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.levels = read.integers("levels", tuple(LEVELS), 1, len(LEVELS))
        self.text = read.choice("text", "full", ("full", "short"))
        self.listed = read.choice("actions", "all", ("all", "short", "none"))
        read.finish()
        levels.require_minigrid()

    def tasks(self, split: Split) -> Sequence[Task]:
        """All levels with one seed, then with the next: any first part is spread over levels."""
        first, seeds = _SEEDS[split]
        many = len(self.levels)

        def build_task(index: int) -> Task:
            return self._make_task(split, self.levels[index % many], first + index // many)

        return TaskList(many * seeds, build_task)

    def fresh(self, seed: int) -> Task:
        """A room from a seed that no split has."""
        many = len(self.levels)
        return self._make_task("train", self.levels[seed % many], _FRESH + seed // many)

    def _make_task(self, split: Split, level: int, seed: int) -> Task:
        return Task(f"babyai-{level}-{seed}", split, (str(level), str(seed)))

    def group(self, task: Task) -> str:
        """The level, by which scores are reported."""
        return _name_kind(int(task.payload[0]))

    def groups(self) -> list[str]:
        """The levels."""
        return sorted(map(_name_kind, self.levels))

    def solvable(self, task: Task) -> bool:
        """Whether the expert is expected to reach the goal within 20 turns."""
        return int(task.payload[0]) in SOLVABLE

    def _begin(self, task: Task) -> str:
        level, seed = task.payload
        self._grid = Grid(levels.load_start(int(level), int(seed)))
        self._goal: Goal = build_goal(self._grid.start.goal)
        self._look()
        return f"Your goal: {self._grid.start.mission}\n{self._compose_text()}"

    def _look(self) -> None:
        self._view = FieldOfView(self._grid)
        self._offers: dict[str, macros.Macro] = macros.list_offers(self._view)

    def legal(self) -> list[str]:
        """What can be done here and changes something."""
        return list(self._offers)

    def actions(self) -> list[str]:
        """What an observation lists."""
        return [*self._offers, macros.CHECK]

    def greedy(self, draw: random.Random) -> str:
        """An action that the mission names on a thing in view that it names, else a random one."""
        words = set(self._grid.start.mission.replace(",", "").split())
        wanted = [
            offer for offer in self._offers if words.issuperset(macros.to_mission_words(offer))
        ]
        return draw.choice(wanted or self.legal())

    def expert(self) -> Move:
        """The next move of a plan made with full knowledge of the rooms."""
        from hansa_worlds.babyai.bot import advise

        return advise(self._grid, self._goal, self._view)

    def _compose_text(self, said: str = "") -> str:
        said = said or (text.describe_shortly if self.text == "short" else text.describe)(
            self._view
        )
        if self.listed == "none":
            return said
        return f"{said}\n{text.format_available(self._list_actions())}"

    def _list_actions(self) -> list[str]:
        """The actions that an observation ends with; short is one word or two for each kind."""
        if self.listed == "all":
            return self.actions()
        return list(dict.fromkeys(macros.strip_object(offer) for offer in self._offers))

    def _act(self, action: str) -> Observation:
        macro = macros.understand(action, self._offers)
        if macro is None:
            if action.lower() == macros.CHECK:
                said = f"You can take the following actions: {', '.join(self.actions())}"
            else:
                said = macros.explain_refusal(action, self._grid)
            return Observation(self._compose_text(said))
        status = self._take(macro)
        if status == "continue":
            self._look()
            return Observation(self._compose_text())
        return self._finish(status)

    def _take(self, macro: macros.Macro) -> Status:
        """Take the steps one by one; the mission may end at any of them."""
        grid = self._grid
        for step in macro.list_steps(self._view):
            grid.act(step)
            if step == DROP:
                self._goal.refresh(grid)
            status = self._goal.judge(grid, step)
            if status != "continue":
                return status
            if grid.steps >= grid.start.most:
                return "failure"
        return "continue"

    def _finish(self, status: Status) -> Observation:
        self._look()
        reached = status == "success"
        said = text.COMPLETED if reached else text.FAILED
        if self.text == "full":
            said = f"{text.describe(self._view)}\n{said}"
        grid = self._grid
        reward = 1 - 0.9 * (grid.steps / grid.start.most) if reached else 0.0
        return Observation(said, reward, True)


def _name_kind(level: int) -> str:
    return f"level {level:02d} {LEVELS[level].name}"
