"""Every strategy's folder is one that PEFT loads, and computes what the full matrices compute."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hansa.adapter import lora
from hansa.api import bucket_keys
from hansa.api.spec import Adapter
from tests.support import dense
from tests.support.merging import STRATEGIES, draw, options_of, run

pytestmark = pytest.mark.slow
RANK, ALPHA = 4, 6


def base() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    return LlamaForCausalLM(config).eval()


def shapes(model: Any) -> lora.Shapes:
    from torch import nn

    shapes: lora.Shapes = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and name != "lm_head":
            names = lora.tensor_names(name)
            shapes[names.a] = (RANK, layer.in_features)
            shapes[names.b] = (layer.out_features, RANK)
    return shapes


def logits(model: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(input_ids=torch.arange(12)[None]).logits.numpy()


def dense_logits(tensors: lora.Tensors) -> Any:
    import torch

    model = base()
    for module in dense.modules(tensors):
        layer = model.get_submodule(module.removeprefix("base_model.model."))
        change = ALPHA / RANK * dense.product(tensors, module)
        with torch.no_grad():
            layer.weight += torch.from_numpy(change.astype(np.float32))
    return logits(model)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_peft_computes_what_the_full_matrices_do(strategy: str, tmp_path: Path) -> None:
    from peft import PeftModel

    sizes = shapes(base())
    start = draw(9, sizes, 0.1)
    updates = [{n: a + draw(i, sizes, 0.1)[n] for n, a in start.items()} for i in range(5)]
    frozen = draw(8, {n: _of_rank(n, s, 3) for n, s in sizes.items()}, 0.1)
    options = options_of(strategy, max_rank=20)
    made = run(start, updates, strategy=strategy, frozen=frozen, options=options, server_step=1.5)
    (tmp_path / bucket_keys.ADAPTER).write_bytes(made.data)
    config = lora.render_config(
        Adapter(rank=RANK, alpha=ALPHA),
        "builtin:tiny",
        lora.target_names(made.tensors),
        made.result.frozen_rank,
    )
    (tmp_path / bucket_keys.CONFIG).write_bytes(config)
    loaded = PeftModel.from_pretrained(base(), str(tmp_path))
    got = logits(loaded.eval())
    np.testing.assert_allclose(got, dense_logits(made.tensors), rtol=1e-4, atol=1e-5)
    assert np.abs(got - logits(base())).max() > 1e-3


def _of_rank(name: str, shape: tuple[int, ...], rank: int) -> tuple[int, int]:
    return (rank, shape[1]) if lora.side(name) == "A" else (shape[0], rank)
