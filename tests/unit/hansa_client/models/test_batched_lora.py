"""Batched LoRA: each row of a pass answers as the base with its adapter merged would."""

from typing import Any

import numpy as np
import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter
from hansa.core.errors import InputError
from hansa_client.models import base_model, lora
from hansa_client.models.batched_lora import BatchedLora
from hansa_client.models.kv_slots import KVSlots, Span, make_plan
from hansa_client.models.slot_attention import forward

SETTINGS = Adapter()
SCALE = SETTINGS.alpha / SETTINGS.rank


def sizes(tensors: Tensors) -> dict[str, tuple[int, int]]:
    modules = {module: adapter.tensor_names(module) for module in adapter.target_names(tensors)}
    return {m: (tensors[n.b].shape[0], tensors[n.a].shape[1]) for m, n in modules.items()}


def drawn(model: Any, seed: int) -> Tensors:
    draw = np.random.default_rng(seed)
    return {
        name: (0.2 * draw.standard_normal(shape)).astype(np.float32)
        for name, shape in lora.shapes(model, SETTINGS).items()
    }


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    shape = GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    return GPT2LMHeadModel(shape).eval().requires_grad_(False)


def plain(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=tokens[None], use_cache=False).logits[0]
    return logits


def test_rows_of_one_pass_have_an_adapter_each() -> None:
    model = base_model.load("builtin:tiny", base_model.resolve("builtin:tiny"), 1).model
    adapters = [drawn(model, 1), drawn(model, 2)]
    rows = [torch.arange(5, 5 + width) for width in (7, 3, 9, 1)]
    whose = [0, None, 1, 0]
    expected = []
    for row, which in zip(rows, whose, strict=True):
        with lora.merge_adapter(model, SETTINGS, adapters[which] if which is not None else {}):
            expected.append(plain(model, row)[-1])
    without = plain(model, rows[0])[-1]
    batched = BatchedLora(model)
    for tensors in adapters:
        batched.prepare(sizes(tensors))
    loaded = [batched.load(tensors, SCALE) for tensors in adapters]
    slots = KVSlots(4, 32)
    spans = [Span(row, 0, len(tokens)) for row, tokens in enumerate(rows)]
    last = torch.tensor([len(tokens) for tokens in rows]).cumsum(0) - 1
    with torch.inference_mode():
        batched.route(
            [(None if w is None else loaded[w], len(r)) for w, r in zip(whose, rows, strict=True)]
        )
        logits = forward(model, slots, make_plan(slots, spans, model), torch.cat(rows), last)
    assert torch.allclose(logits, torch.stack(expected), atol=2e-4)
    assert not torch.allclose(logits[0], without, atol=0.1)


def test_a_model_with_transposed_weights_is_adapted_too() -> None:
    model, tokens = gpt2(), torch.arange(9)
    tensors = drawn(model, 3)
    before = plain(model, tokens)
    with lora.merge_adapter(model, SETTINGS, tensors):
        expected = plain(model, tokens)
    batched = BatchedLora(model)
    batched.prepare(sizes(tensors))
    batched.route([(batched.load(tensors, SCALE), 9)])
    assert torch.allclose(plain(model, tokens), expected, atol=1e-4)
    batched.route([(None, 9)])
    assert torch.equal(plain(model, tokens), before)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        pytest.param({"transformer.h.9.attn.c_attn": (48, 16)}, "which this base model lacks"),
        pytest.param({"transformer.h.0.attn.c_attn": (48, 8)}, "expected (48, 16) for this base"),
    ],
)
def test_an_adapter_of_another_base_is_refused(
    wrong: dict[str, tuple[int, int]], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        BatchedLora(gpt2()).prepare(wrong)
    assert sentence in refused.value.message
