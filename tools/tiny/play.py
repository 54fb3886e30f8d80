"""Play of mixed skill, endlessly: what `builtin:tiny` learns from.

One skill per episode: 60 % random legal play, 20 % where the expert plays 35 % of the moves,
20 % expert. So the skill is in the model but seldom comes out, and evolution can bring it out.
Tasks come from `World.fresh`, which no validation or test split shares.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from multiprocessing.queues import Queue

import numpy as np
import numpy.typing as npt

from hansa_client.worlds import DEMO_OPTIONS, World, make
from tiny.tokens import Coder

Rows = npt.NDArray[np.uint16]

ACTED = 1 << 15
"""Set on the tokens that the agent wrote; they carry the full loss."""
LONGEST = 512
SKILLS = ((0.6, 0.0), (0.2, 0.35), (0.2, 1.0))
"""(share of the episodes, share of the moves that the expert plays)."""


def episode(world: World, coder: Coder, seed: int, draw: random.Random) -> list[int]:
    """One episode as tokens, the agent's own marked."""
    skill = draw.choices([moves for _, moves in SKILLS], [share for share, _ in SKILLS])[0]
    seen = world.start(world.fresh(seed))
    tokens = [coder.bos]
    while not seen.done:
        wise = skill and draw.random() < skill
        action = world.expert() if wise else draw.choice(world.legal())
        tokens.append(coder.user)
        tokens += coder.encode(seen.text)
        tokens.append(coder.agent)
        tokens += [token | ACTED for token in coder.encode(action)]
        tokens.append(coder.end | ACTED)
        seen = world.step(action)
    return tokens


def batches(
    vocabulary: dict[str, int], seed: int, worker: int, episodes: int, parts: int
) -> Iterator[list[Rows]]:
    """Batches of episodes over all worlds, cut by length into parts so that little is padding."""
    coder = Coder(vocabulary)
    worlds = [make(name, DEMO_OPTIONS[name]) for name in sorted(DEMO_OPTIONS)]
    draw = random.Random(f"tiny/{seed}/{worker}")
    while True:
        played: list[list[int]] = []
        while len(played) < episodes:
            world = worlds[len(played) % len(worlds)]
            tokens = episode(world, coder, draw.getrandbits(48), draw)
            if len(tokens) <= LONGEST:
                played.append(tokens)
        played.sort(key=len)
        size = episodes // parts
        yield [pad(played[i : i + size], coder.pad) for i in range(0, episodes, size)]


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
) -> None:
    """The body of a generator process; ended by its parent."""
    for batch in batches(vocabulary, seed, worker, episodes, parts):
        queue.put(batch)
