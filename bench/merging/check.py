"""Checks of the formulas on small random matrices, and of the moments on the builtin model."""

import numpy as np
import torch
from merges import RIDGE, adaptive_step, regmean, stepped
from moments import Moments, collect, cut, damped

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter
from hansa_client.models import base_model, lora
from hansa_client.trajectory import Sequence

_LAYERS = {"one.q": ("one.q", 12, 9), "one.k": ("one.q", 12, 5), "two.o": ("two.o", 7, 12)}
"""Input, width of it and of the output, by layer; two layers share an input."""
_RANK = 3
SHAPES = {
    name: shape
    for module, (_, width, out) in _LAYERS.items()
    for name, shape in zip(
        adapter.tensor_names(module), ((_RANK, width), (out, _RANK)), strict=True
    )
}


def main() -> None:
    """Run all checks."""
    for each in (
        regmean_is_the_dense_formula,
        regmean_adds_to_what_is_frozen,
        one_silo_gets_its_own_update,
        equal_moments_give_the_mean_of_products,
        disjoint_inputs_keep_each_update_whole,
        a_rank_too_small_keeps_the_largest_directions,
        the_step_is_of_the_formula,
        cut_moments_are_the_largest_directions,
        moments_are_of_the_layers_inputs,
    ):
        each()
        print(f"ok: {each.__name__.replace('_', ' ')}")


def regmean_is_the_dense_formula() -> None:
    updates, moments = drawn(1, 4), [drawn_moments(seed) for seed in range(4)]
    made = regmean({}, updates, moments, 64)
    for module, (source, width, _) in _LAYERS.items():
        own = [m.by_input[source].double().numpy() for m in moments]
        total = np.sum(own, axis=0)
        total += RIDGE * np.mean(np.diag(total)) * np.eye(width)
        dense = sum(
            product(update, module) @ matrix @ np.linalg.inv(total)
            for update, matrix in zip(updates, own, strict=True)
        )
        assert np.allclose(product(made.frozen, module), dense, atol=1e-6)
    assert made.lost == 0


def regmean_adds_to_what_is_frozen() -> None:
    before, updates = drawn(2, 1)[0], drawn(3, 2)
    moments = [drawn_moments(seed) for seed in range(2)]
    alone, both = (regmean(part, updates, moments, 64).frozen for part in ({}, before))
    for module in _LAYERS:
        added = product(alone, module) + product(before, module)
        assert np.allclose(product(both, module), added, atol=1e-6)


def one_silo_gets_its_own_update() -> None:
    updates = drawn(4, 1)
    made = regmean({}, updates, [drawn_moments(9)], 64).frozen
    for module in _LAYERS:
        assert_near(product(made, module), product(updates[0], module), 0.02)


def equal_moments_give_the_mean_of_products() -> None:
    updates = drawn(5, 3)
    made = regmean({}, updates, [drawn_moments(9)] * 3, 64).frozen
    for module in _LAYERS:
        mean = np.mean([product(update, module) for update in updates], axis=0)
        assert_near(product(made, module), mean, 0.02)


def disjoint_inputs_keep_each_update_whole() -> None:
    """Where one silo's inputs are, the merged change is that silo's own, and no K-th part of it."""
    updates = drawn(6, 2)
    halves = [np.diag([1.0] * 6 + [0.0] * 6), np.diag([0.0] * 6 + [1.0] * 6)]
    moments = []
    for half in halves:
        whole = {s: torch.from_numpy(half[:w, :w]) for s, w, _ in _LAYERS.values()}
        moments.append(Moments(whole, {m: layer[0] for m, layer in _LAYERS.items()}))
    made = regmean({}, updates, moments, 64).frozen
    for update, columns in zip(updates, (slice(0, 6), slice(6, 12)), strict=True):
        merged, own = (product(tensors, "one.q")[:, columns] for tensors in (made, update))
        assert_near(merged, own, 0.01)


def a_rank_too_small_keeps_the_largest_directions() -> None:
    updates, moments = drawn(7, 3), [drawn_moments(seed) for seed in range(3)]
    whole, cut_off = (regmean({}, updates, moments, rank) for rank in (64, 4))
    squares = lost = 0.0
    for module in _LAYERS:
        exact = product(whole.frozen, module)
        values = np.linalg.svd(exact, compute_uv=False)
        missing = np.linalg.norm(exact - product(cut_off.frozen, module))
        assert np.isclose(missing**2, np.sum(values[4:] ** 2), rtol=1e-3)
        squares, lost = squares + np.sum(values**2), lost + np.sum(values[4:] ** 2)
    assert np.isclose(cut_off.lost, lost / squares, rtol=1e-4)


