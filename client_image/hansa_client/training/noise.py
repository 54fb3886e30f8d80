"""Noise drawn ahead: a step's standard normal numbers, by processes of their own.

One core draws the noise of a step in more time than a GPU takes for it, and Python's threads are no
faster than one core: hashing holds their lock. So each process draws for some of the weights, step
after step, and waits until its numbers are read. The key goes to it by a pipe, never by a file.
"""

from __future__ import annotations

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
"""At most; a machine with fewer cores has fewer."""

Sizes = Mapping[str, int]
"""Values of each weight, by its name."""


def drawn(stream: Stream, name: str, step: int, count: int) -> NDArray[np.float64]:
    """The standard normal numbers of one weight's noise in a step."""
    return stream.normals(f"noise/{step}/{name}", count)


class NoiseAhead:
    """The noise of all weights, step by step, one weight behind another."""

    def __init__(self, pipes: Sequence[Any], counts: Sequence[int]) -> None:
        """`pipes` bring so many numbers each for every step."""
        self._pipes = pipes
        self._ends = [8 * end for end in accumulate(counts)]

    def read(self, into: NDArray[np.float64]) -> None:
        """The next step's noise; steps come in their order."""
        view, begin = into.data.cast("B"), 0
        for pipe, end in zip(self._pipes, self._ends, strict=True):
            if pipe.readinto(view[begin:end]) < end - begin:
                raise RuntimeError("a process that draws noise has ended before its last step")
            begin = end


@contextmanager
def ahead(stream: Stream, sizes: Sizes, steps: int) -> Iterator[NoiseAhead]:
    """Within, the noise of these steps is drawn while something else is done."""
    parts = shared(sizes, min(_PROCESSES, os.cpu_count() or 1))
    with ExitStack() as stack:
        pipes = []
        for part in parts:
            process = stack.enter_context(_start(stream, part, steps))
            stack.callback(process.kill)  # its work is done, or worth nothing
            pipes.append(process.stdout)
        yield NoiseAhead(pipes, [sum(part.values()) for part in parts])


def shared(sizes: Sizes, count: int) -> list[dict[str, int]]:
    """The weights in their order, cut into about equal parts, as many or fewer."""
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
    """One of the processes: draw, write, and draw the next."""
    die_with_parent(parent)
    stream, sizes, steps = pickle.load(sys.stdin.buffer)  # noqa: S301  # our parent's, by its own pipe
    for step in range(steps):
        parts = [drawn(stream, name, step, count) for name, count in sizes.items()]
        sys.stdout.buffer.write(np.concatenate(parts).data)


if __name__ == "__main__":
    main(int(sys.argv[1]))
