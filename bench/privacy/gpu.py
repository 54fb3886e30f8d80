"""Private training on a GPU: are the gradients of a packed row right, and what do they cost?

    python bench/privacy/gpu.py --out gpu.json          # SmolLM2-135M's shape, drawn weights
    python bench/privacy/gpu.py --model path:FOLDER --out gpu.json

Prints JSON. *check*: each trajectory's gradient from a recorded row of all of them, from a packed
row that is not recorded, from a row of its own, and alone in fp32, which is nearest to the truth.
In bf16 they differ by rounding: a row may be no further from fp32 than the others are, by TWICE.
And when one trajectory of the row is another one, the gradients of all the rest must stay what they
were. *sums*: clipped sums of recorded rows beside those of rows that are not, for lots of several
sizes, after the weights have moved, and again; *mixed* does so for secret lots of many lengths, and
times them. *time*: steps of 32 trajectories, plain and private, with CUDA graphs and without;
medians. What fails is in its place, with a traceback.
"""

import argparse
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as the client sets it
sys.path.append(str(Path(__file__).parents[1] / "train"))

import numpy as np
import torch
from gpu_check import SHAPE, check, checked_mix, checked_sums, mixed_lesson, moved
from private import lesson_of  # type: ignore[import-not-found]  # of bench/train

from hansa_client import learners
from hansa_client.learners import TrainingSet
from hansa_client.learners.private import PackedGradients
from hansa_client.models import base_model
from hansa_client.models.base_model import Base
from hansa_client.training import noise, scoring
from tools.pages import kept, privacy_tables

WARM = 6
"""Steps that only warm up: the first ones record CUDA graphs."""
EAGER = 10
"""Steps without CUDA graphs, at most: they are slow."""


def drawn(given: argparse.Namespace) -> Base:
    """The model: a folder's, or one of SmolLM2-135M's shape with drawn weights."""
    if given.model:
        return base_model.load(given.model, base_model.resolve(given.model), 1)
    from transformers import AutoModelForCausalLM, LlamaConfig

    is_gpu = torch.cuda.is_available()
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.manual_seed(0)
    config = LlamaConfig(  # type: ignore[call-arg]
        vocab_size=given.vocabulary,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=given.layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rope_theta=100_000.0,
        tie_word_embeddings=True,
    )
    device = torch.device("cuda" if is_gpu else "cpu")
    with device:
        model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.bfloat16 if is_gpu else torch.float32
        )
    return Base(model.requires_grad_(False).eval(), None, device)  # type: ignore[arg-type]


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(base: Base, lesson: TrainingSet) -> float:
    """Median of a step."""
    times: list[float] = []

    def tick(*_: int) -> None:
        synchronize()
        times.append(time.perf_counter())

    tick()
    learners.get("success-sft")(base, lesson, tick)
    skipped = min(WARM, len(times) // 2)
    return float(statistics.median(np.diff(times)[skipped:].tolist()))


@contextmanager
def watched(owner: type, name: str, spent: list[float]) -> Iterator[None]:
    """Within, how long a method takes."""
    usual = getattr(owner, name)

    def timed(*given: Any) -> Any:
        synchronize()
        began = time.perf_counter()
        made = usual(*given)
        synchronize()
        spent.append(time.perf_counter() - began)
        return made

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, usual)


@contextmanager
def without_graphs() -> Iterator[None]:
    usual, scoring.MANY = scoring.MANY, 10**9
    try:
        yield
    finally:
        scoring.MANY = usual


def median(spent: list[float]) -> float:
    return statistics.median(spent[min(WARM, len(spent) // 2) :] or [0.0])


def timed(base: Base, length: int, steps: int) -> dict[str, Any]:
    """Seconds of a step in each way."""

    def lesson(steps: int, *, private: bool) -> TrainingSet:
        made: TrainingSet = lesson_of(base, length, SHAPE, private=private, steps=steps)
        return made

    plain = seconds(base, lesson(steps, private=False))
    with without_graphs():
        eager = seconds(base, lesson(min(EAGER, steps), private=False))
        private_eager = seconds(base, lesson(min(EAGER, steps), private=True))
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    own = seconds(base, lesson(steps, private=True))
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    gradients: list[float] = []
    reading: list[float] = []
    recording: list[float] = []
    with (
        watched(PackedGradients, "add_up", gradients),
        watched(noise.NoiseAhead, "read", reading),
        watched(PackedGradients, "expect", recording),
    ):
        seconds(base, lesson(steps, private=True))
    return {
        "length": length,
        "plain": plain,
        "plainWithoutGraphs": eager,
        "private": own,
        "privateWithoutGraphs": private_eager,
        "privateGradients": median(gradients),
        "privateNoise": median(reading),
        "privateNoiseAndStep": own - median(gradients),
        "privateRecording": sum(recording),
        "times": own / plain,
        "timesWithoutGraphs": private_eager / eager,
        "peakBytes": peak,
    }


def timed_mix(base: Base) -> dict[str, Any]:
    """Seconds of a private step of many lengths."""
    with without_graphs():
        eager = seconds(base, mixed_lesson(base, EAGER))
    own = seconds(base, mixed_lesson(base, 2 * EAGER))
    return {"private": own, "privateWithoutGraphs": eager}


def noise_alone(base: Base, steps: int) -> dict[str, Any]:
    """Seconds in which a step's noise is drawn, where nothing else is done."""
    protection = lesson_of(base, 27, SHAPE, private=True).private
    assert protection
    sizes = {name: array.size for name, array in moved(base).items()}
    into, times = np.zeros(sum(sizes.values())), []
    with noise.draw_ahead(protection.stream, sizes, steps) as coming:
        for _ in range(steps):
            coming.read(into)
            times.append(time.perf_counter())
    return {"cores": os.cpu_count(), "seconds": statistics.median(np.diff(times).tolist())}


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def main() -> None:
    """Check and time, and print what came of both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--model", default="", help="a folder as path:FOLDER; absent: drawn weights"
    )
    parser.add_argument("--layers", type=int, default=30, help="of the drawn model")
    parser.add_argument("--vocabulary", type=int, default=49152, help="of the drawn model")
    parser.add_argument("--lengths", type=int, nargs="+", default=[27, 104, 400])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, help="write the JSON there, too")
    parser.add_argument("--json", type=Path, help="write what pages show of it there")
    given = parser.parse_args()
    base = drawn(given)
    document: dict[str, Any] = {
        "device": _device(),
        "torch": torch.__version__,
        "machine": f"{_device()}, {os.cpu_count()} cores, torch {torch.__version__}",
        "packs": scoring.can_pack(base.model, base.device),
        "values": sum(a.size for a in moved(base).values()),
    }
    parts: dict[str, Callable[[int], dict[str, Any]]] = {
        "sums": lambda length: checked_sums(base, length),
        "time": lambda length: timed(base, length, given.steps),
        "check": lambda length: check(base, length),
    }
    document["noise"] = tried(lambda: noise_alone(base, given.steps))
    document["mixed"] = [tried(lambda: checked_mix(base)), tried(lambda: timed_mix(base))]
    for name, measure in parts.items():
        document[name] = []
        for length in given.lengths:
            began = time.perf_counter()
            made = tried(partial(measure, length))
            took = round(time.perf_counter() - began, 1)
            document[name].append({"length": length, **made, "took": took})
            print(name, length, took, "s", file=sys.stderr, flush=True)
            if given.out:
                given.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))
    if given.json:
        kept.write(given.json, privacy_tables.gpu_document(document))


def tried(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What it gives; one that fails must not hide the others."""
    try:
        return measure()
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    main()
