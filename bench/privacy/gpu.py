"""Private training on a GPU: are the gradients of a packed row right, and what do they cost?

    python bench/privacy/gpu.py --out gpu.json          # SmolLM2-135M's shape, drawn weights
    python bench/privacy/gpu.py --model path:FOLDER --out gpu.json

Prints JSON. *check*: each trajectory's gradient from a recorded row of all of them, from a packed
row that is not recorded, from a row of its own, and alone in fp32, which is nearest to the truth.
In bf16 they differ by rounding: a row may be no further from fp32 than the others are, by TWICE.
And when one trajectory of the row is another one, the gradients of all the rest must stay what they
were. *sums*: clipped sums of recorded rows beside those of rows that are not, for lots of several
sizes, after the weights have moved, and again. *time*: steps of 32 trajectories, plain and private,
with CUDA graphs and without; medians. What fails is in its place, with a traceback.
"""

import argparse
import copy
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
from private import MANY, lesson_of  # type: ignore[import-not-found]  # of bench/train

from hansa import adapter
from hansa.spec import Adapter
from hansa_client import learners, noise
from hansa_client.learners import Lesson, loop
from hansa_client.learners.private import PackedGradients, PrivateRun
from hansa_client.learners.private_graph import GraphedSums
from hansa_client.learners.success_sft import Imitation
from hansa_client.models import base_model, fused_layers, lora
from hansa_client.models.base_model import Base
from hansa_client.models.segments import Segments
from hansa_client.training import even_rows, packing, scoring
from hansa_client.training.scoring import PackedScorer, Scorer
from hansa_client.trajectory import Sequence

SHAPE = Adapter()
TWICE = 2.0
EXACT = 1e-4
"""Largest relative error in fp32, where rounding is no excuse."""
WARM = 6
"""Steps that only warm up: the first ones record CUDA graphs."""
SOME = range(0, MANY, 4)
"""Trajectories that are computed one by one, too."""
EAGER = 10
"""Steps without CUDA graphs, at most: they are slow."""
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


def moved_lesson(base: Base, length: int) -> Lesson:
    lesson = lesson_of(base, length, SHAPE, private=True)
    return Lesson(**{**vars(lesson), "start": moved(base)})


@contextmanager
def running(base: Base, lesson: Lesson, *, packed: bool) -> Iterator[PrivateRun]:
    """A private training as `loop.train` sets it up, to be asked for gradients."""
    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, lesson.half)
    wrapped.train()
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
            own = PackedScorer(wrapped, base.device)
            yield loop._run(wrapped, own, lesson, objective, segments)  # type: ignore[misc]
    finally:
        wrapped.eval()
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


def recorded(base: Base, lessons: list[Lesson]) -> list[Gradients]:
    """From a recorded row of all trajectories, of each lesson; its sequences alone may differ."""
    every, kept = list(range(MANY)), []
    with running(base, lessons[0], packed=True) as run:
        packed = run.packed
        assert packed
        own = ([every] * scoring.MANY, packed._lengths, packed._agents, packed._room)
        shapes = even_rows.shapes(*own, least=scoring.MANY)
        values = sum(weight.numel() for weight in run.weights)
        rows = run.weights[0].new_zeros(shapes[0].count, values)
        graphs = GraphedSums(
            packed._scorer, packed._segments, run.weights, shapes, lambda _, made: rows.copy_(made)
        )
        for lesson in lessons:
            (both,) = even_rows.rows(every, packed._lengths, shapes)
            sequences = [lesson.sequences[index] for index in both[1]]
            shares = [packed._shares[index] for index in both[1]]
            graphs.add(both[0], even_rows.row(both[0], sequences, shares))
            made = rows.double().cpu()
            kept.append([made[both[1].index(index)] for index in every])
    return kept


def singly(base: Base, lesson: Lesson) -> Gradients:
    """Some, one by one, padded and not packed, as any model can be."""
    with running(base, lesson, packed=False) as run:
        return [torch.cat([g.double().flatten() for g in run.gradients(i)]).cpu() for i in SOME]


def apart(ours: Gradients, theirs: Gradients) -> list[float]:
    """Of each trajectory, how far the gradients are apart, relative to their length."""
    both = zip(ours, theirs, strict=True)
    return [float((a - b).norm() / b.norm().clamp(min=1e-12)) for a, b in both]


def some(gradients: Gradients) -> Gradients:
    return [gradients[index] for index in SOME]


