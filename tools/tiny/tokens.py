"""The tokenizer of `builtin:tiny`: words with their leading space, and the worlds' fixed phrases.

A fixed phrase is one token: the worlds repeat them at every turn, and on a laptop half as many
tokens is half the waiting. Tokens are literal text, so decode(encode(text)) == text.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

from hansa_client.worlds import DEMO_OPTIONS, World, make
from hansa_client.worlds.textcraft import RECIPES

PAD, BOS, USER, AGENT, END, UNKNOWN = SPECIALS = (
    "<|pad|>",
    "<|bos|>",
    "<|user|>",
    "<|agent|>",
    "<|end|>",
    "<|unk|>",
)

PHRASES = (
    # maze
    "Reach the goal. Actions: move up, move down, move left, move right.\n",
    "The goal is at position",
    " Your current position is at position",
    " There are walls",
    " There is a wall",
    " There are no walls near you.",
    " to your left",
    " to your right",
    " above you",
    " below you",
    "You reached the goal.",
    "That is no action.",
    # wordle
    "Guess the word in 6 tries. Words:",
    "\nThe first guess was",
    "That is not in the list.",
    # textcraft
    "Crafting commands:\n",
    "\nGoal: craft",
    "Could not execute that.",
    "Could not find a recipe for that.",
    "Could not find enough items.",
    "Could not find that.",
    "Could not find",
    # babyai
    "Your goal is to",
    " next to the",
    "You see",
    "You see nothing.",
    " steps in front of you",
    " steps to your left",
    " steps to your right",
    " You face a wall",
    " steps away.",
    " You carry nothing.",
    " You carry",
    " Available actions: [",
    "turn left",
    " turn left",
    "turn right",
    " turn right",
    "move forward",
    " move forward",
    "go to",
    " go to",
    " pick up",
    "Nothing happens.",
    "The goal is reached.",
    # webshop
    "Find a",
    ", price lower than",
    " dollars",
    " dollars.\n[search]",
    "[back to search]",
    "[back to search] [next >]\n",
    "click[back to search]",
    "click[next >]",
    "click[buy now]",
    " [buy now]",
    " color:",
    "click[",
    "search[",
    "You chose",
    "That is no action here.",
    "Thank you for shopping.",
    # every world
    "Give exactly one action.",
    "The episode is over.",
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


def vocabulary(episodes: int = 1_500) -> dict[str, int]:
    """Every token of the worlds' texts: from play with the demo's and the default options."""
    seen: Counter[str] = Counter(PHRASES)
    split = re.compile(PATTERN).findall
    for number in range(101):
        seen.update([str(number), f" {number}"])
    for number in range(1, 61):
        seen.update([f"b{number}", f" b{number}"])
    for letter in "abcdefghijklmnopqrstuvwxyz.,:;!?'\"()[]<>$%&*+-/=_#@":
        seen.update([letter, f" {letter}"])
    seen.update(["\n", " ", "Thought", "Action", " Action"])
    for item in RECIPES:
        seen.update(split(f"{item} {item}"))
    for name in sorted(DEMO_OPTIONS):
        for options in (DEMO_OPTIONS[name], {}):
            for text in _texts(make(name, options), episodes):
                seen.update(split(text))
    every = [*SPECIALS, *sorted(seen)]
    # A multiple of 64, which matrix units like; named, so that every output decodes.
    every += [f"<|spare{number}|>" for number in range(-len(every) % 64)]
    return {token: index for index, token in enumerate(every)}


def _texts(world: World, episodes: int) -> list[str]:
    draw = random.Random("vocabulary")
    texts = []
    for seed in range(episodes):
        texts.append(world.start(world.fresh(-1 - seed)).text)
        done = False
        while not done:
            action = world.expert() if seed % 3 else draw.choice(world.legal())
            if draw.random() < 0.02:
                action = "nonsense"
            seen = world.step(action)
            texts += [action, f" {action}", seen.text]
            done = seen.done
    return texts


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
        model_max_length=1024,
        padding_side="left",
    )
    outer.chat_template = TEMPLATE
    outer.save_pretrained(str(folder))
