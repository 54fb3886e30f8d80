"""What spec.privacy costs in training: the same trajectories, plain and with clipping and noise.

    python bench/train/private.py [--model hf:org/name@revision]

Both take steps of the same 32 trajectories; seconds are medians over the steps.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np

from hansa.adapter import lora as adapter
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.learners import TrainingSet
from hansa_client.learners.private import Protection
from hansa_client.models import base_model, lora
from hansa_client.privacy import Stream
from hansa_client.trajectory import Sequence

MANY = 32
STEPS = 7


def lesson_of(
    base: Any, length: int, shape: Adapter, *, private: bool, steps: int = STEPS
) -> TrainingSet:
    """Steps of all trajectories, each of about this many tokens."""
    drawn = np.random.default_rng(3)
    sizes = drawn.integers(int(0.8 * length), int(1.2 * length) + 1, MANY).tolist()
    sequences = [
        Sequence(drawn.integers(1, 300, size).tolist(), [place % 4 > 0 for place in range(size)])
        for size in sizes
    ]
    start = adapter.init_adapter(lora.shapes(base.model, shape), shape.rank, 7)
    room = MANY * max(sizes)
    return TrainingSet(
        sequences=sequences,
        start=start,
        adapter=shape,
        training=Training(max_steps=steps, epochs=steps, batch_tokens=room, max_length=4096),
        seed=5,
        private=Protection(
            units=[[index] for index in range(MANY)],
            rate=1.0,
            steps=steps,
            clip=0.5,
            noise=1.0,
            divisor=float(MANY),
            stream=Stream(b"k" * 32, "bench"),
        )
        if private
        else None,
    )


def seconds(base: Any, lesson: TrainingSet) -> float:
    """Of one step, without the first; on a CPU its own time, whatever runs beside it."""
    clock = time.process_time if base.device.type == "cpu" else time.perf_counter
    times = [clock()]
    learners.get("success-sft")(base, lesson, lambda *_: times.append(clock()))
    return float(statistics.median(np.diff(times)[1:].tolist()))


def main() -> None:
    """Print one line for each length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--lengths", type=int, nargs="+", default=[27, 104, 400])
    given = parser.parse_args()
    base = base_model.load(given.model, base_model.resolve(given.model), 1)
    print("tokens  plain s  private s  times")
    for length in given.lengths:
        both = [
            seconds(base, lesson_of(base, length, Adapter(), private=private))
            for private in (False, True)
        ]
        print(f"{length:>6}  {both[0]:>7.3f}  {both[1]:>9.3f}  {both[1] / both[0]:>5.2f}")


if __name__ == "__main__":
    main()
