"""Private training on a GPU: are the gradients of a packed row right, and what do they cost?

    python bench/privacy/gpu.py --out gpu.json          # SmolLM2-135M's shape, drawn weights
    python bench/privacy/gpu.py --model path:FOLDER --out gpu.json

Prints JSON. *check*: each trajectory's gradient from a row of all of them, from a row of its own,
and alone in fp32, which is nearest to the truth. In bf16 they differ by rounding: a packed row may
be no further from fp32 than the others are, by TWICE. And when one trajectory of the row is another
one, the gradients of all the rest must stay what they were. *time*: steps of 32 trajectories,
plain, plain without CUDA graphs, and private; medians.
"""

import argparse
import copy
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as the client sets it
sys.path.append(str(Path(__file__).parents[1] / "train"))

import numpy as np
import torch
from private import MANY, lesson_of  # type: ignore[import-not-found]  # of bench/train

from hansa import adapter
from hansa.spec import Adapter
from hansa_client import learners
from hansa_client.learners import Lesson, loop, private
from hansa_client.learners.private import PrivateRun
from hansa_client.learners.success_sft import Imitation
from hansa_client.models import base_model, fused_layers, lora
from hansa_client.models.base_model import Base
from hansa_client.models.segments import Segments
from hansa_client.training import packing, scoring
from hansa_client.training.scoring import PackedScorer, Scorer
from hansa_client.trajectory import Sequence

SHAPE = Adapter()
TWICE = 2.0
EXACT = 1e-4
"""Largest relative error in fp32, where rounding is no excuse."""
WARM = 6
"""Steps that only warm up: the first ones record CUDA graphs."""
Gradients = list[torch.Tensor]
"""Of each trajectory all values in a row, in float64."""


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


# -- are they right -------------------------------------------------------------------------------


def moved(base: Base) -> adapter.Tensors:
    """An adapter that has left its start, so that A has gradients as well as B."""
    made = adapter.start(lora.shapes(base.model, SHAPE), SHAPE.rank, 7)
    random = np.random.default_rng(1)
    return {n: a + 0.01 * random.standard_normal(a.shape, np.float32) for n, a in made.items()}


@contextmanager
def running(base: Base, lesson: Lesson, *, packed: bool) -> Iterator[PrivateRun]:
    """A private training as `loop.train` sets it up, to be asked for gradients."""
    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, lesson.half)
    objective = Imitation(lesson)
    try:
        if not packed:
            yield loop._run(wrapped, Scorer(wrapped, base.device), lesson, objective)  # type: ignore[misc]
            return
        segments = Segments()
        with (
            fused_layers.fused(wrapped, dropout=0.0, segments=segments),
            packing.exchanged(wrapped),
        ):
            own = PackedScorer(wrapped, base.device, may_record=False)
            yield loop._run(wrapped, own, lesson, objective, segments)  # type: ignore[misc]
    finally:
        lora.detach(wrapped)


def together(base: Base, lesson: Lesson, parts: list[list[int]]) -> Gradients:
    """From packed rows of these trajectories."""
    with running(base, lesson, packed=True) as run:
        assert run.packed
        rows = [run.packed.gradients(run.weights, part) for part in parts]
    return [
        torch.cat([each[place].double().flatten() for each in row]).cpu()
        for row, part in zip(rows, parts, strict=True)
        for place in range(len(part))
    ]


def singly(base: Base, lesson: Lesson) -> Gradients:
    """One by one, padded and not packed, as any model can be."""
    with running(base, lesson, packed=False) as run:
        every = range(len(lesson.sequences))
        return [torch.cat([g.double().flatten() for g in run.gradients(i)]).cpu() for i in every]


def apart(ours: Gradients, theirs: Gradients) -> list[float]:
    """Of each trajectory, how far the gradients are apart, relative to their length."""
    both = zip(ours, theirs, strict=True)
    return [float((a - b).norm() / b.norm().clamp(min=1e-12)) for a, b in both]


