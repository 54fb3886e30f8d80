"""LoRA on the builtin model: the same as PEFT, without importing PEFT.

Names, initial values and arithmetic are those of PEFT, bit for bit; tests compare the two. So an
adapter trained here and one trained by PEFT from the same seed have the same bytes.
"""

import math
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

from hansa.adapter.lora import Shapes, Tensors, tensor_names
from hansa.api.spec import Adapter
from hansa.core.errors import PermanentError
from hansa_client.models.builtin.llama import Llama


class Linear(nn.Module):
    """A linear layer with LoRA."""

    def __init__(self, base_layer: nn.Linear, adapter: Adapter) -> None:
        super().__init__()
        self.base_layer = base_layer
        device = base_layer.weight.device
        thin = nn.Linear(base_layer.in_features, adapter.rank, bias=False)
        wide = nn.Linear(adapter.rank, base_layer.out_features, bias=False)
        nn.init.kaiming_uniform_(thin.weight, a=math.sqrt(5))  # before dropout is, as in PEFT
        self.lora_A = thin.to(device)
        self.lora_B = wide.to(device)
        self.lora_dropout = nn.Dropout(adapter.dropout) if adapter.dropout else nn.Identity()
        self.scaling = adapter.alpha / adapter.rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output plus that of the adapter."""
        result: torch.Tensor = self.base_layer(x)
        dropped = self.lora_dropout(x.to(self.lora_A.weight.dtype))
        added: torch.Tensor = self.lora_B(self.lora_A(dropped)) * self.scaling
        return (result + added).to(result.dtype)

    def folded(self, x: torch.Tensor) -> torch.Tensor:
        """The same function as one product, for `lora.folded`."""
        delta = self.scaling * (self.lora_B.weight @ self.lora_A.weight)
        return functional.linear(x, self.base_layer.weight + delta, self.base_layer.bias)


def shapes(model: Llama, adapter: Adapter) -> Shapes:
    """Shape of each tensor that is trained on this model."""
    by_name: Shapes = {}
    for name, layer in targets(model, adapter):
        names = tensor_names(name)
        by_name[names.a] = (adapter.rank, layer.in_features)
        by_name[names.b] = (layer.out_features, adapter.rank)
    return by_name


def attach(model: Llama, adapter: Adapter, tensors: Tensors) -> Llama:
    """Wrap the model's layers to train from these tensors, until `detach`."""
    for name, layer in list(targets(model, adapter)):
        wrapped = Linear(layer, adapter)
        with torch.no_grad():
            for own, thin in zip(tensor_names(name), (wrapped.lora_A, wrapped.lora_B), strict=True):
                thin.weight.copy_(torch.from_numpy(tensors[own].copy()))
        model.set_submodule(name, wrapped)
    return model


def detach(model: Llama) -> Tensors:
    """Unwrap the model's layers, and return the trained tensors."""
    trained: Tensors = {}
    for name, layer in list(model.named_modules()):
        if isinstance(layer, Linear):
            for own, thin in zip(tensor_names(name), (layer.lora_A, layer.lora_B), strict=True):
                trained[own] = thin.weight.detach().float().cpu().numpy().copy()
            model.set_submodule(name, layer.base_layer)
    return dict(sorted(trained.items()))


def targets(model: Llama, adapter: Adapter) -> Iterator[tuple[str, nn.Linear]]:
    """Layers that get an adapter, by the suffix of their names as in PEFT."""
    wanted = adapter.target_modules
    named = [(name, layer) for name, layer in model.named_modules() if _is_wanted(name, wanted)]
    if wanted == "all-linear":
        head = model.get_output_embeddings()
        named = [(n, layer) for n, layer in named if type(layer) is nn.Linear and layer is not head]
    others = [name for name, layer in named if not isinstance(layer, nn.Linear)]
    if others or not named:
        raise PermanentError(
            f"spec.adapter.targetModules: got {wanted}, expected names of this model's linear "
            f"layers ({f'{others[0]} is none' if others else 'no layer is called so'})"
        )
    yield from ((name, layer) for name, layer in named if isinstance(layer, nn.Linear))


def _is_wanted(name: str, wanted: str | list[str]) -> bool:
    return isinstance(wanted, str) or any(name == w or name.endswith(f".{w}") for w in wanted)
