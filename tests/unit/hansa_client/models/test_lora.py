"""LoRA: merged, attached and folded adapters are one function, and the base survives them all."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter
from hansa.core.errors import PermanentError
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base

TINY = "builtin:tiny"
IDS = torch.tensor([[1, 5, 9, 22, 17, 4, 30, 12]])


@pytest.fixture(scope="module", params=["plain", "by PEFT"])
def base(request: pytest.FixtureRequest) -> Base:
    """The builtin model as it is, and as a model of transformers that PEFT takes."""
    return base_model.load(TINY, base_model.resolve(TINY), 1, for_peft=request.param == "by PEFT")


@pytest.fixture(scope="module")
def start(base: Base) -> Tensors:
    """Its untrained adapter."""
    return adapter.init_adapter(lora.shapes(base.model, Adapter()), Adapter().rank, 7)


def trained_like(start: Tensors, seed: int = 3) -> Tensors:
    """An adapter whose B is not zero, as after training."""
    random = np.random.Generator(np.random.Philox(seed))
    return {
        name: array + random.normal(0, 0.05, array.shape).astype(np.float32)
        for name, array in start.items()
    }


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def is_same(before: dict[str, torch.Tensor], model: Any) -> bool:
    after = model.state_dict()
    return before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)


def test_shapes_are_those_of_peft_and_leave_no_trace(base: Base) -> None:
    before = weights(base.model)
    shapes = lora.shapes(base.model, Adapter(rank=4))
    assert is_same(before, base.model)
    assert len(shapes) == 4 * 7 * 2
    q = "base_model.model.model.layers.0.self_attn.q_proj"
    assert shapes[f"{q}.lora_A.weight"] == (4, 128)
    assert shapes[f"{q}.lora_B.weight"] == (128, 4)


def test_named_targets_get_an_adapter_and_others_do_not(base: Base) -> None:
    shapes = lora.shapes(base.model, Adapter(target_modules=["q_proj", "up_proj"]))
    assert {name.split(".")[-3] for name in shapes} == {"q_proj", "up_proj"}


def test_targets_that_the_model_lacks_are_named(base: Base) -> None:
    with pytest.raises(PermanentError, match=r"^spec\.adapter\.targetModules: got \['nose'\]"):
        lora.shapes(base.model, Adapter(target_modules=["nose"]))


def test_merged_computes_what_peft_computes(base: Base, start: Tensors) -> None:
    tensors = trained_like(start)
    wrapped = lora.attach(base.model, Adapter(), tensors)
    with torch.inference_mode():
        by_peft = wrapped(input_ids=IDS).logits
    lora.detach(wrapped)
    with torch.inference_mode(), lora.merge_adapter(base.model, Adapter(), tensors):
        merged = base.model(input_ids=IDS).logits
    assert torch.allclose(merged, by_peft, atol=1e-3)
    assert not torch.allclose(merged, base.model(input_ids=IDS).logits, atol=1e-2)


def test_merging_restores_the_exact_weights_even_after_an_error(base: Base, start: Tensors) -> None:
    before = weights(base.model)
    with (
        pytest.raises(KeyboardInterrupt),
        lora.merge_adapter(base.model, Adapter(), trained_like(start)),
    ):
        assert not is_same(before, base.model)
        raise KeyboardInterrupt
    assert is_same(before, base.model)


def test_attaching_and_detaching_gives_the_same_tensors_and_base(
    base: Base, start: Tensors
) -> None:
    before = weights(base.model)
    tensors = trained_like(start)
    _, back = lora.detach(lora.attach(base.model, Adapter(), tensors))
    assert adapter.encode(back) == adapter.encode(tensors)
    assert is_same(before, base.model)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_folding_changes_neither_loss_nor_gradient(
    base: Base, start: Tensors, dropout: float
) -> None:
    settings = Adapter(dropout=dropout)
    wrapped = lora.attach(base.model, settings, trained_like(start))
    found = []
    for fold in (False, True):
        torch.manual_seed(1)
        wrapped.train()
        with lora.fold_layers(wrapped, settings) if fold else nullcontext():
            logits = wrapped(input_ids=IDS).logits
            loss = torch.nn.functional.cross_entropy(logits[0, :-1], IDS[0, 1:])
            loss.backward()
        gradients = [p.grad.clone() for p in wrapped.parameters() if p.grad is not None]
        found.append((loss.detach(), gradients))
        wrapped.zero_grad()
    wrapped.eval()
    lora.detach(wrapped)
    (plain, theirs), (folded, ours) = found
    assert torch.allclose(plain, folded, atol=1e-4)
    assert len(ours) == len(theirs) == 56
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-3, rtol=1e-3)


def test_weights_that_are_kept_transposed_are_merged_transposed() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2)).eval()
    settings = Adapter(target_modules=["c_attn", "c_proj"])
    tensors = trained_like(adapter.init_adapter(lora.shapes(gpt2, settings), settings.rank, 1))
    wrapped = lora.attach(gpt2, settings, tensors)
    with torch.inference_mode():
        by_peft = wrapped(input_ids=IDS).logits
    lora.detach(wrapped)
    with torch.inference_mode(), lora.merge_adapter(gpt2, settings, tensors):
        assert torch.allclose(gpt2(input_ids=IDS).logits, by_peft, atol=1e-4)


@pytest.mark.parametrize(
    "change, sentence",
    [
        pytest.param(
            lambda name, t: {**t, name: t[name][:, :-1]},
            r"got {name} of shape \(8, \d+\), expected \(8, \d+\)",
            id="another shape",
        ),
        pytest.param(
            lambda name, t: {n: a for n, a in t.items() if n != name},
            r"got no {name}, expected one of shape \(8, \d+\)",
            id="one is missing",
        ),
        pytest.param(
            lambda name, t: {**t, name.replace("q_proj", "nose"): t[name]},
            r"got base_model\S+nose.lora_A.weight, which this base model lacks",
            id="one too many",
        ),
    ],
)
def test_the_tensor_that_does_not_fit_is_named(
    base: Base, start: Tensors, change: Callable[[str, Tensors], Tensors], sentence: str
) -> None:
    name = next(n for n in sorted(start) if "q_proj.lora_A" in n)
    wrong = rf"^spec\.adapter: {sentence.format(name=re.escape(name))}"
    with pytest.raises(PermanentError, match=wrong):
        lora.attach(base.model, Adapter(), change(name, start))


def test_an_adapter_of_another_model_is_refused(base: Base, start: Tensors) -> None:
    stranger = {name.replace("layers.0", "layers.9"): a for name, a in start.items()}
    with pytest.raises(PermanentError, match=r"got no \S+layers\.0\."):
        lora.attach(base.model, Adapter(), stranger)
    with (
        pytest.raises(PermanentError, match="which this base model lacks"),
        lora.merge_adapter(base.model, Adapter(), stranger),
    ):
        pass
    with pytest.raises(PermanentError, match="got rank 8, expected 4"):
        lora.attach(base.model, Adapter(rank=4), start)
