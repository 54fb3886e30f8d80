"""The builtin model's tokenizer: its words and its chat template, without transformers."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

_BEGIN, _PROMPT = "<|bos|>", "<|agent|>"
_TURNS = {"user": "<|user|>{content}", "assistant": "<|agent|>{content}<|end|>"}
"""The chat template, rendered without Jinja, whose import takes longer than loading the model."""
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")


class WordTokens:
    """The methods of a tokenizer of transformers that the client calls."""

    def __init__(self, folder: Path) -> None:
        config: dict[str, Any] = json.loads((folder / "tokenizer_config.json").read_text())
        self._words = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.chat_template = (folder / "chat_template.jinja").read_text()
        self.added_tokens_decoder = self._words.get_added_tokens_decoder()
        self.all_special_tokens = [
            *(config[name] for name in _NAMED),
            *config["extra_special_tokens"],
        ]
        self.eos_token: str = config["eos_token"]
        self.eos_token_id = self.convert_tokens_to_ids(self.eos_token)

    def __call__(self, texts: list[str], *, add_special_tokens: bool) -> dict[str, list[list[int]]]:
        """Tokens of each text."""
        encodings = self._words.encode_batch(texts, add_special_tokens=add_special_tokens)
        return {"input_ids": [encoded.ids for encoded in encodings]}

    def batch_decode(self, rows: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        """Text of each row of tokens."""
        return self._words.decode_batch(rows, skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_ids(self, token: str) -> int:
        """The id of a known token."""
        return self._words.get_vocab()[token]

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        """The chat as the template in the folder renders it; a test compares the two."""
        turns = "".join(_TURNS[message["role"]].format(**message) for message in messages)
        return f"{_BEGIN}{turns}{_PROMPT if add_generation_prompt else ''}"
