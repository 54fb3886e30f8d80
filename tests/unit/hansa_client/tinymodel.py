"""A random Llama and a word tokenizer, small enough to be made anew by each test run."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|> {{ m['content'] }} <|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|unk|>"]


def words() -> list[str]:
    """A vocabulary that covers what the maze says."""
    text = (
        "Reach the goal . Actions : move up , down left right The is at position Your current "
        "There are no walls near you a wall to your above below "
        "That action Give exactly one reached You"
    )
    return [*text.split(), *map(str, range(20))]


def make(folder: Path, *, hidden: int = 32, layers: int = 2, inner: int = 64) -> Path:
    """Write the model as `save_pretrained` does and return its folder."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {w: i for i, w in enumerate(dict.fromkeys([*SPECIALS, *words()]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        extra_special_tokens=["<|user|>", "<|assistant|>"],
    )
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=vocabulary["<|end|>"],
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
