"""Adapters of the shapes of a 7B model, in folders that every contender reads.

python bench/aggregate/adapters.py --out /tmp/adapters --count 40
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hansa import adapter, keys
from hansa.spec import Adapter
from hansa.tensorfile import Shapes, TensorWriter

RANK = 8
HIDDEN, INNER = 4096, 11008
LINEAR = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (HIDDEN, HIDDEN),
    "self_attn.v_proj": (HIDDEN, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
"""Outputs and inputs of the linear layers of Llama-2-7B."""


def shapes(layers: int, only: str = "") -> Shapes:
    """Shapes of an adapter on all linear layers, or one of them: 20 million values in 32 layers."""
    found: Shapes = {}
    for layer in range(layers):
        for module, (out, width) in LINEAR.items():
            if only not in ("", module):
                continue
            names = adapter.names(f"model.layers.{layer}.{module}")
            found[names.a], found[names.b] = (RANK, width), (out, RANK)
    return found


def make(folder: Path, seed: int, layers: int = 32, only: str = "") -> Path:
    """Write one adapter unless it is there."""
    if (folder / keys.CONFIG).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    sizes = shapes(layers, only)
    with TensorWriter(folder / keys.ADAPTER, sizes) as writer:
        for name, shape in sizes.items():
            writer.write(name, random.standard_normal(shape, dtype=np.float32) * 0.01)
    config = adapter.config(Adapter(rank=RANK, alpha=16), "hf:a/b", adapter.target_names(sizes))
    (folder / keys.CONFIG).write_bytes(config)
    return folder


def folders(root: Path, count: int, layers: int = 32, only: str = "") -> Iterator[Path]:
    """So many adapters; those that are there already stay."""
    kind = f"{layers}-{only}" if only else str(layers)
    for seed in range(count):
        yield make(root / f"{kind}-{seed:03d}", seed, layers, only)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--layers", type=int, default=32)
    told = parser.parse_args()
    for made in folders(told.out, told.count, told.layers):
        print(made)
