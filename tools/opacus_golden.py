"""Golden values of per-trajectory gradients, by Opacus, which wants an environment of its own.

    python3 -m pip install --target /tmp/opacus --no-deps opacus==1.6.0 opt-einsum scipy
    PYTHONPATH=.:client_image:worlds:/tmp/opacus tools/python tools/opacus_golden.py \
        > tests/unit/hansa_client/learners/opacus.json

Opacus needs plain layers and a padded batch, so this is the builtin model as it is. Of each
trajectory's gradient it writes the norm and 16 projections: equal ones are equal gradients.
"""

import json
from typing import Any

import torch
from opacus import GradSampleModule

from hansa_client.models import lora
from hansa_client.training.scoring import count_agent_tokens
from tests.unit.hansa_client.learners import gradients as given


def loss(model: Any, sequences: list[Any]) -> torch.Tensor:
    """The sum of all trajectories' mean losses, by one padded batch."""
    width = max(len(sequence) for sequence in sequences)
    ids = torch.zeros(len(sequences), width, dtype=torch.int64)
    wanted = torch.zeros(len(sequences), width, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence.tokens)
        wanted[row, : len(sequence)] = torch.tensor(sequence.is_agent)
    logprobs = model(input_ids=ids, use_cache=False).logits.float().log_softmax(-1)[:, :-1]
    chosen = logprobs.gather(2, ids[:, 1:, None])[..., 0] * wanted[:, 1:]
    tokens = torch.tensor([count_agent_tokens([sequence]) for sequence in sequences])
    total: torch.Tensor = -(chosen.sum(1) / tokens).sum()
    return total


def main() -> None:
    """Print each trajectory's norm and projections."""
    base, tensors = given.model()
    wrapped = lora.attach(base.model, given.SHAPE, tensors)
    lora.train_only(wrapped, "both")
    sampled = GradSampleModule(wrapped, loss_reduction="sum", strict=False)
    loss(sampled, given.SEQUENCES).backward()  # type: ignore[no-untyped-call]
    named = {
        lora.to_peft_name(name): weight.grad_sample
        for name, weight in wrapped.named_parameters()
        if weight.requires_grad
    }
    rows = [
        given.summary({name: each[index] for name, each in named.items()})
        for index in range(len(given.SEQUENCES))
    ]
    print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")


if __name__ == "__main__":
    main()
