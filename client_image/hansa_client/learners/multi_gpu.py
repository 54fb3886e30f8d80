"""Data-parallel training: the processes of one Job that train together, one per GPU of its Pod.

Each computes the gradient of its share of a step's examples; the sums are added up, and all take
the same step. The order of sums differs from that of one process, so the adapter's bytes depend on
the number of GPUs, and only on that. A process that dies ends the Job.
"""

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

_LESSON = "training_set.pickle"
_RENDEZVOUS = "rendezvous"
_PATIENCE = timedelta(minutes=10)
"""How long a process waits for the slowest of the others."""


def get_process_rank() -> int:
    """The index of this process."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def count_processes() -> int:
    """The number of processes; 1 without data parallelism."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def take_share(step: Sequence[int], together: int) -> list[int]:
    """This process's share of a step; examples of several sequences are not split."""
    units = [step[at : at + together] for at in range(0, len(step), together)]
    return [index for unit in units[get_process_rank() :: count_processes()] for index in unit]


@torch.no_grad()
def sum_gradients(weights: Sequence[torch.Tensor], loss: float) -> float:
    """The loss of all processes, and its gradient at the weights."""
    if count_processes() == 1:
        return loss
    own = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    flat = torch.cat([torch.tensor([loss], device=own[0].device), *(g.reshape(-1) for g in own)])
    distributed.all_reduce(flat)
    pieces = flat[1:].split([weight.numel() for weight in weights])  # type: ignore[no-untyped-call]
    for weight, piece in zip(weights, pieces, strict=True):
        weight.grad = piece.view_as(weight)
    return float(flat[0])


@contextmanager
def train_on_all_gpus(
    source: str, folder: Path, lesson: "TrainingSet", processes: int | None = None
) -> Iterator[None]:
    """Within, all GPUs train on this set; with one GPU or none, nothing is started."""
    count = torch.cuda.device_count() if processes is None else processes
    if count < 2:
        yield
        return
    with TemporaryDirectory(prefix="hansa-gpus-") as place:
        Path(place, _LESSON).write_bytes(
            pickle.dumps((lesson, (source, folder, torch.get_num_threads())))
        )
        others = [_start(place, number, count) for number in range(1, count)]
        try:
            _join(place, 0, count)
            yield
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            for other in others:
                other.kill()  # its result is not needed
                other.wait()


def _start(place: str, number: int, count: int) -> subprocess.Popen[bytes]:
    numbers = map(str, (number, count, os.getpid()))
    command = [sys.executable, "-m", __name__, place, *numbers]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def _join(place: str, number: int, count: int) -> None:
    distributed.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"file://{place}/{_RENDEZVOUS}",
        rank=number,
        world_size=count,
        timeout=_PATIENCE,
    )


def main(place: str, number: int, count: int, parent: int) -> None:
    """One of the other processes: load the model, join, train alike, and drop the result."""
    die_with_parent(parent)
    if torch.cuda.is_available():
        torch.cuda.set_device(number)
    lesson, model = pickle.loads(Path(place, _LESSON).read_bytes())  # noqa: S301  # our parent's, in its own folder
    base = base_model.load(*model)
    _join(place, number, count)
    train = learners.get(lesson.training.learner, lesson.training.options)
    train(base, lesson, lambda done, total: None)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
