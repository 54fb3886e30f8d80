"""World `scienceworld`: carry out an experiment in a house of rooms and things.

    options: {tasks: [find-animal, boil], simplifications: [openDoors]}

A task is one of ScienceWorld's and the number of a variation. Needs the extra
`hansa-more-worlds[scienceworld]`, and Java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hansa_more_worlds import packages
from hansa_more_worlds.scienceworld import simulator
from hansa_more_worlds.scienceworld.lessons import SHORT, SIMPLIFICATIONS, VARIATIONS, variations
from hansa_more_worlds.scienceworld.simulator import JAVA, JAVA_PACKAGE, MODULE, NAME
from hansa_worlds.base import Move, Observation, Split, Task, World
from hansa_worlds.errors import NoPlayer, OptionError
from hansa_worlds.options import Options

LONGEST_TEXT = 4_000
"""Characters of an observation that are kept; a full room has a thousand."""
Answer = TypeVar("Answer")
_UNKNOWN = "No known action matches that input."

RULES = """\
You carry out an experiment in a house of rooms and things. Each turn you read what happened.
Actions: look around, look at <thing>, look in <thing>, inventory, go to <room>, open <thing>,
close <thing>, pick up <thing>, put down <thing>, move <thing> to <place>, pour <thing> in <thing>,
dunk <thing> in <thing>, mix <thing>, activate <thing>, deactivate <thing>, use <thing> on <thing>,
connect <thing> to <thing>, disconnect <thing>, read <thing>, eat <thing>, flush <thing>,
focus on <thing>, wait, wait1. Focus on a thing only when the task says so.
Answer each observation as "Thought: <why>", then a line "Action: <one action>"."""


class ScienceWorld(World):
    """Experiments of ScienceWorld; the reward is the simulator's score so far, from 0 to 1.

    The expert follows the gold path of the variation and knows no other way.
    """

    name = NAME
    rules = RULES
    brief = "Carry out the task."
    max_turns = 30

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self._names = _chosen(read, "tasks", SHORT, sorted(VARIATIONS))
        self._easier = _chosen(read, "simplifications", (), SIMPLIFICATIONS)
        self._least = read.number("success", 1.0, 0.01, 1.0)
        read.finish()
        _check_electric(self._names, self._easier)
        packages.require(NAME, MODULE)
        packages.require_program(NAME, JAVA, JAVA_PACKAGE)
        self._game: Any = None
        self._task: Task | None = None
        self._gold: list[str] | None = None
        self._played: list[str] = []

    def tasks(self, split: Split) -> Sequence[Task]:
        """The variations of a split as ScienceWorld shares them out, task by task."""
        return [
            Task(f"{name}-{number}", split, (name, str(number)))
            for name in self._names
            for number in variations(name, split)
        ]

    def _begin(self, task: Task) -> str:
        self._task, self._gold, self._played = task, None, []
        self._game = simulator.new_game()
        self._ask(lambda: self._load(self._game, task, gold=False))
        return self._ask(
            lambda: _cut(
                f"{self._game.getTaskDescription()}\n{self._game.freeActionLook()}\n"
                f"{self._game.freeActionInventory()}"
            )
        )

    def _act(self, action: str) -> Observation:
        sent = action.encode("utf-8", "replace").decode("utf-8")
        text, score, over = self._ask(
            lambda: (
                str(self._game.step(sent)),
                float(self._game.getScore()),
                bool(self._game.getCompleted()),
            )
        )
        if text != _UNKNOWN:
            self._played.append(action)
        return Observation(_cut(text), max(0.0, score), over or score < 0)

    def _is_success(self, last: Observation) -> bool:
        return last.reward >= self._least

    def expert(self) -> Move:
        """The next step of the gold path, as long as nothing else was done."""
        gold, done = self._way(), len(self._played)
        if self._played != gold[:done] or done == len(gold):
            raise NoPlayer("the expert of scienceworld knows no way but the gold path")
        return Move(f"Step {done + 1} of {len(gold)} of this experiment.", gold[done])

    def legal(self) -> list[str]:
        """Every action that the simulator would take here: often more than a thousand."""
        if self._game is None:
            raise NoPlayer("scienceworld lists its actions in the middle of an episode")
        valid = self._ask(lambda: list(self._game.getValidActionObjectCombinations()))
        return sorted({" ".join(str(action).split()) for action in valid})

    def group(self, task: Task) -> str:
        """Which of ScienceWorld's tasks."""
        return task.payload[0]

    def groups(self) -> list[str]:
        """ScienceWorld's tasks that were chosen."""
        return sorted(self._names)

    def close(self) -> None:
        """Let go of the game; the simulator stays for the next."""
        self._game = None

    def _way(self) -> list[str]:
        """The gold path; planned in a game of its own, for planning plays."""
        if self._task is None:
            raise NoPlayer("the expert of scienceworld plays in the middle of an episode")
        if self._gold is None:
            task, other = self._task, simulator.new_game()
            self._ask(lambda: self._load(other, task, gold=True))
            gold = self._ask(lambda: list(other.getGoldActionSequence()))
            self._gold = [" ".join(str(action).split()) for action in gold]
        return self._gold

    def _load(self, game: Any, task: Task, *, gold: bool) -> None:
        name, number = task.payload
        game.load(name, int(number), ",".join(self._easier), gold)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask the simulator; an episode whose simulator is gone is over."""
        try:
            return question()
        except Exception as error:
            self._done = True
            raise simulator.lost() from error


def _chosen(
    read: Options, name: str, default: tuple[str, ...], known: Sequence[str]
) -> tuple[str, ...]:
    value = read.anything(name, default)
    fits = f"a list of distinct names out of {', '.join(known)}"
    if isinstance(value, str) or not isinstance(value, Sequence) or (default and not value):
        read.refuse(name, repr(value), fits)
        return default
    for each in value:
        if each not in known or list(value).count(each) > 1:
            read.refuse(name, f"{each!r} in it", fits)
            return default
    return tuple(value)


def _check_electric(names: Sequence[str], easier: Sequence[str]) -> None:
    """Refuse to take away the actions that a task needs."""
    needing = [name for name in names if "power-component" in name or "conductivity" in name]
    if needing and "noElectricalAction" in easier:
        raise OptionError(
            f"options.simplifications: got 'noElectricalAction', which task {needing[0]} cannot do"
            " without, expected others"
        )


def _cut(text: str) -> str:
    return text.strip()[:LONGEST_TEXT]
