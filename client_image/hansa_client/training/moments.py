"""Second moments of the inputs of adapted layers: the mean of x·xᵀ over trajectories' tokens."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from hansa.adapter import second_moments
from hansa.adapter.lora import Tensors
from hansa_client import trajectory
from hansa_client.models.base_model import Base
from hansa_client.training import batches

KEPT = 0.9
"""Factor for the off-diagonals, whose estimates are less certain."""
READ_TOKENS = 4096
"""Tokens of one forward pass, with padding."""
MOST_BYTES = 2**30
"""Maximum memory of the sums on a CPU; on a GPU it is half of the free memory."""
_SPARE = 32
"""Extra directions of the random subspace in which the largest directions are searched."""


@torch.no_grad()
def collect(
    base: Base, modules: Sequence[str], sequences: Sequence[trajectory.Sequence], rank: int
) -> Tensors:
    """Read all trajectories with the model as it is now, and return the moments of these layers.

    Where the sums of all layers do not fit into memory, each pass collects some layers, which
    changes no value. Rows are padded on the right, where no token attends to the padding.
    """
    made: Tensors = {}
    for part in _split_modules(base, sorted(modules)):
        sums = _Sums()
        with ExitStack() as hooks:
            for name in part:
                layer = base.model.get_submodule(name)
                hooks.callback(layer.register_forward_pre_hook(sums.make_hook(name)).remove)
            _read(base, sequences, sums)
        made |= _describe(sums, sum(map(len, sequences)), rank)
    return made


def _split_modules(base: Base, modules: Sequence[str]) -> Iterator[list[str]]:
    """Groups of layers whose sums fit; layers of one block share inputs and stay together."""
    is_gpu, part, used = base.device.type == "cuda", list[str](), 0
    room = torch.cuda.mem_get_info(base.device)[0] // 2 if is_gpu else MOST_BYTES
    blocks: dict[str, list[str]] = {}
    for name in modules:
        blocks.setdefault(name.rpartition(".")[0], []).append(name)
    for block in blocks.values():
        widths = [base.model.get_submodule(name).weight.shape[1] for name in block]
        size = 4 * sum(int(width) ** 2 for width in widths)
        if part and used + size > room:
            yield part
            part, used = [], 0
        part, used = [*part, *block], used + size
    if part:
        yield part


def _read(base: Base, sequences: Sequence[trajectory.Sequence], sums: "_Sums") -> None:
    lengths = [len(sequence) for sequence in sequences]
    for part in batches.fill_batches(range(len(lengths)), lengths, READ_TOKENS):
        ids = pad_sequence([torch.tensor(sequences[index].tokens) for index in part], True)
        ends = torch.tensor([lengths[index] for index in part])
        sums.begin((torch.arange(ids.shape[1]) < ends[:, None]).to(base.device))
        base.model(input_ids=ids.to(base.device), use_cache=False, logits_to_keep=1)


class _Sums:
    """Sums over the layers' inputs so far."""

    def __init__(self) -> None:
        self.totals: dict[str, torch.Tensor] = {}
        self.readers: dict[str, list[str]] = {}
        """Layers that read an input, by the first of them."""
        self._real = torch.empty(0)
        self._last: tuple[torch.Tensor, str] | None = None

    def begin(self, real: torch.Tensor) -> None:
        """Start the next batch, of which only these tokens count."""
        self._real, self._last = real.flatten().nonzero()[:, 0], None

    def make_hook(self, name: str) -> Callable[[Any, tuple[torch.Tensor, ...]], None]:
        """A forward pre-hook for a layer of this name."""

        def look(layer: Any, arguments: tuple[torch.Tensor, ...]) -> None:
            states, last = arguments[0], self._last
            block = name.rpartition(".")[0]  # layers of one block are always in the same pass
            if last is None or last[0] is not states or last[1].rpartition(".")[0] != block:
                last = self._last = (states, name)
                self._add(name, states.flatten(0, 1)[self._real].float())
            readers = self.readers.setdefault(last[1], [])
            if name not in readers:
                readers.append(name)

        return look

    def _add(self, name: str, rows: torch.Tensor) -> None:
        if name not in self.totals:
            self.totals[name] = rows.new_zeros((rows.shape[1], rows.shape[1]))
        self.totals[name].addmm_(rows.T, rows)


def _describe(sums: _Sums, tokens: int, rank: int) -> Tensors:
    """The largest directions of each input, their moments and the rest, as they are sent."""
    made: Tensors = {}
    for first, readers in sums.readers.items():
        names = second_moments.moment_names(readers)
        matrix = dampen(sums.totals.pop(first) / tokens)
        vectors, values, rest = find_largest(
            matrix, second_moments.count_directions(len(matrix), rank)
        )
        made[names.vectors] = vectors.float().cpu().numpy()
        made[names.values] = values.clamp(min=rest).float().cpu().numpy()
        made[names.rest] = torch.tensor([rest]).float().numpy()
    return made


def dampen(matrix: torch.Tensor) -> torch.Tensor:
    """Off-diagonals times KEPT."""
    made = KEPT * matrix
    made.diagonal().copy_(matrix.diagonal())
    return made


def find_largest(matrix: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The largest eigenvectors as rows, their eigenvalues, and the mean of the other eigenvalues.

    They are computed in a random subspace, which is much faster; they are exact where that is the
    whole space.
    """
    wide, size = matrix.double(), len(matrix)
    basis = torch.eye(size, dtype=torch.float64, device=matrix.device)
    if count + _SPARE < size:
        draw = torch.Generator().manual_seed(size)
        start = torch.randn(size, count + _SPARE, generator=draw, dtype=torch.float64)
        basis, _ = torch.linalg.qr(wide @ start.to(wide.device))
        basis, _ = torch.linalg.qr(wide @ (wide @ (wide @ basis)))
    values, vectors = torch.linalg.eigh(basis.T @ wide @ basis)
    kept = values[-count:].flip(0).clamp(min=0.0)
    rows = (basis @ vectors[:, -count:]).T.flip(0).contiguous()
    rest = float(wide.trace() - kept.sum()) / (size - count) if count < size else 0.0
    return rows, kept, max(0.0, rest)
