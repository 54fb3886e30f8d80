"""A base and an adapter as one folder: every weight once, in its dtype, or a sentence."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, load_file, save_file

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.assignment import Assignment
from hansa.core.errors import PermanentError
from hansa_client.endpoint import merged_model
from hansa_client.models import base_model
from hansa_client.models.base_model import Base
from tests.unit.hansa_client.endpoint.playing import random_adapter

TINY = base_model.resolve("builtin:tiny")
WEIGHTS = "model.safetensors"


@pytest.fixture
def tensors(base: Base, assign: Callable[..., Assignment]) -> Tensors:
    return random_adapter(base, assign(), 3)


def test_targets_have_their_change_and_nothing_else_has(tensors: Tensors) -> None:
    made = dict(merged_model.merge_files(TINY, tensors, 2.0, [4]))
    before, after = load_file(TINY / WEIGHTS), load(made.pop(WEIGHTS))
    assert after.keys() == before.keys()
    targets = {f"{module}.weight" for module in lora.target_names(tensors)}
    for name, weight in before.items():
        if name in targets:
            pair = lora.tensor_names(name.removesuffix(".weight"))
            change = 2.0 * torch.tensor(tensors[pair.b] @ tensors[pair.a])
            torch.testing.assert_close(after[name], weight + change)
        else:
            assert torch.equal(after[name], weight), name
    generation = json.loads(made.pop(merged_model.GENERATION))
    assert generation == {"do_sample": True, "top_k": 0, "eos_token_id": [4]}
    assert made == {name: (TINY / name).read_bytes() for name in made}
    assert {"config.json", "tokenizer.json", "chat_template.jinja"} <= made.keys()


def test_weights_may_be_in_several_files_and_keep_their_dtype(
    tensors: Tensors, tmp_path: Path
) -> None:
    weights = {name: value.bfloat16() for name, value in load_file(TINY / WEIGHTS).items()}
    names = sorted(weights)
    for number, part in enumerate((names[::2], names[1::2])):
        save_file({name: weights[name] for name in part}, tmp_path / f"model-{number}.safetensors")
    whole: dict[str, torch.Tensor] = {}
    for name, data in merged_model.merge_files(tmp_path, tensors, 1.0, [4]):
        whole |= load(data) if name.endswith(".safetensors") else {}
    assert {value.dtype for value in whole.values()} == {torch.bfloat16}
    targets = {f"{module}.weight" for module in lora.target_names(tensors)}
    assert {name for name in names if not torch.equal(whole[name], weights[name])} == targets


@pytest.mark.parametrize(
    "module", ["model.layers.1.self_attn.q_proj", "model.layers.3.mlp.up_proj"]
)
def test_a_base_that_has_no_such_weight_is_refused(
    tensors: Tensors, tmp_path: Path, module: str
) -> None:
    """Files of other names, or of a shape that no sum can have."""
    weights = load_file(TINY / WEIGHTS)
    weight = weights.pop(f"{module}.weight")
    for left in ({"elsewhere": weight}, {f"{module}.weight": weight[:3].contiguous()}):
        save_file(weights | left, tmp_path / WEIGHTS)
        with pytest.raises(PermanentError, match=f"have no weight of {re.escape(module)} to merge"):
            list(merged_model.merge_files(tmp_path, tensors, 1.0, [1]))