def check(base: Base, length: int) -> dict[str, Any]:
    """Errors of packed rows, and whether they are rounding alone."""
    lesson = lesson_of(base, length, SHAPE, private=True)
    lesson = Lesson(**{**vars(lesson), "start": moved(base)})
    every = list(range(MANY))
    of_row = together(base, lesson, [every])
    of_rows = together(base, lesson, [[index] for index in every])
    first = lesson.sequences[0]
    strange = Sequence(list(reversed(first.tokens)), first.is_agent)
    other = Lesson(**{**vars(lesson), "sequences": [strange, *lesson.sequences[1:]]})
    beside = together(base, other, [every])
    one_by_one = singly(base, lesson)
    dtype = next(base.model.parameters()).dtype
    exact = Base(copy.deepcopy(base.model).float(), base.chat, base.device)
    truth = singly(exact, lesson)
    errors = {
        "rowToFp32": apart(of_row, truth),
        "ownRowToFp32": apart(of_rows, truth),
        "oneByOneToFp32": apart(one_by_one, truth),
        "rowToOwnRow": apart(of_row, of_rows),
        "rowToOneByOne": apart(of_row, one_by_one),
    }
    told = {name: [max(e), statistics.median(e)] for name, e in errors.items()}
    touched = max(apart(beside[1:], of_row[1:]))
    limit = TWICE * max(told["ownRowToFp32"][0], told["oneByOneToFp32"][0]) + EXACT
    return {
        "length": length,
        "dtype": str(dtype),
        "trajectories": MANY,
        "errorsMaxMedian": told,
        "othersMovedByOneExchanged": touched,
        "exchangedMoved": apart(beside[:1], of_row[:1])[0],
        "limit": limit,
        "ok": told["rowToFp32"][0] <= limit and touched <= EXACT,
    }


# -- what do they cost ----------------------------------------------------------------------------


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(base: Base, lesson: Lesson) -> float:
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
def watched(spent: dict[str, list[float]]) -> Iterator[None]:
    """Within, how long a private step computes its gradients, and how long all of it took."""
    sums = PrivateRun.sums

    def timed(run: PrivateRun, indexes: Any) -> Any:
        synchronize()
        began = time.perf_counter()
        made = sums(run, indexes)
        synchronize()
        spent["gradients"].append(time.perf_counter() - began)
        return made

    private.PrivateRun.sums = timed  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        private.PrivateRun.sums = sums  # type: ignore[method-assign]


def timed(base: Base, length: int, steps: int) -> dict[str, Any]:
    """Seconds of a step in each way."""
    usual = scoring._MANY
    plain = seconds(base, lesson_of(base, length, SHAPE, private=False, steps=steps))
    scoring._MANY = 10**9
    eager = seconds(base, lesson_of(base, length, SHAPE, private=False, steps=steps))
    scoring._MANY = usual
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    lesson = lesson_of(base, length, SHAPE, private=True, steps=steps)
    own = seconds(base, lesson)
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    spent: dict[str, list[float]] = {"gradients": []}
    with watched(spent):
        seconds(base, lesson)
    gradients = statistics.median(spent["gradients"][min(WARM, steps // 2) :])
    return {
        "length": length,
        "plain": plain,
        "plainWithoutGraphs": eager,
        "private": own,
        "privateGradients": gradients,
        "privateNoiseAndStep": own - gradients,
        "times": own / plain,
        "timesWithoutGraphs": own / eager,
        "peakBytes": peak,
    }


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
    given = parser.parse_args()
    base = drawn(given)
    document: dict[str, Any] = {
        "device": _device(),
        "torch": torch.__version__,
        "machine": f"{_device()}, torch {torch.__version__}",
        "packs": scoring.packs(base.model, base.device),
        "values": sum(a.size for a in moved(base).values()),
    }
    for name, measure in (("check", check), ("time", timed)):
        document[name] = []
        for length in given.lengths:
            more = (given.steps,) if name == "time" else ()
            try:
                document[name].append(measure(base, length, *more))
            except Exception as error:  # one that fails must not hide the others
                document[name].append(
                    {"length": length, "error": f"{type(error).__name__}: {error}"}
                )
            if given.out:
                given.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
