"""Faults: a world's failure in an episode as exception, file and line, without a word of the text.

What a world raises may quote what the agent wrote or read, and a silo's text stays in the silo. So
an exception's own message is never kept, unless it is a sentence about the world's surroundings.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

from hansa.core.errors import WorldBroken
from hansa.core.text import shorten
from hansa_worlds import Observation, OptionError, Prompt, World, WorldDown, WorldError

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
    """A sentence that is known to hold nothing of the episode."""
    is_world: bool = True
    """Whether the world failed, or who writes the agent's turns."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}" + (f" ({self.said})" if self.said else "")


@dataclass(frozen=True)
class WorldAnswer:
    """What a world answered, as plain data."""

    text: str
    """What the agent reads next."""
    reward: float
    """What its last action earned."""
    done: bool
    """Whether the episode is over."""
    success: bool
    """Whether its goal is reached."""
    prompt: Prompt | None = None
    """The chat to read instead of the text."""
    called: Sequence[Mapping[str, object]] = ()
    """Tools that the last action called."""
    violations: int | None = None
    """How often the episode has broken a rule so far; None: its world has none."""


def checked(answer: object, world: World) -> WorldAnswer:
    """A world's answer; what does not fit raises here, where it costs no more than its episode."""
    if not isinstance(answer, Observation) or not isinstance(answer.text, str):
        raise BadAnswer("its answer is no Observation with text")
    if not _is_number(answer.reward):
        raise BadAnswer("its reward is no finite number")
    try:
        answer.text.encode()
    except UnicodeEncodeError:
        raise BadAnswer("its text is no valid Unicode") from None
    return WorldAnswer(
        answer.text,
        float(answer.reward),
        bool(answer.done),
        bool(world.success),
        answer.prompt,
        answer.called,
        _violations(world),
    )


def _violations(world: World) -> int | None:
    if not world.has_rules:
        return None
    count = world.violations
    if type(count) is not int or not 0 <= count <= MOST_VIOLATIONS:
        raise BadAnswer("its violations are no whole number from 0")
    return count


def _is_number(reward: object) -> bool:
    """Whether it is finite: numpy's numbers are, too."""
    try:
        return math.isfinite(reward)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def close(world: World) -> None:
    """Give back what a world holds; its episodes are over, so a failure changes nothing."""
    with contextlib.suppress(Exception):
        world.close()


def of(error: BaseException, world: World) -> Fault:
    """What may be said of an exception: its type, and the deepest line of the world's own package.

    A fault deep in a library is placed where the world called it, which is what its author can fix.
    """
    package = type(world).__module__.partition(".")[0]
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [(f, line) for f, line in frames if _module(f).partition(".")[0] == package]
    if isinstance(error, BadAnswer) or not frames:
        where = f"{type(world).__module__}.{type(world).__qualname__}"
    else:
        where = _place(*(own or frames)[-1])
    public = isinstance(error, BadAnswer | OptionError | WorldDown)
    said = shorten(error, _LONGEST) if public else ""
    return Fault(type(error).__name__[:80], where, said)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _place(frame: FrameType, line: int) -> str:
    """The file as its package knows it: folders of this machine are nobody's business."""
    file = frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    parts = _module(frame).split(".")
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
                f"expected at most {self.share:.4g} of them: {summary(self.faults)}",
                hint=hint,
            )


def summary(faults: list[Fault]) -> str:
    """The commonest faults, each with its number."""
    counts = sorted(Counter(map(str, faults)).items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{count} times {fault}" if count > 1 else fault for fault, count in counts[:_SHOWN]]
    more = len(counts) - _SHOWN
    return "; ".join(shown) + (f"; and {more} others" if more > 0 else "")
