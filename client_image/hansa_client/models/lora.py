"""LoRA on a loaded model: its shapes, merging an adapter into it, and training one.

PEFT decides which layers get an adapter and names the tensors; `builtin/lora.py` does the same for
the builtin model. Arrays are those of NumPy, as everywhere else in Hansa.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hansa.adapter.lora import Shapes, Tensors, check_rank
from hansa.api.spec import Adapter
from hansa.api.strategies import Half
from hansa.core.errors import PermanentError

if TYPE_CHECKING:
    import torch

    from hansa_client.models.segments import Segments

_PREFIX = "base_model.model."
_FOLD = 15
"""Layers are folded up to this ratio of the weight's size to that of the two thin matrices."""
_A, _B = ".lora_A.weight", ".lora_B.weight"


def shapes(model: Any, adapter: Adapter) -> Shapes:
    """Shape of each tensor that PEFT would train on this model, by PEFT's names."""
    if plain := _find_builtin(model):
        own: Shapes = plain.shapes(model, adapter)
        return own
    wrapped = _wrap(model, adapter, on_meta=True)
    by_name = {name: tuple(tensor.shape) for name, tensor in _read_state(wrapped).items()}
    wrapped.unload()
    return by_name


def attach(model: Any, adapter: Adapter, tensors: Tensors) -> Any:
    """A model that trains from these tensors; `detach` gives the base back."""
    for name, array in tensors.items():
        check_rank(name, array.shape, adapter.rank)
    if plain := _find_builtin(model):
        _check_shapes(plain.shapes(model, adapter), tensors)
        return plain.attach(model, adapter, tensors)
    import torch
    from peft import set_peft_model_state_dict

    wrapped = _wrap(model, adapter, on_meta=False)
    try:
        _check_shapes(
            {n: tuple(tensor.shape) for n, tensor in _read_state(wrapped).items()}, tensors
        )
    except PermanentError:
        wrapped.unload()
        raise
    state = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items()}
    set_peft_model_state_dict(wrapped, state)
    return wrapped


def to_peft_name(name: str) -> str:
    """The name of a weight in PEFT's files, for a model wrapped by PEFT or by Hansa."""
    return _PREFIX + name.removeprefix(_PREFIX).replace(".default.", ".")


def train_only(wrapped: Any, half: Half) -> None:
    """Freeze one of the two matrices of every layer, where a strategy needs that."""
    if half == "both":
        return
    for name, weight in wrapped.named_parameters():
        if ".lora_" in name:
            weight.requires_grad_(f".lora_{half}." in name)


def detach(wrapped: Any) -> tuple[Any, Tensors]:
    """The base model as it was, and the trained tensors."""
    if plain := _find_builtin(wrapped):
        return wrapped, plain.detach(wrapped)
    trained = {
        name: tensor.detach().float().cpu().numpy().copy()
        for name, tensor in sorted(_read_state(wrapped).items())
    }
    return wrapped.unload(), trained


@contextmanager
def merge_adapter(model: Any, adapter: Adapter, tensors: Tensors) -> Iterator[None]:
    """Within, the adapter is merged into the model's weights, which makes generation faster.

    The original weights are kept and restored, since subtracting would leave rounding errors.
    """
    import torch

    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    try:
        with torch.no_grad():
            for module in sorted(name.removesuffix(_A) for name in tensors if name.endswith(_A)):
                weight, delta = _compute_delta(model, module, tensors, adapter.alpha / adapter.rank)
                kept.append((weight, weight.detach().clone()))
                weight.add_(delta)
        yield
    finally:
        with torch.no_grad():
            for weight, original in kept:
                weight.copy_(original)


def fold_layers(wrapped: Any, adapter: Adapter) -> AbstractContextManager[None]:
    """Within, small layers compute with W + s·B·A instead of adding B·A to their output.

    It is the same function. On a CPU, products of rank 8 are inefficient, so that the full gradient
    is cheaper for a layer of a few hundred rows. With dropout, which is defined on the input of A,
    nothing is folded.
    """
    from hansa_client.models.fused_layers import replace_forwards

    if plain := _find_builtin(wrapped):
        kind, forward = plain.Linear, plain.Linear.folded
    else:
        from peft.tuners.lora import Linear

        kind, forward = Linear, _forward_folded
    layers = [layer for layer in wrapped.modules() if _is_foldable(layer, kind, adapter)]
    return replace_forwards([(layer, forward) for layer in layers])


