"""Writes the GGUF of a small Llama, by llama.cpp's own package: NPZ VOCABULARY OUT.

Run by the interpreter of an environment of its own. The arrays have Hugging Face's names; the
vocabulary is JSON with tokens, merges, specials, the chat template and the shape.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def main(arrays: str, about: str, out: str) -> None:
    """The whole file."""
    facts = json.loads(Path(about).read_text())
    writer = gguf.GGUFWriter(out, "llama")
    describe(writer, facts)
    shape = facts["shape"]
    for name, array in np.load(arrays).items():
        place = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?(.+)\.weight", name)
        assert place, name
        short = NAMES[place[2]]
        if short in ("attn_q", "attn_k"):
            heads = shape["heads"] if short == "attn_q" else shape["kv_heads"]
            rows, width = array.shape
            halves = array.reshape(heads, 2, rows // heads // 2, width)
            array = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, width))
        own = f"blk.{place[1]}.{short}" if place[1] else short
        writer.add_tensor(f"{own}.weight", array.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe(writer: Any, facts: dict[str, Any]) -> None:
    """Shape and tokenizer."""
    shape = facts["shape"]
    writer.add_context_length(shape["positions"])
    writer.add_embedding_length(shape["hidden"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["inner"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_rope_dimension_count(shape["hidden"] // shape["heads"])
    writer.add_rope_freq_base(shape["theta"])
    writer.add_layer_norm_rms_eps(shape["epsilon"])
    writer.add_vocab_size(len(facts["tokens"]))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(facts["tokens"])
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types(
        [control if token in facts["specials"] else normal for token in facts["tokens"]]
    )
    writer.add_token_merges(facts["merges"])
    writer.add_eos_token_id(facts["tokens"].index(facts["end"]))
    writer.add_bos_token_id(facts["tokens"].index(facts["end"]))
    writer.add_add_bos_token(False)
    writer.add_chat_template(facts["template"])


if __name__ == "__main__":
    main(*sys.argv[1:])
