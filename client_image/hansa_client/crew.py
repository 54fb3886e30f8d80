"""Crew: the processes of one Job that train a step together, one for each of its Pod's GPUs.

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

from hansa.local.lifeline import die_with_parent
from hansa_client import learners, model

if TYPE_CHECKING:
    from hansa_client.learners import Lesson

_TOLD = "lesson.pickle"
_MEETING = "meeting"
_PATIENCE = timedelta(minutes=10)
"""How long a process waits for the slowest of the others."""


def rank() -> int:
    """Which of the crew this process is."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def size() -> int:
    """How many they are; one alone is a crew, too."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def share(step: Sequence[int], together: int) -> list[int]:
    """This process's part of a step; examples of several sequences stay whole."""
    units = [step[at : at + together] for at in range(0, len(step), together)]
    return [index for unit in units[rank() :: size()] for index in unit]


@torch.no_grad()
def add_up(weights: Sequence[torch.Tensor], loss: float) -> float:
    """The whole crew's loss, and its gradient at the weights."""
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
def assembled(
    source: str, folder: Path, lesson: Lesson, members: int | None = None
) -> Iterator[None]:
    """Within, all GPUs train this lesson along; with one or none nothing is started."""
    count = torch.cuda.device_count() if members is None else members
    if count < 2:
        yield
        return
    with TemporaryDirectory(prefix="hansa-crew-") as place:
        told = {
            "source": source,
            "folder": folder,
            "lesson": lesson,
            "threads": torch.get_num_threads(),
        }
        Path(place, _TOLD).write_bytes(pickle.dumps(told))
        others = [_start(place, number, count) for number in range(1, count)]
        try:
            _meet(place, 0, count)
            yield
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()
            for other in others:
                other.kill()  # its work is done, or worth nothing
                other.wait()


def _start(place: str, number: int, count: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hansa_client.crew", place, str(number), str(count)]
    return subprocess.Popen([*command, str(os.getpid())], stdin=subprocess.DEVNULL)


def _meet(place: str, number: int, count: int) -> None:
    distributed.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo",
        init_method=f"file://{place}/{_MEETING}",
        rank=number,
        world_size=count,
        timeout=_PATIENCE,
    )


def main(place: str, number: int, count: int, parent: int) -> None:
    """One of the others: load the model, meet, train the same lesson; what it makes is dropped."""
    die_with_parent(parent)
    if torch.cuda.is_available():
        torch.cuda.set_device(number)
    told = pickle.loads(Path(place, _TOLD).read_bytes())  # noqa: S301  # our parent's, in its own folder
    base = model.load(told["source"], told["folder"], told["threads"])
    _meet(place, number, count)
    lesson = told["lesson"]
    learners.get(lesson.training.learner)(base, lesson, lambda done, total: None)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
