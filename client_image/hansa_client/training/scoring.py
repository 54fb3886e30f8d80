"""Scoring: log-probabilities of the agent's tokens, by a padded or a packed forward pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from hansa_client import trajectory
from hansa_client.models.base_model import Base
from hansa_client.training import batches, packing, sliced_logits

_READ_TOKENS = 16384
"""Tokens of one forward pass without gradients."""
MANY = 8
"""Fewest rows for which to capture a CUDA graph, which takes as long as about five rows."""


class Scorer:
    """Scores trajectories by one model on one device."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model = model
        self._device = device

    def expect(self, rows: Sequence[Sequence[int]]) -> None:
        """Prepare for rows of sequences with these lengths, where that helps."""

    def loss(self, sequences: Sequence[trajectory.Sequence]) -> torch.Tensor:
        """Summed negative log-likelihood of the agent's tokens."""
        return self._score(sequences, "sum")[0]

    def logprobs(
        self, sequences: Sequence[trajectory.Sequence]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of each of the agent's tokens, and the index of its trajectory."""
        lost, wanted = self._score(sequences, "none")
        return -lost, wanted.nonzero()[:, 0]

    def reference_logprobs(
        self, sequences: Sequence[trajectory.Sequence], batch_tokens: int
    ) -> list[torch.Tensor]:
        """Log-probabilities of the agent's tokens of each trajectory, in batches.

        Batches are halved where memory runs out.
        """
        lengths = [len(sequence) for sequence in sequences]
        longest = max(lengths, default=0)
        by_index: dict[int, torch.Tensor] = {}
        while True:
            try:
                for part in batches.fill_batches(range(len(lengths)), lengths, batch_tokens):
                    logprobs, rows = self.logprobs([sequences[index] for index in part])
                    by_index |= {index: logprobs[rows == row] for row, index in enumerate(part)}
                return [by_index[index] for index in range(len(lengths))]
            except torch.OutOfMemoryError:
                if batch_tokens <= longest:
                    raise
            batch_tokens = max(longest, batch_tokens // 2)
            torch.cuda.empty_cache()

    def compute_entropies(self, sequences: Sequence[trajectory.Sequence]) -> Iterator[torch.Tensor]:
        """Entropies of the next token before the agent's tokens, some at a time."""
        for sequence in sequences:
            ids = torch.tensor([sequence.tokens], device=self._device)
            wanted = torch.tensor([sequence.is_agent[1:]], device=self._device)
            with _select_logits(self._model, wanted):
                yield _compute_entropy(self._model(input_ids=ids, use_cache=False).logits[0])

    def tensor(self, numbers: Sequence[float]) -> torch.Tensor:
        """These numbers on the model's device."""
        return torch.tensor(numbers, dtype=torch.float32, device=self._device)

    def _score(
        self, sequences: Sequence[trajectory.Sequence], reduction: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy at the agent's tokens, and where they are.

        Rows are padded on the right: under causal attention no real token sees the padding, so no
        mask is needed, and torch takes its fastest path.
        """
        ids = self._pad([sequence.tokens for sequence in sequences])
        is_agent = self._pad([sequence.is_agent for sequence in sequences])
        wanted = is_agent[:, 1:].bool()  # the token before predicts it
        with _select_logits(self._model, wanted):
            logits = self._model(input_ids=ids, use_cache=False).logits
        targets = ids[:, 1:][wanted]
        flat = logits.reshape(len(targets), -1).float()
        return cross_entropy(flat, targets, reduction=reduction), wanted

    def _pad(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        padded = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], True)
        return padded.to(self._device)


class PackedScorer(Scorer):
    """Scores trajectories packed into one row, their logits in slices."""

    def __init__(self, model: Any, device: torch.device, *, may_record: bool = True) -> None:
        super().__init__(model, device)
        self._packed = packing.PackedModel(model)
        self.may_record = may_record and device.type == "cuda"
        """Whether CUDA graphs may be captured of this model."""
        self._frame: packing.Frame | None = None
        self._recorded: Callable[[packing.PackedRow], torch.Tensor] | None = None

    def expect(self, rows: Sequence[Sequence[int]]) -> None:
        """Prepare for rows of sequences with these lengths: many are worth a CUDA graph."""
        self._recorded = None
        self._frame = packing.Frame.from_lengths(rows) if len(rows) >= MANY else None

    def loss(self, sequences: Sequence[trajectory.Sequence]) -> torch.Tensor:
        """Summed negative log-likelihood of the agent's tokens."""
        return -self.logprobs(sequences)[0].sum()

    def logprobs(
        self, sequences: Sequence[trajectory.Sequence]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of each of the agent's tokens, and the index of its trajectory."""
        frame = self._frame if torch.is_grad_enabled() else None
        tokens = [sequence.tokens for sequence in sequences]
        row = packing.PackedRow.pack(tokens, self._device, frame)
        wanted, rows = self._find_predicting(sequences)
        states = self._compute_states(row, frame)[wanted]
        weight = self._model.get_output_embeddings().weight
        return sliced_logits.compute_logprobs(states, weight, row.tokens[0, wanted + 1]), rows

    @property
    def dtype(self) -> torch.dtype:
        """The model's data type."""
        dtype: torch.dtype = self._model.get_output_embeddings().weight.dtype
        return dtype

    def read_backward(
        self,
        row: packing.PackedRow,
        wanted: torch.Tensor,
        among: torch.Tensor,
        shares: torch.Tensor,
        weights: Sequence[torch.Tensor],
    ) -> None:
        """Backward pass of a row to these weights, with a share for each log-probability.

        `wanted` are the positions that predict the agent's tokens. `among` has the index of each
        token in `wanted`, or its length. This avoids a scatter, whose order is not fixed in a CUDA
        graph.
        """
        states = self._packed.compute_states(row)
        chosen = states.detach().index_select(0, wanted).requires_grad_()
        targets = row.tokens[0].index_select(0, wanted + 1)
        weight = self._model.get_output_embeddings().weight
        logprobs = sliced_logits.compute_logprobs(chosen, weight, targets)
        (slopes,) = torch.autograd.grad(logprobs, chosen, -shares)
        filled = torch.cat([slopes, slopes.new_zeros(1, slopes.shape[1])])
        gradient = filled.index_select(0, among)
        torch.autograd.grad(states, weights, gradient, allow_unused=True)

    def compute_entropies(self, sequences: Sequence[trajectory.Sequence]) -> Iterator[torch.Tensor]:
        """Many trajectories at once, since launching kernels would take longest; in slices."""
        lengths = [len(sequence) for sequence in sequences]
        weight = self._model.get_output_embeddings().weight
        rows = sliced_logits.count_slice_rows(weight)
        for part in batches.fill_batches(range(len(lengths)), lengths, _READ_TOKENS):
            chosen = [sequences[index] for index in part]
            row = packing.PackedRow.pack([sequence.tokens for sequence in chosen], self._device)
            wanted, _ = self._find_predicting(chosen)
            states = self._packed.compute_states(row)[wanted]
            for at in range(0, len(states), rows):
                yield _compute_entropy(states[at : at + rows] @ weight.T)

    def _compute_states(self, row: packing.PackedRow, frame: packing.Frame | None) -> torch.Tensor:
        if not frame or not self.may_record:
            return self._packed.compute_states(row)
        if self._recorded is None:
            try:
                self._recorded = self._packed.record(frame, self._device)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # a layer that waits for the GPU cannot be captured: only slower
                self.may_record = False
                return self._packed.compute_states(row)
        return self._recorded(row)

    def _find_predicting(
        self, sequences: Sequence[trajectory.Sequence]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions before the agent's tokens, which predict them, and their trajectories."""
        places: list[int] = []
        rows: list[int] = []
        begin = 0
        for row, sequence in enumerate(sequences):
            own = [begin + i for i, is_own in enumerate(sequence.is_agent[1:]) if is_own]
            places += own
            rows += [row] * len(own)
            begin += len(sequence)
        return torch.tensor(places, device=self._device), torch.tensor(rows, device=self._device)


def can_pack(model: Any, device: torch.device) -> bool:
    """Whether a model's trajectories can be packed into rows."""
    return device.type == "cuda" and packing.can_pack(model) and sliced_logits.can_slice(model)


@contextmanager
def open_scorer(model: Any, device: torch.device, *, may_record: bool) -> Iterator[Scorer]:
    """The fastest for a model: packed on a GPU that can, else padded.

    On a CPU packing is no faster.
    """
    if can_pack(model, device):
        with packing.use_packed_attention(model):
            yield PackedScorer(model, device, may_record=may_record)
    else:
        yield Scorer(model, device)


@torch.inference_mode()
def measure_entropy(base: Base, sequences: Sequence[trajectory.Sequence]) -> float | None:
    """Mean entropy of the next token where the agent wrote, in nats."""
    total, count = 0.0, 0
    with open_scorer(base.model, base.device, may_record=False) as scorer:
        for each in scorer.compute_entropies(sequences):
            total += float(each.sum())
            count += len(each)
    return round(total / count, 6) if count else None


@torch.inference_mode()
def measure_surprise(base: Base, sequences: Sequence[trajectory.Sequence]) -> float:
    """Mean negative log-likelihood of the tokens that can be scored, in nats."""
    scored = [each for each in sequences if count_agent_tokens([each])]
    with open_scorer(base.model, base.device, may_record=False) as scorer:
        return sum(float(scorer.loss([each])) for each in scored) / count_agent_tokens(scored)


def _compute_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Entropy of each row of logits."""
    logprobs = logits.float().log_softmax(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def count_agent_tokens(sequences: Sequence[trajectory.Sequence]) -> int:
    """The agent's tokens that can be scored: nothing predicts the first token of a sequence."""
    return sum(sum(sequence.is_agent[1:]) for sequence in sequences)


@contextmanager
def _select_logits(wrapped: Any, wanted: torch.Tensor) -> Iterator[None]:
    """Within, the model computes logits only at the wanted positions.

    Most tokens are the world's, and with a large vocabulary their logits would be the largest
    tensor. They are selected before the output layer, so what a model does after it still works.
    """

    def select(module: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (arguments[0][:, :-1][wanted].unsqueeze(0), *arguments[1:])

    hook = wrapped.get_output_embeddings().register_forward_pre_hook(select)
    try:
        yield
    finally:
        hook.remove()
