"""What a mission asks for, judged after every step as MiniGrid's verifier judges it."""

from typing import Any, Literal

from hansa_worlds.babyai.grid import DROP, NOBODY, PICKUP, TOGGLE, Grid

Status = Literal["continue", "success", "failure"]


class Target:
    """The things that a description fits, and where they were when last looked for."""

    def __init__(self, said: tuple[str, tuple[int, ...], tuple[int, ...]]) -> None:
        self.words, self.things, self.cells = said

    def refresh(self, grid: Grid) -> None:
        """Look again; MiniGrid does so after a drop only, and so a thing in hand keeps its cell."""
        self.cells = tuple(cell for cell, thing in grid.things.items() if thing in self.things)


class Goal:
    """One thing to do; `judge` is called once after every step, and remembers."""

    def __init__(self, *targets: Target) -> None:
        self.targets = targets
        self.target = targets[0]
        """The only target, or the first."""

    def judge(self, grid: Grid, action: int) -> Status:
        """Whether the step just made reaches or spoils the goal."""
        raise NotImplementedError

    def refresh(self, grid: Grid) -> None:
        """Look for the things again."""
        for target in self.targets:
            target.refresh(grid)


class GoTo(Goal):
    """Stand before a thing and face it."""

    def judge(self, grid: Grid, action: int) -> Status:
        """Success when a cell is faced, after any action."""
        return "success" if grid.front in self.target.cells else "continue"


class Open(Goal):
    """Open a door oneself: one that is open already does not count."""

    def __init__(self, target: Target, strict: bool) -> None:
        super().__init__(target)
        self.strict = strict

    def judge(self, grid: Grid, action: int) -> Status:
        """Toggled and open now; strict missions fail with any other door."""
        if action != TOGGLE:
            return "continue"
        thing = grid.things.get(grid.front, NOBODY)
        if thing in self.target.things and grid.doors[thing] == "open":
            return "success"
        return "failure" if self.strict and thing in grid.doors else "continue"


class PickUp(Goal):
    """Take a thing into an empty hand."""

    def __init__(self, target: Target, strict: bool) -> None:
        super().__init__(target)
        self.strict = strict
        self.before = NOBODY

    def judge(self, grid: Grid, action: int) -> Status:
        """Picked up by this very step; strict missions fail with any other thing."""
        before, self.before = self.before, grid.held
        if action != PICKUP:
            return "continue"
        if before == NOBODY and grid.held in self.target.things:
            return "success"
        return "failure" if self.strict and grid.held != NOBODY else "continue"


class PutNext(Goal):
    """Drop a thing beside another one; corners do not touch."""

    def __init__(self, moved: Target, fixed: Target) -> None:
        super().__init__(moved, fixed)
        self.moved, self.fixed = moved, fixed
        self.before = NOBODY

    def judge(self, grid: Grid, action: int) -> Status:
        """Dropped by this very step, and held at the step before."""
        before, self.before = self.before, grid.held
        if action != DROP or before not in self.moved.things or grid.held != NOBODY:
            return "continue"
        beside = {grid.front + way for way in grid.ways}
        return "success" if beside.intersection(self.fixed.cells) else "continue"


class TwoGoals(Goal):
    """Two goals."""

    def __init__(self, first: Goal, second: Goal) -> None:
        super().__init__(*first.targets, *second.targets)
        self.first, self.second = first, second
        self.is_first_done = self.is_second_done = False


class Both(TwoGoals):
    """Two goals in any order."""

    def judge(self, grid: Grid, action: int) -> Status:
        """Each is judged until it is done."""
        if not self.is_first_done:
            self.is_first_done = self.first.judge(grid, action) == "success"
        if not self.is_second_done:
            self.is_second_done = self.second.judge(grid, action) == "success"
        return "success" if self.is_first_done and self.is_second_done else "continue"


class Then(TwoGoals):
    """Two goals in order; the step that reaches the first may reach the second too.

    MiniGrid lets that step spoil the second as well: with two strict goals, the first door opened
    is at once a wrong one for the second, and such missions of level 16 could never be reached.
    Here a step that reaches something spoils nothing.
    """

    def judge(self, grid: Grid, action: int) -> Status:
        """The second is not looked at before the first is done."""
        if not self.is_first_done:
            status = self.first.judge(grid, action)
            if status != "success":
                return status
            self.is_first_done = True
            return "success" if self.second.judge(grid, action) == "success" else "continue"
        return self.second.judge(grid, action)


def build_goal(said: Any) -> Goal:
    """A goal to be played from the nested tuples of Start.goal."""
    if said[0] == "go to":
        return GoTo(Target(said[1]))
    if said[0] == "open":
        return Open(Target(said[1]), said[2])
    if said[0] == "pick up":
        return PickUp(Target(said[1]), said[2])
    if said[0] == "put":
        return PutNext(Target(said[1]), Target(said[2]))
    kind = Both if said[0] == "and" else Then
    return kind(build_goal(said[1]), build_goal(said[2]))
