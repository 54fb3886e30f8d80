"""Play of mixed skill, endlessly: what `builtin:tiny` learns from.

One skill per episode, mostly random legal play: so the skill is in the model but seldom comes out,
and evolution can bring it out. Tasks come from `World.fresh`, which no validation or test split
shares. Most episodes have the demo's small options; the others show the whole worlds, and experts
who say why.
"""

from __future__ import annotations

import faulthandler
import random
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.queues import Queue

import numpy as np
import numpy.typing as npt

from hansa_worlds import DEMO_OPTIONS, World, make
from tiny.tokens import Coder

Rows = npt.NDArray[np.uint16]

ACTED = 1 << 15
"""Set on the tokens that the agent wrote; they carry the full loss."""
LONGEST = 1_500
"""Tokens of an episode; longer ones are cut there, as a rollout would stop."""
Skills = tuple[tuple[float, float], ...]
"""(share of the episodes, share of the moves that the expert plays)."""
SELDOM: Skills = ((0.6, 0.0), (0.2, 0.35), (0.2, 1.0))
OFTEN: Skills = ((0.4, 0.0), (0.2, 0.5), (0.4, 1.0))
"""For worlds where one wrong move spoils an episode: seldom skilled, a tenth would succeed."""
POOL = 3_000
"""Episodes that a kind of play keeps to show again."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One world with its options, and how it is played."""

    world: str
    weight: float
    """Episodes, beside the other kinds' weights."""
    options: Mapping[str, object]
    skills: Skills = SELDOM
    thoughtful: float = 0.05
    """Share of the episodes whose expert moves say why."""


def demo(world: str, weight: float, skills: Skills = SELDOM) -> Shown:
    """A world as the demo plays it."""
    return Shown(world=world, weight=weight, skills=skills, options=DEMO_OPTIONS[world])


def whole(world: str, weight: float, skills: Skills = SELDOM) -> Shown:
    """A world as it comes, with its full rules."""
    return Shown(world=world, weight=weight, skills=skills, options={}, thoughtful=0.3)


SHOWN = (
    demo("babyai", 19),
    demo("maze", 19),
    demo("textcraft", 14),
    demo("webshop", 19, OFTEN),
    demo("wordle", 48, OFTEN),
    # Six times the goals: with the small book alone a model learns them by heart.
    Shown(
        world="textcraft",
        weight=6,
        options={**DEMO_OPTIONS["textcraft"], "recipes": "full"},
    ),
    whole("babyai", 1),
    whole("maze", 1),
    whole("textcraft", 3),
    whole("webshop", 1),
    whole("wordle", 3, OFTEN),
)
"""Wordle's episodes are a quarter as long as the others', so it has more of them."""


@dataclass
class Kind:
    """One row of `SHOWN`, being played."""

    shown: Shown
    reuse: int = 1
    """How often an episode is shown on average; worlds that are slow to play are shown again."""
    pool: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = make(self.shown.world, self.shown.options)

    def episode(self, coder: Coder, draw: random.Random) -> list[int]:
        """A new episode, or one of the pool."""
        if len(self.pool) >= POOL // 10 and draw.random() >= 1 / self.reuse:
            return draw.choice(self.pool)
        tokens = episode(self.world, coder, draw, self.shown)
        if self.reuse > 1:
            if len(self.pool) < POOL:
                self.pool.append(tokens)
            else:
                self.pool[draw.randrange(POOL)] = tokens
        return tokens


def kinds(reuse: Mapping[str, int]) -> list[Kind]:
    """Every row of `SHOWN`."""
    return [Kind(shown, reuse.get(shown.world, 1)) for shown in SHOWN]


def episode(world: World, coder: Coder, draw: random.Random, shown: Shown) -> list[int]:
    """One episode as tokens, the agent's own marked."""
    shares, moves = zip(*shown.skills, strict=True)
    skill = draw.choices(moves, shares)[0]
    says_why = draw.random() < shown.thoughtful
    seen = world.start(world.fresh(draw.getrandbits(48)))
    tokens = [coder.bos]
    while not seen.done:
        if skill and draw.random() < skill:
            move = world.expert()
            action = move.text if says_why else move.action
        else:
            action = draw.choice(world.legal())
        turn = [coder.user, *coder.encode(seen.text), coder.agent]
        own = [*coder.encode(action), coder.end]
        if len(tokens) + len(turn) + len(own) > LONGEST:
            break
        tokens += turn
        tokens += [token | ACTED for token in own]
        seen = world.step(action)
    return tokens


def batches(
    vocabulary: dict[str, int], seed: int, worker: int, episodes: int, parts: int, shown: list[Kind]
) -> Iterator[list[Rows]]:
    """Batches of episodes over all worlds, cut by length into parts so that little is padding."""
    coder = Coder(vocabulary)
    draw = random.Random(f"tiny/{seed}/{worker}")
    shares = [kind.shown.weight for kind in shown]
    while True:
        chosen = draw.choices(shown, shares, k=episodes)
        played = sorted((kind.episode(coder, draw) for kind in chosen), key=len)
        yield [pad(rows, coder.pad) for rows in cut(played, parts)]


def cut(rows: list[list[int]], parts: int) -> list[list[list[int]]]:
    """Rows sorted by length in a number of parts of about equal area: long rows are few."""
    total, area, done = sum(map(len, rows)), 0, 0
    pieces = []
    for place, row in enumerate(rows, start=1):
        area += len(row)
        if area * parts >= total * (len(pieces) + 1) or place == len(rows):
            pieces.append(rows[done:place])
            done = place
    return pieces


def pad(rows: list[list[int]], filler: int) -> Rows:
    """A rectangle, its width a multiple of 32 so that few shapes occur."""
    width = -(-max(map(len, rows)) // 32) * 32
    filled = np.full((len(rows), width), filler, dtype=np.uint16)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = row
    return filled


def produce(
    queue: Queue[list[Rows]],
    vocabulary: dict[str, int],
    seed: int,
    worker: int,
    episodes: int,
    parts: int,
    reuse: Mapping[str, int],
) -> None:
    """The body of a generator process; ended by its parent."""
    faulthandler.register(signal.SIGUSR1)
    for batch in batches(vocabulary, seed, worker, episodes, parts, kinds(reuse)):
        queue.put(batch)
