"""Play of mixed skill, endlessly: what `builtin:tiny` learns from.

One skill per episode: 60 % random legal play, 20 % where the expert plays 35 % of the moves,
20 % expert. So the skill is in the model but seldom comes out, and evolution can bring it out.
Tasks come from `World.fresh`, which no validation or test split shares. Most episodes have the
demo's small options; the others show the whole worlds, and experts who say why.
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

from hansa_client.worlds import DEMO_OPTIONS, World, make
from tiny.tokens import Coder

Rows = npt.NDArray[np.uint16]

ACTED = 1 << 15
"""Set on the tokens that the agent wrote; they carry the full loss."""
LONGEST = 1_500
"""Tokens of an episode; longer ones are cut there, as a rollout would stop."""
SKILLS = ((0.6, 0.0), (0.2, 0.35), (0.2, 1.0))
"""(share of the episodes, share of the moves that the expert plays)."""
POOL = 3_000
"""Episodes that a kind of play keeps to show again."""


@dataclass
class Kind:
    """One world with its options, and how much of it is shown."""

    world: World
    share: float
    """Of the episodes."""
    thoughtful: float
    """Share of the episodes whose expert moves say why."""
    reuse: int = 1
    """How often an episode is shown on average; worlds that are slow to play are shown again."""
    pool: list[list[int]] = field(default_factory=list)

    def episode(self, coder: Coder, draw: random.Random) -> list[int]:
        """A new episode, or one of the pool."""
        if len(self.pool) >= POOL // 10 and draw.random() >= 1 / self.reuse:
            return draw.choice(self.pool)
        tokens = episode(self.world, coder, draw, self.thoughtful)
        if self.reuse > 1:
            if len(self.pool) < POOL:
                self.pool.append(tokens)
            else:
                self.pool[draw.randrange(POOL)] = tokens
        return tokens


def kinds(whole: float, reuse: Mapping[str, int]) -> list[Kind]:
    """The demo's worlds, and the whole ones with a share of all episodes."""
    names = sorted(DEMO_OPTIONS)
    small = [
        Kind(make(name, DEMO_OPTIONS[name]), (1 - whole) / len(names), 0.05, reuse.get(name, 1))
        for name in names
    ]
    large = [Kind(make(name), whole / len(names), 0.3, reuse.get(name, 1)) for name in names]
    return small + large


def episode(world: World, coder: Coder, draw: random.Random, thoughtful: float) -> list[int]:
    """One episode as tokens, the agent's own marked."""
    skill = draw.choices([moves for _, moves in SKILLS], [share for share, _ in SKILLS])[0]
    says_why = draw.random() < thoughtful
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
    shares = [kind.share for kind in shown]
    while True:
        chosen = draw.choices(shown, shares, k=episodes)
        played = sorted((kind.episode(coder, draw) for kind in chosen), key=len)
        yield [pad(rows, coder.pad) for rows in cut(played, parts)]


def cut(rows: list[list[int]], parts: int) -> list[list[list[int]]]:
    """Rows sorted by length in so many parts of about equal area: long rows are few."""
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
    whole: float,
    reuse: Mapping[str, int],
) -> None:
    """The body of a generator process; ended by its parent."""
    faulthandler.register(signal.SIGUSR1)
    for batch in batches(vocabulary, seed, worker, episodes, parts, kinds(whole, reuse)):
        queue.put(batch)
