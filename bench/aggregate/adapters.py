"""Adapters of the shapes of a 7B model, in folders that every contender reads.

python bench/aggregate/adapters.py --out /tmp/adapters --count 40
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hansa.adapter import lora, second_moments
from hansa.adapter.tensor_file import Shapes, TensorWriter
from hansa.api import bucket_keys
from hansa.api.spec import Adapter

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
SHARED = (
    ("self_attn.k_proj", "self_attn.q_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""Layers that read one input."""
MOMENTS_RANK = 64


def shapes(layers: int, only: str = "") -> Shapes:
    """Shapes of an adapter on all linear layers, or one of them: 20 million values in 32 layers."""
    found: Shapes = {}
    for layer in range(layers):
        for module, (out, width) in LINEAR.items():
            if only not in ("", module):
                continue
            names = lora.tensor_names(f"model.layers.{layer}.{module}")
            found[names.a], found[names.b] = (RANK, width), (out, RANK)
    return found


def make(folder: Path, seed: int, layers: int = 32, only: str = "") -> Path:
    """Write one adapter unless it is there."""
    if (folder / bucket_keys.CONFIG).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    # Half of each is the same in all, as in adapters that were trained from one start.
    common, own = np.random.default_rng(2**32), np.random.default_rng(seed)
    sizes = shapes(layers, only)
    with TensorWriter(folder / bucket_keys.ADAPTER, sizes) as writer:
        for name, shape in sizes.items():
            parts = [each.standard_normal(shape, dtype=np.float32) for each in (common, own)]
            writer.write(name, (parts[0] + parts[1]) * 0.007)
    config = lora.render_config(Adapter(rank=RANK, alpha=16), "hf:a/b", lora.target_names(sizes))
    (folder / bucket_keys.CONFIG).write_bytes(config)
    return folder


def add_moments(folder: Path, seed: int, layers: int = 32) -> None:
    """Write moments of rank 64 beside an adapter on all linear layers, unless they are there."""
    if (folder / bucket_keys.MOMENTS).exists():
        return
    random = np.random.default_rng(seed)
    inputs = [
        tuple(f"model.layers.{layer}.{module}" for module in group)
        for layer in range(layers)
        for group in SHARED
    ]
    widths = second_moments.input_widths(shapes(layers))
    sizes = second_moments.moment_shapes(inputs, widths, MOMENTS_RANK)
    making = folder / "moments"
    with TensorWriter(making, sizes) as writer:
        for group in inputs:
            names, width = second_moments.moment_names(group), widths[group[0]]
            drawn = random.standard_normal((width, MOMENTS_RANK))
            writer.write(names.vectors, np.linalg.qr(drawn)[0].T)
            writer.write(names.values, np.sort(random.exponential(9.0, MOMENTS_RANK) + 1.0))
            writer.write(names.rest, np.array([0.5]))
    making.rename(folder / bucket_keys.MOMENTS)


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
    options = parser.parse_args()
    for made in folders(options.out, options.count, options.layers):
        print(made)
