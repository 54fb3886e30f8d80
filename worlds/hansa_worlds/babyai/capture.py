"""Reading a room from a minigrid environment: the only module that knows minigrid's classes."""

from functools import cache
from typing import Any

from minigrid.envs.babyai.core import verifier
from minigrid.envs.babyai.core.roomgrid_level import RejectSampling, RoomGridLevel

from hansa_worlds.babyai.grid import NOBODY, PAD, Start

MOST_DRAWS = 20_000
"""Numbers drawn for one room; the largest rooms need a few hundred."""


class _QuietLevel(RoomGridLevel):
    """What a level does differently here: it is quiet, ends, and keeps its key outside.

    minigrid prints each rejected room to stdout, which belongs to data. It looks for a free cell
    without end, also in the rare room that has none left for the agent. And two of its levels
    compare numpy integers by identity (`ik is id`), which never holds, so that one room in nine
    would have its key behind the door that it opens; with plain integers it holds as meant.
    """

    _left = MOST_DRAWS

    def _gen_grid(self: Any, width: int, height: int) -> None:
        while True:
            self._left = MOST_DRAWS
            try:
                super(RoomGridLevel, self)._gen_grid(width, height)  # type: ignore[no-untyped-call]
                self.gen_mission()
                self.validate_instrs(self.instrs)
            except (RecursionError, RejectSampling):
                continue
            break
        self.mission = self.surface = self.instrs.surface(self)

    def _rand_int(self, low: int, high: int) -> int:
        self._left -= 1
        if self._left < 0:
            raise RejectSampling("a room in which something has no place")
        return int(self.np_random.integers(low, high))

    def gen_obs(self) -> dict[str, object]:
        return {}


@cache
def make_quiet(kind: type) -> type:
    """A level's class without talk and images."""
    return type(kind.__name__, (_QuietLevel, kind), {})


def capture(env: Any) -> Start:
    """The room of an environment that was just reset."""
    return _Capture(env).build_start()


class _Capture:
    """Numbers the things of an environment and reads everything off by these numbers."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.width: int = env.grid.width + 2 * PAD
        self.numbers: dict[int, int] = {}
        self.objects: list[Any] = []
        self.cells: dict[int, Any] = {}
        for y in range(env.grid.height):
            for x in range(env.grid.width):
                if (found := env.grid.get(x, y)) is not None:
                    self.cells[self.to_cell((x, y))] = found
                    self._number(found)
        if env.carrying is not None:
            self._number(env.carrying)

    def _number(self, found: Any) -> None:
        if found.type == "wall":
            return
        self.numbers[id(found)] = len(self.objects)
        self.objects.append(found)
        if found.contains is not None:
            self._number(found.contains)

    def to_cell(self, at: Any) -> int:
        x, y = int(at[0]) + PAD, int(at[1]) + PAD
        return y * self.width + x

    def build_start(self) -> Start:
        env, numbers = self.env, self.numbers
        doors = {numbers[id(o)]: _read_state(o) for o in self.objects if o.type == "door"}
        holds = {
            numbers[id(o)]: numbers[id(o.contains)] for o in self.objects if o.contains is not None
        }
        things = {
            cell: numbers[id(found)] for cell, found in self.cells.items() if found.type != "wall"
        }
        return Start(
            width=self.width,
            opaque=self._mark_cells(lambda found: not found.see_behind()),
            blocked=self._mark_cells(lambda found: not found.can_overlap()),
            things=things,
            kinds=tuple(o.type for o in self.objects),
            colors=tuple(o.color for o in self.objects),
            doors=doors,
            inside=holds,
            at=self.to_cell(env.agent_pos),
            face=int(env.agent_dir),
            held=NOBODY if env.carrying is None else numbers[id(env.carrying)],
            most=int(env.max_steps),
            mission=env.mission,
            goal=self.parse_goal(env.instrs),
        )

    def _mark_cells(self, holds: Any) -> bytes:
        rows = self.env.grid.height + 2 * PAD
        marks = bytearray(b"1" * (self.width * rows))
        for y in range(self.env.grid.height):
            for x in range(self.env.grid.width):
                cell = self.to_cell((x, y))
                found = self.cells.get(cell)
                marks[cell] = ord("1") if found is not None and holds(found) else ord("0")
        return bytes(marks)

    def parse_goal(self, said: Any) -> tuple[Any, ...]:
        """The instruction as nested tuples: kind, then targets or parts, then strictness."""
        if isinstance(said, verifier.GoToInstr):
            return ("go to", self.parse_target(said.desc))
        if isinstance(said, verifier.OpenInstr):
            return ("open", self.parse_target(said.desc), said.strict)
        if isinstance(said, verifier.PickupInstr):
            return ("pick up", self.parse_target(said.desc), said.strict)
        if isinstance(said, verifier.PutNextInstr):
            return ("put", self.parse_target(said.desc_move), self.parse_target(said.desc_fixed))
        first, second = self.parse_goal(said.instr_a), self.parse_goal(said.instr_b)
        if isinstance(said, verifier.AndInstr):
            return ("and", first, second)
        # "a after you b" is "b, then a"
        is_reversed = isinstance(said, verifier.AfterInstr)
        return ("then", second, first) if is_reversed else ("then", first, second)

    def parse_target(self, said: Any) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """The words for it, the things that fit, and where they lie."""
        words = " ".join(filter(None, (said.color, said.type or "object")))
        things = tuple(self.numbers[id(o)] for o in said.obj_set if id(o) in self.numbers)
        return words, things, tuple(self.to_cell(at) for at in said.obj_poss)


def _read_state(door: Any) -> str:
    if door.is_open:
        return "open"
    return "locked" if door.is_locked else "closed"
