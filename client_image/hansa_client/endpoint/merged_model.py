"""A base model with an adapter merged into it: the folder that `transformers serve` loads.

It could also load a base with a separate adapter, but without PEFT it would silently serve the base
alone. Merged weights rule that out.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.core.errors import PermanentError
from hansa_client.models.base_model import is_model_file

GENERATION = "generation_config.json"


def merge_files(
    folder: Path, tensors: Tensors, scale: float, stops: Sequence[int]
) -> Iterator[tuple[str, bytes]]:
    """Names and bytes, one file at a time: a large model need not be in memory twice."""
    missing = set(lora.target_names(tensors))
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            yield path.name, _merge_file(path, tensors, scale, missing)
        elif is_model_file(path.name):
            yield path.name, path.read_bytes()
    if missing:
        raise _make_unfit_error(min(missing))
    # Requests set the temperature, but can neither turn sampling on nor top_k off.
    generation = {"do_sample": True, "top_k": 0, "eos_token_id": list(stops)}
    yield GENERATION, json.dumps(generation).encode()


def _merge_file(path: Path, tensors: Tensors, scale: float, missing: set[str]) -> bytes:
    """One file of merged weights; removes its modules from `missing`."""
    from safetensors.torch import load_file, save

    weights = load_file(path)
    for name in weights:
        module = name.removesuffix(".weight")
        if module in missing:
            missing.remove(module)
            weights[name] = _merge_weight(module, weights[name], tensors, scale)
    return save(weights, metadata={"format": "pt"})


def _merge_weight(module: str, weight: Any, tensors: Tensors, scale: float) -> Any:
    import torch

    names = lora.tensor_names(module)
    a, b = (torch.tensor(tensors[name]) for name in (names.a, names.b))
    change = scale * (b @ a)
    if change.shape != weight.shape:
        raise _make_unfit_error(module)
    return (weight.float() + change).to(weight.dtype)


def _make_unfit_error(module: str) -> PermanentError:
    return PermanentError(
        f"endpoint.server: got transformers, for which the base's files have no weight of {module} "
        "to merge an adapter into, expected a base whose files name its layers as the model does"
    )
