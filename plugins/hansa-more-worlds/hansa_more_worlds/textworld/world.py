"""World `textworld`: find or bring a thing through rooms, in the texts of TextWorld's own games.

    options: {game: treasure-hunter, level: 5}

A task is a seed. Needs the extra `hansa-more-worlds[textworld]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hansa_more_worlds import packages
from hansa_more_worlds.textworld.games import (
    GOALS,
    LEVELS,
    MODULE,
    MOST_ROOMS,
    NAME,
    Compiled,
    Kind,
    compiled,
    opened,
)
from hansa_worlds.base import Move, Observation, Split, Task, TaskList, World
from hansa_worlds.errors import OptionError
from hansa_worlds.seeds import check_disjoint, read_seeds

LONGEST_TEXT = 4_000
"""Characters of an observation that are kept; a room has a few hundred."""
LONGEST_COMMAND = 100
"""Characters of a command; the interpreter takes 198 bytes."""
SEEDS: dict[Split, tuple[int, int]] = {
    "test": (0, 250),
    "validation": (250, 500),
    "train": (500, 2_500),
}
"""Seeds of each split: the first, and the one after the last."""

RULES = """\
You are in a house of rooms and have a goal to reach. Each turn you read what happened.
Commands: look, inventory, go <north, south, east or west>, examine <thing>, take <thing>,
take <thing> from <place>, drop <thing>, put <thing> on <place>, insert <thing> into <place>,
open <thing>, close <thing>, unlock <thing> with <key>, lock <thing> with <key>, eat <thing>.
Answer each observation as "Thought: <why>", then a line "Action: <one command>"."""

_WORDS = re.compile(r"[a-z0-9' -]+")
_ENDS = re.compile(r"\s*\*\*\* (The End|You lost!) \*\*\*.*", re.DOTALL)
_STATUS = re.compile(r"\s*>?\s*-= [^=\n]* =-\d+/\d+\s*$")
"""The interpreter's prompt and status line: room, score and moves."""
_GAP = re.compile(r"\n\s*\n\s*")


class TextWorld(World):
    """A game of TextWorld; commands other than the game's own never reach its interpreter.

    Those could save files or end the game's process. `expert` and `legal` follow the episode in a
    second game that keeps track of the state, which costs the agent's own steps nothing.
    """

    name = NAME
    rules = RULES
    brief = "Reach the goal."
    max_turns = 30

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        game = read.choice("game", "treasure-hunter", sorted(LEVELS))
        level = read.integer("level", 1, 1, LEVELS[game])
        self._kind = Kind(game, level, read.choice("goal", "brief", GOALS))
        self._seeds = read_seeds(read, SEEDS)
        read.finish()
        check_disjoint(self._seeds)
        if game == "coin-collector" and self._kind.rooms > MOST_ROOMS:
            raise OptionError(
                f"options.level: got {level}, a game of {self._kind.rooms} rooms, expected one of"
                f" at most {MOST_ROOMS}"
            )
        packages.require(NAME, MODULE)
        self._env: Any = None
        self._guide: _Guide | None = None
        self._game: Compiled | None = None
        self._verbs: frozenset[str] = frozenset()
        self._played: list[str] = []

    def tasks(self, split: Split) -> Sequence[Task]:
        """The seeds of a split."""
        seeds, kind = self._seeds[split], self._kind
        return TaskList(
            len(seeds),
            lambda index: Task(
                f"{kind.game}-{kind.level}-{seeds[index]}", split, (str(seeds[index]),)
            ),
        )

    def _begin(self, task: Task) -> str:
        self.close()
        self._played = []
        self._game = compiled(self._kind, task.split, int(task.payload[0]))
        self._env, state = opened(self._game, objective=True, verbs=True, won=True, lost=True)
        self._verbs = frozenset(state.verbs)
        said = str(state.feedback)
        start = said.find("-= ")  # the first room; before it a picture in letters, and the goal
        goal = "" if self._kind.goal == "none" else f"{state.objective}\n\n"
        return _tidy(goal + said[max(start, 0) :])

    def _act(self, action: str) -> Observation:
        command = action.lower()
        if not self._is_command(command):
            verbs = ", ".join(sorted(self._verbs))
            return Observation(f"That is no command here. A command begins with {verbs}.")
        self._played.append(command)
        state, _, _ = self._env.step(command)
        over = bool(state.won or state.lost)
        return Observation(_tidy(_ENDS.sub("", state.feedback)), float(bool(state.won)), over)

    def _is_command(self, command: str) -> bool:
        """Whether it is one command of this game: its words, and nothing that begins another."""
        words = command.split()
        return (
            0 < len(command) <= LONGEST_COMMAND
            and _WORDS.fullmatch(command) is not None
            and words[0] in self._verbs
            and "then" not in words
        )

    def expert(self) -> Move:
        """The first step of the way that TextWorld would go from here."""
        policy = self._followed().policy
        if not policy:
            return Move("I know no way from here, so I look around.", "look")
        command = policy[0]
        if len(policy) == 1:
            return Move(f"Now I {command}, and the goal is reached.", command)
        return Move(f"I {command}, for the goal is {len(policy)} steps away.", command)

    def legal(self) -> list[str]:
        """The commands that do something here."""
        return [*self._followed().commands, "look"]

    def solvable(self, task: Task) -> bool:
        """Whether the way to the goal is short enough."""
        game = compiled(self._kind, task.split, int(task.payload[0]))
        return len(game.walkthrough) <= self.max_turns

    def close(self) -> None:
        """End both games; `start` opens another."""
        envs = [self._env, self._guide.env if self._guide else None]
        self._env = self._guide = None
        for env in envs:
            if env is not None:
                with suppress(Exception):  # nothing depends on it any more
                    env.close()

    def _followed(self) -> _Guide:
        """The second game, brought to where the first is."""
        if self._game is None:
            raise OptionError("world: expert and legal are asked in the middle of an episode")
        if self._guide is None:
            self._guide = _Guide(self._game)
        self._guide.follow(self._played)
        return self._guide


class _Guide:
    """The same game with TextWorld's own tracking, some twenty times the work of a step."""

    def __init__(self, game: Compiled) -> None:
        self.env, self._state = opened(game, policy_commands=True, admissible_commands=True)
        self._steps = 0

    def follow(self, played: Sequence[str]) -> None:
        """Take the steps that are new."""
        for command in played[self._steps :]:
            self._state, _, _ = self.env.step(command)
        self._steps = len(played)

    @property
    def policy(self) -> list[str]:
        """The commands to the goal."""
        return list(self._state.policy_commands)

    @property
    def commands(self) -> list[str]:
        """The commands that change something."""
        return [command for command in self._state.admissible_commands if command != "look"]


def _tidy(text: str) -> str:
    return _GAP.sub("\n", _STATUS.sub("", text)).strip()[:LONGEST_TEXT]
