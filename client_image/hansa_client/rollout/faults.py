"""Faults: a world's failure in an episode as exception, file and line, without a word of the text.

What a world raises may quote what the agent wrote or read, and a silo's text stays in the silo. So
an exception's own message is never kept, unless it is a sentence about the world's surroundings.
"""

import contextlib
import math
import traceback
from collections import Counter
from dataclasses import dataclass, field
from types import FrameType

from hansa.core.errors import WorldBroken
from hansa.core.text import shorten
from hansa_worlds import Observation, OptionError, World, WorldDown, WorldError

MOST_VIOLATIONS = 10**9
_SHOWN = 3
_LONGEST = 200


class BadAnswer(WorldError):
    """A world answered with something that is no observation; the message says what was wrong."""


@dataclass(frozen=True)
class Fault:
    """One failure of a world, or of the endpoint that writes the agent's turns."""

    kind: str
    """Name of the exception's type."""
    place: str
    """File inside its package, and line: `tickets/world.py:41`."""
    said: str = ""
    """A sentence without any text of the episode."""
    is_world: bool = True
    """True: the world failed; False: the endpoint that writes the agent's turns."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}" + (f" ({self.said})" if self.said else "")


@dataclass(frozen=True, kw_only=True)
class WorldAnswer(Observation):
    """A checked observation, and where the episode stands after it."""

    success: bool
    """Whether its goal is reached."""
    violations: int | None = None
    """How often the episode has broken a rule so far; None: its world has none."""


def check_answer(answer: object, world: World) -> WorldAnswer:
    """A world's answer; an invalid one raises here, and costs no more than its episode."""
    if not isinstance(answer, Observation) or not isinstance(answer.text, str):
        raise BadAnswer("its answer is no Observation with text")
    if not _is_number(answer.reward):
        raise BadAnswer("its reward is no finite number")
    try:
        answer.text.encode()
    except UnicodeEncodeError:
        raise BadAnswer("its text is not valid Unicode") from None
    return WorldAnswer(
        text=answer.text,
        reward=float(answer.reward),
        done=bool(answer.done),
        prompt=answer.prompt,
        called=answer.called,
        success=bool(world.success),
        violations=_read_violations(world),
    )


def _read_violations(world: World) -> int | None:
    if not world.has_rules:
        return None
    count = world.violations
    if type(count) is not int or not 0 <= count <= MOST_VIOLATIONS:
        raise BadAnswer("its violations are no whole number from 0")
    return count


def _is_number(reward: object) -> bool:
    """Whether it is a finite number, of Python or NumPy."""
    try:
        return math.isfinite(reward)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def close(world: World) -> None:
    """Close a world; its episodes are over, so a failure is ignored."""
    with contextlib.suppress(Exception):
        world.close()


def describe_fault(error: BaseException, world: World) -> Fault:
    """The public part of an exception: its type, and the deepest line of the world's own package.

    A fault deep in a library is placed where the world called it, which is what its author can fix.
    """
    package = type(world).__module__.partition(".")[0]
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [(f, line) for f, line in frames if _get_module(f).partition(".")[0] == package]
    if isinstance(error, BadAnswer) or not frames:
        where = f"{type(world).__module__}.{type(world).__qualname__}"
    else:
        where = _locate(*(own or frames)[-1])
    public = isinstance(error, BadAnswer | OptionError | WorldDown)
    said = shorten(error, _LONGEST) if public else ""
    return Fault(type(error).__name__[:80], where, said)


def _get_module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _locate(frame: FrameType, line: int) -> str:
    """The file's path inside its package: folders of this machine are not published."""
    file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    parts = _get_module(frame).split(".")
    folders = parts if file == "__init__.py" else parts[:-1]
    return "/".join([*folders, file]) + f":{line}"


@dataclass
class FaultTally:
    """Counts the broken episodes of a phase, and ends it when they are too many."""

    episodes: int
    """Episodes to play."""
    share: float
    """Share of them that may break."""
    faults: list[Fault] = field(default_factory=list)
    """What broke them, so far."""

    def add(self, world: World, fault: Fault) -> None:
        """One more; raises WorldBroken when that is one too many."""
        self.faults.append(fault)
        name = f"world {getattr(world, 'name', type(world).__name__)}"
        hint = "fix the world, or raise spec.exploration.maxBrokenEpisodes"
        of_world = sum(fault.is_world for fault in self.faults)
        if of_world < len(self.faults):
            name = f"{name} or the endpoint" if of_world else "the endpoint"
            hint = hint.replace("fix the world", "see that the endpoint answers")
        if len(self.faults) > self.share * self.episodes:
            raise WorldBroken(
                f"{name} failed in {len(self.faults)} of {self.episodes} episodes, "
                f"expected at most {self.share:.4g} of them: {summarize(self.faults)}",
                hint=hint,
            )


def summarize(faults: list[Fault]) -> str:
    """The most common faults with their counts."""
    counts = sorted(Counter(map(str, faults)).items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{count} times {fault}" if count > 1 else fault for fault, count in counts[:_SHOWN]]
    more = len(counts) - _SHOWN
    return "; ".join(shown) + (f"; and {more} others" if more > 0 else "")