def the_step_is_of_the_formula() -> None:
    start, *moves = drawn(8, 6)
    updates = [{name: start[name] + move[name] for name in start} for move in moves]
    changes = [flat(update) - flat(start) for update in updates]
    mean = np.mean(changes, axis=0)
    expected = np.mean([change @ change for change in changes]) / (2 * mean @ mean)
    assert expected > 2  # five changes that have nothing in common
    assert np.isclose(adaptive_step(start, updates), expected)
    assert adaptive_step(start, updates[:1]) == 1.0
    far = flat(stepped(start, updates, expected)) - flat(start)
    assert np.allclose(far, expected * mean, atol=1e-6)


def cut_moments_are_the_largest_directions() -> None:
    draw = torch.Generator().manual_seed(1)
    basis, _ = torch.linalg.qr(torch.randn(300, 300, generator=draw, dtype=torch.float64))
    values = torch.logspace(3, -2, 300, dtype=torch.float64)
    matrix = (basis * values) @ basis.T
    kept = torch.cat([values[:64], values[64:].mean().expand(300 - 64)])
    expected = (basis * kept) @ basis.T
    assert_near(cut(matrix, 64).numpy(), expected.numpy(), 1e-3)
    assert torch.equal(cut(matrix, 300), matrix)


def moments_are_of_the_layers_inputs() -> None:
    """On the builtin network and on transformers' one, against the model's own states."""
    source = "builtin:tiny"
    sequences = [[3, 5, 8, 13, 21, 34, 55], [2, 4], [7, 1, 9, 6, 30]]
    lesson = [Sequence(tokens, [True] * len(tokens)) for tokens in sequences]
    made = []
    for for_peft in (False, True):
        base = base_model.load(source, base_model.resolve(source), 1, for_peft=for_peft)
        modules = adapter.target_names(lora.shapes(base.model, Adapter()))
        made.append(collect(base, modules, lesson))
        embedding, norm = (
            base.model.get_submodule(f"model.{name}")
            for name in ("embed_tokens", "layers.0.input_layernorm")
        )
        with torch.no_grad():
            states = torch.cat([norm(embedding(torch.tensor(row))) for row in sequences])
        first = made[-1].by_input["model.layers.0.self_attn.q_proj"]
        assert_near(first.numpy(), (states.T @ states / len(states)).numpy(), 1e-5)
        shared = [name for name, seen in made[-1].input_of.items() if seen != name]
        assert {name.rsplit(".", 1)[1] for name in shared} == {"k_proj", "v_proj", "up_proj"}
        assert made[-1].input_of.keys() == set(modules)
    for name, matrix in made[0].by_input.items():
        assert_near(matrix.numpy(), made[1].by_input[name].numpy(), 1e-4)


def drawn(seed: int, count: int) -> list[Tensors]:
    """Adapters of random values."""
    draw = np.random.default_rng(seed)
    return [
        {name: draw.normal(size=shape).astype(np.float32) for name, shape in sorted(SHAPES.items())}
        for _ in range(count)
    ]


def drawn_moments(seed: int) -> Moments:
    """Moments of random inputs, damped; none so rare that lambda would outweigh it."""
    draw = torch.Generator().manual_seed(seed)
    made: dict[str, torch.Tensor] = {}
    for source, width, _ in _LAYERS.values():
        rows = torch.randn(40, width, generator=draw) * (0.5 + torch.rand(width, generator=draw))
        made.setdefault(source, damped(rows.T @ rows / 40))
    return Moments(made, {module: layer[0] for module, layer in _LAYERS.items()})


def product(tensors: Tensors, module: str) -> np.ndarray:
    """B·A of a layer."""
    names = adapter.tensor_names(module)
    return tensors[names.b].astype(np.float64) @ tensors[names.a]


def flat(tensors: Tensors) -> np.ndarray:
    """All values of an adapter."""
    return np.concatenate([tensors[name].astype(np.float64).ravel() for name in sorted(tensors)])


def assert_near(got: np.ndarray, expected: np.ndarray, share: float) -> None:
    """Their distance is at most this share of what is expected."""
    distance = np.linalg.norm(got - expected) / np.linalg.norm(expected)
    assert distance <= share, distance
