"""A LoRA adapter as the GGUF file that llama.cpp's server loads, for models of Llama's shape.

llama.cpp rotates neighbouring numbers of a head where Hugging Face's Llama rotates its two halves,
so the rows of B of q and k are permuted, as those of the base are in its own GGUF.
"""

import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.core.errors import PermanentError

_MAGIC, _VERSION, _ALIGNMENT = b"GGUF", 3, 32
_STRING, _FLOAT32 = 8, 6
"""Types of metadata values."""
_TENSOR_F32 = 0
_PLACE = re.compile(r"model\.layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)")
_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def encode(tensors: Tensors, alpha: float, config: Any) -> bytes:
    """The file; `config` is the base model's own, which says how many heads there are."""
    heads = {
        "q_proj": config.num_attention_heads,
        "k_proj": getattr(config, "num_key_value_heads", config.num_attention_heads),
    }
    made: dict[str, NDArray[np.float32]] = {}
    for module in lora.target_names(tensors):
        place = _PLACE.fullmatch(module)
        if place is None or place[2] not in _NAMES:
            raise PermanentError(
                f"endpoint.server: got llama.cpp, for which {module} has no name in a GGUF file, "
                "expected a base of Llama's shape"
            )
        names = lora.tensor_names(module)
        b = tensors[names.b]
        if place[2] in heads:
            b = _permute_rows(b, heads[place[2]])
        weight = f"blk.{place[1]}.{_NAMES[place[2]]}.weight"
        made[f"{weight}.lora_a"] = tensors[names.a]
        made[f"{weight}.lora_b"] = b
    facts: dict[str, str | float] = {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(alpha),
    }
    return _encode_file(facts, made)


def _permute_rows(b: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of each head with its two halves interleaved."""
    rows, rank = b.shape
    return b.reshape(heads, 2, rows // heads // 2, rank).swapaxes(1, 2).reshape(rows, rank)


def _encode_file(
    facts: Mapping[str, str | float], tensors: Mapping[str, NDArray[np.float32]]
) -> bytes:
    head = bytearray(_MAGIC + struct.pack("<IQQ", _VERSION, len(tensors), len(facts)))
    for name, value in facts.items():
        head += _encode_text(name)
        if isinstance(value, str):
            head += struct.pack("<I", _STRING) + _encode_text(value)
        else:
            head += struct.pack("<If", _FLOAT32, value)
    body = bytearray()
    for name, array in sorted(tensors.items()):
        head += _encode_text(name) + struct.pack("<I", array.ndim)
        head += struct.pack(f"<{array.ndim}Q", *reversed(array.shape))  # the fastest first
        head += struct.pack("<IQ", _TENSOR_F32, len(body))
        body += np.ascontiguousarray(array, dtype="<f4").tobytes()
        body += bytes(-len(body) % _ALIGNMENT)
    return bytes(head) + bytes(-len(head) % _ALIGNMENT) + bytes(body)


def _encode_text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data