def check(base: Base, length: int) -> dict[str, Any]:
    """Errors of packed rows, recorded and not, and whether they are rounding alone."""
    lesson = moved_lesson(base, length)
    first = lesson.sequences[0]
    strange = Sequence(list(reversed(first.tokens)), first.is_agent)
    other = Lesson(**{**vars(lesson), "sequences": [strange, *lesson.sequences[1:]]})
    every = list(range(MANY))
    of_row, beside = (together(base, each, [every]) for each in (lesson, other))
    of_graph, graph_beside, graph_again = recorded(base, [lesson, other, lesson])
    of_rows = together(base, lesson, [[index] for index in SOME])
    one_by_one = singly(base, lesson)
    dtype = next(base.model.parameters()).dtype
    truth = singly(Base(copy.deepcopy(base.model).float(), base.chat, base.device), lesson)
    errors = {
        "graphToFp32": apart(some(of_graph), truth),
        "rowToFp32": apart(some(of_row), truth),
        "ownRowToFp32": apart(of_rows, truth),
        "oneByOneToFp32": apart(one_by_one, truth),
        "graphToRow": apart(of_graph, of_row),
        "rowToOwnRow": apart(some(of_row), of_rows),
        "graphToOneByOne": apart(some(of_graph), one_by_one),
        "rowToOneByOne": apart(some(of_row), one_by_one),
    }
    told = {name: [max(e), statistics.median(e)] for name, e in errors.items()}
    touched = max(apart(beside[1:], of_row[1:]))
    graph_touched = max(apart(graph_beside[1:], of_graph[1:]))
    limit = TWICE * max(told["ownRowToFp32"][0], told["oneByOneToFp32"][0]) + EXACT
    return {
        "length": length,
        "dtype": str(dtype),
        "trajectories": MANY,
        "errorsMaxMedian": told,
        "othersMovedByOneExchanged": touched,
        "graphOthersMovedByOneExchanged": graph_touched,
        "exchangedMoved": apart(beside[:1], of_row[:1])[0],
        "graphExchangedMoved": apart(graph_beside[:1], of_graph[:1])[0],
        "graphRepeatsItself": max(apart(graph_again, of_graph)) == 0.0,
        "limit": limit,
        "ok": told["rowToFp32"][0] <= limit and touched <= EXACT,
        "graphOk": told["graphToFp32"][0] <= limit and graph_touched <= EXACT,
    }


def checked_sums(base: Base, length: int) -> dict[str, Any]:
    """How far clipped sums of recorded rows are from those of rows that are not."""
    lesson, every = moved_lesson(base, length), list(range(MANY))
    lots = [every, every[:5], [], every[7:8], every[3:]]
    with running(base, lesson, packed=True) as run:
        packed = run.packed
        assert packed

        def sums() -> Gradients:
            return [torch.cat([s.flatten() for s in run.sums(lot)]).cpu() for lot in lots]

        eager = sums()
        packed.expect([*lots, *([every] * scoring.MANY)], run.weights, run._protection.clip)
        shapes, is_recorded = [vars(shape) for shape in packed._shapes], bool(packed._graphed)
        graphs, again = sums(), sums()
        with torch.no_grad():
            for weight in run.weights:
                weight.mul_(1.1)
        later = sums()
        packed._graphed = None
        eager_later = sums()
    return {
        "length": length,
        "recorded": is_recorded,
        "shapes": shapes,
        "lots": [len(lot) for lot in lots],
        "norms": [float(each.norm()) for each in graphs],
        "graphToRows": apart(graphs, eager),
        "repeats": all(torch.equal(a, b) for a, b in zip(graphs, again, strict=True)),
        "graphToRowsLater": apart(later, eager_later),
        "movedByWeights": apart(later, graphs),
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

    def lesson(steps: int, *, private: bool) -> Lesson:
        return lesson_of(base, length, SHAPE, private=private, steps=steps)

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
        watched(PackedGradients, "sums", gradients),
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


def noise_alone(base: Base, steps: int) -> dict[str, Any]:
    """Seconds in which a step's noise is drawn, where nothing else is done."""
    protection = lesson_of(base, 27, SHAPE, private=True).private
    assert protection
    sizes = {name: array.size for name, array in moved(base).items()}
    into, times = np.zeros(sum(sizes.values())), []
    with noise.ahead(protection.stream, sizes, steps) as coming:
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
    given = parser.parse_args()
    base = drawn(given)
    document: dict[str, Any] = {
        "device": _device(),
        "torch": torch.__version__,
        "machine": f"{_device()}, torch {torch.__version__}",
        "packs": scoring.packs(base.model, base.device),
        "values": sum(a.size for a in moved(base).values()),
    }
    parts: dict[str, Callable[[int], dict[str, Any]]] = {
        "sums": lambda length: checked_sums(base, length),
        "time": lambda length: timed(base, length, given.steps),
        "check": lambda length: check(base, length),
    }
    document["noise"] = tried(lambda: noise_alone(base, given.steps))
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


def tried(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What it gives; one that fails must not hide the others."""
    try:
        return measure()
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    main()
