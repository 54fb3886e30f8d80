"""The tokenizer of `builtin:tiny`: words with their leading space, and the worlds' fixed phrases.

A fixed phrase is one token: the worlds repeat them at every turn, and on a laptop half as many
tokens is half the waiting. Tokens are literal text, so decode(encode(text)) == text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from hansa_worlds import DEMO_OPTIONS, World, make
from hansa_worlds.base import SPLITS
from hansa_worlds.textcraft.book import load_own_book
from tiny.phrases import PHRASES

PAD, BOS, USER, AGENT, END, UNKNOWN = SPECIALS = (
    "<|pad|>",
    "<|bos|>",
    "<|user|>",
    "<|agent|>",
    "<|end|>",
    "<|unk|>",
)

PATTERN = "|".join(
    [*map(re.escape, sorted(PHRASES, key=len, reverse=True)), r" ?\w+", r" ?[^\w\s]", r"[\s\S]"]
).replace("\\ ", " ")

TEMPLATE = (
    "{{ '<|bos|>' }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|agent|>' + message['content'] + '<|end|>' }}"
    "{% else %}{{ '<|user|>' + message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|agent|>' }}{% endif %}"
)


def vocabulary(episodes: int = 2_000) -> dict[str, int]:
    """Every token of the worlds' texts: from play with the demo's and the default options."""
    seen = set(PHRASES)
    for number in range(101):
        seen.update([str(number), f" {number}"])
    for letter in "abcdefghijklmnopqrstuvwxyz.,:;!?'\"()[]<>$%&*+-/=_#@":
        seen.update([letter, f" {letter}"])
    seen.update(["\n", " ", "Thought", "Action", " Action"])
    seen.update(item_words())
    asked = [(n, o, episodes) for n in sorted(DEMO_OPTIONS) for o in (DEMO_OPTIONS[n], {})]
    with get_context("fork").Pool() as pool:
        for words in pool.imap_unordered(_words, asked):
            seen.update(words)
    every = [*SPECIALS, *sorted(seen)]
    # A multiple of 64, which matrix units like; named, so that every output decodes.
    every += [f"<|spare{number}|>" for number in range(-len(every) % 64)]
    return {token: index for index, token in enumerate(every)}


def item_words() -> list[str]:
    """The words of all items: a sample of play does not show the rare ones in every place."""
    found: set[str] = set()
    for recipe in load_own_book(small=False).listed:
        for item in (recipe.item, *(name for _, name in recipe.needs)):
            found.update(re.findall(PATTERN, f"{item} [{item}]"))
    return sorted(found)


def _words(asked: tuple[str, dict[str, object], int]) -> list[str]:
    """The distinct tokens of one world's play; a process of its own, since some worlds are slow."""
    name, options, episodes = asked
    split = re.compile(PATTERN).findall
    return sorted({word for text in _texts(make(name, options), episodes) for word in split(text)})


def _texts(world: World, episodes: int) -> Iterator[str]:
    """What is said in play, on pre-training tasks and on those of every split."""
    draw = random.Random("vocabulary")
    held = [task for split in SPLITS for task in world.tasks(split)[: episodes // 4]]
    for task in [*map(world.fresh, range(-episodes, 0)), *held]:
        seen = world.start(task)
        yield seen.text
        is_wise = draw.random() < 0.6
        while not seen.done:
            move = world.expert()
            action = move.action if is_wise else draw.choice(world.legal())
            if draw.random() < 0.02:
                action = "nonsense"
            seen = world.step(action)
            yield from (action, f" {action}", move.text, seen.text)


class Coder:
    """The same tokens without the tokenizers package's overhead, for the play generators."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.pad, self.bos, self.user, self.agent, self.end, self.unknown = (
            vocabulary[token] for token in SPECIALS
        )
        self._words = [token for token, _ in sorted(vocabulary.items(), key=lambda pair: pair[1])]
        split, unknown = re.compile(PATTERN).findall, self.unknown

        @lru_cache(maxsize=300_000)
        def encode(text: str) -> tuple[int, ...]:
            return tuple(vocabulary.get(token, unknown) for token in split(text))

        self.encode = encode

    def decode(self, ids: list[int]) -> str:
        """The text of tokens; special ones show as they are written."""
        return "".join(self._words[index] for index in ids)


def save(vocabulary: dict[str, int], folder: Path) -> None:
    """Write what `AutoTokenizer.from_pretrained` reads."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    inner.decoder = decoders.Fuse()
    outer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=END,
        unk_token=UNKNOWN,
        extra_special_tokens=[USER, AGENT],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
        padding_side="left",
    )
    outer.chat_template = TEMPLATE
    outer.save_pretrained(str(folder))