def use_fastest_layers(
    wrapped: Any, adapter: Adapter, segments: "Segments | None" = None
) -> AbstractContextManager[None]:
    """Within, a wrapped model uses the fastest layers for its device.

    `segments` collects each trajectory's own gradients, where trajectories are packed.
    """
    if _find_builtin(wrapped) or next(wrapped.parameters()).device.type == "cpu":
        return fold_layers(wrapped, adapter)
    from hansa_client.models.fused_layers import fuse_layers

    return fuse_layers(wrapped, dropout=adapter.dropout, segments=segments)


def _find_builtin(model: Any) -> Any:
    """The module that wraps the builtin model; None for models that need PEFT."""
    from hansa_client.models.builtin import llama, lora

    return lora if isinstance(model, llama.Llama) else None


def _check_shapes(own: Shapes, tensors: Tensors) -> None:
    """Refuse an adapter of another base model, naming the first tensor that does not fit."""
    for name in sorted(own.keys() | tensors.keys()):
        shape = tuple(tensors[name].shape) if name in tensors else None
        if shape == own.get(name):
            continue
        if shape is None:
            wrong = f"got no {name}, expected one of shape {own[name]}"
        elif name not in own:
            wrong = f"got {name}, which this base model lacks"
        else:
            wrong = f"got {name} of shape {shape}, expected {own[name]}"
        raise PermanentError(
            f"spec.adapter: {wrong}", hint="every environment needs the same spec.model.source"
        )


def _is_foldable(layer: Any, kind: Any, adapter: Adapter) -> bool:
    from torch import nn

    if adapter.dropout or not isinstance(layer, kind) or type(layer.base_layer) is not nn.Linear:
        return False
    rows, columns = layer.base_layer.weight.shape
    on_cpu = layer.base_layer.weight.device.type == "cpu"
    return on_cpu and rows * columns <= _FOLD * adapter.rank * (rows + columns)


def _forward_folded(layer: Any, x: "torch.Tensor", *args: Any, **kwargs: Any) -> "torch.Tensor":
    from torch.nn.functional import linear

    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    weight = layer.base_layer.weight + layer.scaling["default"] * (b @ a)
    return linear(x, weight, layer.base_layer.bias)


def _compute_delta(
    model: Any, module: str, tensors: Tensors, scale: float
) -> "tuple[torch.Tensor, torch.Tensor]":
    """A layer's weight and what the adapter adds to it."""
    import torch

    try:
        layer = model.get_submodule(module.removeprefix(_PREFIX))
    except AttributeError:
        raise PermanentError(
            f"spec.model.source: the adapter has {module}, which this base model lacks"
        ) from None
    weight: torch.Tensor = layer.weight
    a = torch.from_numpy(np.array(tensors[module + _A])).to(weight.device)
    b = torch.from_numpy(np.array(tensors[module + _B])).to(weight.device)
    delta = scale * (b @ a)
    if type(layer).__name__ == "Conv1D":  # GPT-2 keeps its weights transposed
        delta = delta.T
    if delta.shape != weight.shape:
        raise PermanentError(
            f"spec.model.source: the adapter's {module} is {tuple(delta.shape)}, "
            f"expected {tuple(weight.shape)}"
        )
    return weight, delta.to(weight.dtype)


def _wrap(model: Any, adapter: Adapter, *, on_meta: bool) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout,
        target_modules=adapter.target_modules,
        bias="none",
        task_type="CAUSAL_LM",
    )
    try:
        return get_peft_model(model, config, low_cpu_mem_usage=on_meta)
    except ValueError as error:
        first = str(error).strip().partition("\n")[0]
        raise PermanentError(
            f"spec.adapter.targetModules: got {adapter.target_modules}, "
            f"expected names of this model's linear layers ({first})"
        ) from error


def _read_state(wrapped: Any) -> "dict[str, torch.Tensor]":
    from peft import get_peft_model_state_dict

    state: dict[str, torch.Tensor] = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
    return state
