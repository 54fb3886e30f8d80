"""Second moments of layers' inputs: of the real tokens, by input, whatever room there is."""

from collections.abc import Sequence as Many

import numpy as np
import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.adapter import second_moments, tensor_file
from hansa.api.spec import Adapter
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.training.moments import collect, dampen, find_largest
from hansa_client.trajectory import Sequence

TINY = "builtin:tiny"
ROWS = [[3, 5, 8, 13, 21, 34, 55], [2, 4], [7, 1, 9, 6, 30]]
LESSON = [Sequence(tokens, [True] * len(tokens)) for tokens in ROWS]


@pytest.fixture(scope="module", params=[False, True], ids=["builtin", "transformers"])
def base(request: pytest.FixtureRequest) -> Base:
    return base_model.load(TINY, base_model.resolve(TINY), 1, for_peft=request.param)


def modules(base: Base) -> list[str]:
    return adapter.target_names(lora.shapes(base.model, Adapter()))


def matrix(made: dict[str, np.ndarray], layers: Many[str]) -> np.ndarray:
    names = second_moments.moment_names(layers)
    vectors, rest = made[names.vectors].astype(np.float64), float(made[names.rest][0])
    flat = rest * (np.eye(vectors.shape[1]) - vectors.T @ vectors)
    return (vectors.T * made[names.values]) @ vectors + flat


def test_they_are_of_the_real_tokens_states(base: Base) -> None:
    made = collect(base, modules(base), LESSON, 64)
    block = "model.layers.0"
    embed = base.model.get_submodule("model.embed_tokens")
    norm = base.model.get_submodule(f"{block}.input_layernorm")
    with torch.no_grad():
        states = torch.cat([norm(embed(torch.tensor(row))) for row in ROWS]).double()
    expected = dampen(states.T @ states / len(states)).numpy()
    got = matrix(made, [f"{block}.self_attn.{name}_proj" for name in "kqv"])
    assert np.linalg.norm(got - expected) < 1e-4 * np.linalg.norm(expected)


def test_layers_that_read_one_input_share_it_and_every_layer_is_there(base: Base) -> None:
    made = collect(base, modules(base), LESSON, 64)
    groups = second_moments.parse_inputs(made)
    ends = {tuple(layer.rpartition(".")[2] for layer in layers) for layers in groups}
    alone = {("o_proj",), ("down_proj",)}
    assert ends == {("k_proj", "q_proj", "v_proj"), ("gate_proj", "up_proj"), *alone}
    widths = second_moments.input_widths(lora.shapes(base.model, Adapter()))
    shapes = second_moments.moment_shapes(groups, widths, 64)
    assert {name: array.shape for name, array in made.items()} == shapes


def test_little_room_takes_more_passes_and_changes_no_bit(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = collect(base, modules(base), LESSON, 8)
    monkeypatch.setattr("hansa_client.training.moments.MOST_BYTES", 1)
    parts = collect(base, modules(base), LESSON, 8)
    assert tensor_file.encode(whole) == tensor_file.encode(parts)


def test_no_hook_stays(base: Base) -> None:
    collect(base, modules(base), LESSON, 8)
    layers = [base.model.get_submodule(name) for name in modules(base)]
    assert not any(layer._forward_pre_hooks for layer in layers)


@pytest.mark.parametrize("size, count", [(300, 64), (80, 64), (64, 64), (130, 1)])
def test_the_largest_directions_and_the_mean_of_the_rest(size: int, count: int) -> None:
    draw = torch.Generator().manual_seed(1)
    basis, _ = torch.linalg.qr(torch.randn(size, size, generator=draw, dtype=torch.float64))
    values = torch.logspace(3, -2, size, dtype=torch.float64)
    vectors, kept, rest = find_largest((basis * values) @ basis.T, count)
    torch.testing.assert_close(kept, values[:count], rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(count, dtype=torch.float64))
    others = values[count:]
    assert rest == pytest.approx(float(others.mean()) if len(others) else 0.0, rel=1e-3)
