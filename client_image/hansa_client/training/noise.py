"""Noise drawn ahead: a step's standard normal numbers, drawn by several processes.

One core takes longer to draw a step's noise than a GPU takes for the step, and threads do not help:
hashing holds the GIL. So each process draws for some of the weights, step after step, and waits
until its numbers are read. It gets the key through a pipe, never in a file.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hansa.runtime.lifeline import die_with_parent
from hansa_client.privacy import Stream

_PROCESSES = 8
"""Maximum number; at most one for each core."""

Sizes = Mapping[str, int]
"""Values of each weight, by its name."""


def draw_normals(stream: Stream, name: str, step: int, count: int) -> NDArray[np.float64]:
    """The standard normal numbers of one weight's noise in a step."""
    return stream.draw_normals(f"noise/{step}/{name}", count)


class NoiseAhead:
    """The noise of all weights as one vector, step by step."""

    def __init__(self, pipes: Sequence[Any], counts: Sequence[int]) -> None:
        """For every step each pipe has as many numbers as `counts` says."""
        self._pipes = pipes
        self._ends = [8 * end for end in accumulate(counts)]

    def read(self, into: NDArray[np.float64]) -> None:
        """Read the next step's noise."""
        view, begin = into.data.cast("B"), 0
        for pipe, end in zip(self._pipes, self._ends, strict=True):
            if pipe.readinto(view[begin:end]) < end - begin:
                raise RuntimeError("a process that draws noise has ended before its last step")
            begin = end


@contextmanager
def draw_ahead(stream: Stream, sizes: Sizes, steps: int) -> Iterator[NoiseAhead]:
    """Within, other processes draw the noise of these steps."""
    parts = split_weights(sizes, min(_PROCESSES, os.cpu_count() or 1))
    with ExitStack() as stack:
        pipes = []
        for part in parts:
            process = stack.enter_context(_start(stream, part, steps))
            stack.callback(process.kill)  # its numbers are not needed any more
            pipes.append(process.stdout)
        yield NoiseAhead(pipes, [sum(part.values()) for part in parts])


def split_weights(sizes: Sizes, count: int) -> list[dict[str, int]]:
    """The weights in order, split into at most `count` parts of about equal size."""
    total = sum(sizes.values())
    befores = accumulate(sizes.values(), initial=0)
    of_each = [
        (before * count // total, name) for before, name in zip(befores, sizes, strict=False)
    ]
    return [
        {name: sizes[name] for _, name in part}
        for _, part in groupby(of_each, key=lambda both: both[0])
    ]


def _start(stream: Stream, part: Sizes, steps: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", __name__, str(os.getpid())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if process.stdin:
        pickle.dump((stream, dict(part), steps), process.stdin)
        process.stdin.close()
    return process


def main(parent: int) -> None:
    """One of the processes: draw and write the noise of each step."""
    die_with_parent(parent)
    stream, sizes, steps = pickle.load(sys.stdin.buffer)  # noqa: S301  # our parent's, by its own pipe
    for step in range(steps):
        parts = [draw_normals(stream, name, step, count) for name, count in sizes.items()]
        sys.stdout.buffer.write(np.concatenate(parts).data)


if __name__ == "__main__":
    main(int(sys.argv[1]))
