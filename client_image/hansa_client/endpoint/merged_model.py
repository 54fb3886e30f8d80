"""A base model with an adapter merged into it: the folder that `transformers serve` loads.

It would load a base with an adapter beside it as well, and where it has no PEFT, the base alone
without a word. Merged weights leave nothing to chance.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.core.errors import PermanentError
from hansa_client.models.base_model import is_model_file

GENERATION = "generation_config.json"


def files(
    folder: Path, tensors: Tensors, scale: float, stops: Sequence[int]
) -> Iterator[tuple[str, bytes]]:
    """Names and bytes, one file at a time: a large model need not be in memory twice."""
    missing = set(lora.target_names(tensors))
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            yield path.name, _merged(path, tensors, scale, missing)
        elif is_model_file(path.name):
            yield path.name, path.read_bytes()
    if missing:
        raise _unfit(min(missing))
    # Requests say how warm; that there is to be drawn, from all tokens, they cannot say.
    generation = {"do_sample": True, "top_k": 0, "eos_token_id": list(stops)}
    yield GENERATION, json.dumps(generation).encode()


def _merged(path: Path, tensors: Tensors, scale: float, missing: set[str]) -> bytes:
    """One file of weights; takes the modules that it has from those that are missing."""
    from safetensors.torch import load_file, save

    weights = load_file(path)
    for name in weights:
        module = name.removesuffix(".weight")
        if module in missing:
            missing.remove(module)
            weights[name] = _sum(module, weights[name], tensors, scale)
    return save(weights, metadata={"format": "pt"})


def _sum(module: str, weight: Any, tensors: Tensors, scale: float) -> Any:
    import torch

    names = lora.names(module)
    a, b = (torch.tensor(tensors[name]) for name in (names.a, names.b))
    change = scale * (b @ a)
    if change.shape != weight.shape:
        raise _unfit(module)
    return (weight.float() + change).to(weight.dtype)


def _unfit(module: str) -> PermanentError:
    return PermanentError(
        f"endpoint.server: got transformers, for which the base's files have no weight of {module} "
        "to merge an adapter into, expected a base whose files name its layers as the model does"
    )
