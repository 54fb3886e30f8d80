"""Several GPUs: the processes of one Job that train a step together, one for each GPU of its Pod.

Each computes the gradient of its share of a step's examples; the sums are added up, and all take
the same step. So the adapter is that of one process but for the order of sums: it depends on the
number of GPUs, and repeats itself where that stays. A process that dies ends the Job.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import distributed

from hansa.runtime.lifeline import die_with_parent
from hansa_client import learners
from hansa_client.models import base_model

if TYPE_CHECKING:
    from hansa_client.learners import TrainingSet

_LESSON = "lesson.pickle"
_RENDEZVOUS = "rendezvous"
_PATIENCE = timedelta(minutes=10)
"""How long a process waits for the slowest of the others."""


def rank() -> int:
    """Which of the processes this is."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def size() -> int:
    """How many they are; one alone counts, too."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def share(step: Sequence[int], together: int) -> list[int]:
    """This process's part of a step; examples of several sequences stay whole."""
    units = [step[at : at + together] for at in range(0, len(step), together)]
    return [index for unit in units[rank() :: size()] for index in unit]


@torch.no_grad()
def add_up(weights: Sequence[torch.Tensor], loss: float) -> float:
    """The loss of all processes, and its gradient at the weights."""
    if size() == 1:
        return loss
    own = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    flat = torch.cat([torch.tensor([loss], device=own[0].device), *(g.reshape(-1) for g in own)])
    distributed.all_reduce(flat)
    pieces = flat[1:].split([weight.numel() for weight in weights])  # type: ignore[no-untyped-call]
    for weight, piece in zip(weights, pieces, strict=True):
        weight.grad = piece.view_as(weight)
    return float(flat[0])


@contextmanager
def data_parallel(
    source: str, folder: Path, lesson: TrainingSet, processes: int | None = None
) -> Iterator[None]:
    """Within, all GPUs train this lesson along; with one or none nothing is started."""
    count = torch.cuda.device_count() if processes is None else processes
    if count < 2:
        yield
        return
    with TemporaryDirectory(prefix="hansa-gpus-") as place:
        task = {
            "source": source,
            "folder": folder,
            "lesson": lesson,
            "threads": torch.get_num_threads(),
        }
        Path(place, _LESSON).write_bytes(pickle.dumps(task))
        others = [_start(place, number, count) for number in range(1, count)]
        try:
            _join(place, 0, count)
            yield
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            for other in others:
                other.kill()  # its work is done, or worth nothing
                other.wait()


def _start(place: str, number: int, count: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "hansa_client.learners.multi_gpu",
        place,
        str(number),
        str(count),
    ]
    return subprocess.Popen([*command, str(os.getpid())], stdin=subprocess.DEVNULL)


def _join(place: str, number: int, count: int) -> None:
    distributed.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"file://{place}/{_RENDEZVOUS}",
        rank=number,
        world_size=count,
        timeout=_PATIENCE,
    )


def main(place: str, number: int, count: int, parent: int) -> None:
    """One of the others: load the model, meet, train the same lesson; what it makes is dropped."""
    die_with_parent(parent)
    if torch.cuda.is_available():
        torch.cuda.set_device(number)
    task = pickle.loads(Path(place, _LESSON).read_bytes())  # noqa: S301  # our parent's, in its own folder
    base = base_model.load(task["source"], task["folder"], task["threads"])
    _join(place, number, count)
    lesson = task["lesson"]
    train = learners.get(lesson.training.learner, lesson.training.options)
    train(base, lesson, lambda done, total: None)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
