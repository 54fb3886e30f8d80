"""Wordle of LMRL-Gym: guess the secret among the forty words that the prompt lists.

`split: secrets` keeps the secret words of the splits apart. `split: pairs` keeps (secret, opening)
pairs apart and shares the secrets: a small word list then still gives hundreds of held-out tasks,
but they measure deduction on known words, not words never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from hansa_client.worlds.base import (
    Observation,
    Options,
    Split,
    Task,
    World,
    rng,
    share,
)

# fmt: off
WORDS = (
    "apple", "beach", "brave", "bread", "chair", "chess", "cloud", "crane", "dance", "dream",
    "eagle", "earth", "flame", "fruit", "ghost", "grape", "green", "heart", "horse", "house",
    "juice", "knife", "lemon", "light", "money", "music", "night", "ocean", "paint", "piano",
    "plant", "queen", "river", "robot", "snake", "stone", "table", "tiger", "water", "zebra",
)
# fmt: on

TRIES = 6


class Wordle(World):
    """Six tries; each letter of a guess is answered g (right), y (elsewhere) or b (absent)."""

    name = "wordle"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = Options(options)
        self.words = read.words("words", WORDS, length=5, least=4)
        self.opening = read.boolean("opening", False)
        self.split = read.choice("split", "secrets", ("secrets", "pairs"))
        self.max_turns = read.integer("max_turns", 8, 1, 100)
        read.finish()
        self.options = dict(options)
        self._secret = ""
        self._tries = 0
        self._left: list[str] = []

    def tasks(self, split: Split) -> Sequence[Task]:
        """Secrets, or pairs of secret and opening, each in one split."""
        return _tasks(self.words, self.opening, self.split, split)

    def fresh(self, seed: int) -> Task:
        """Any train task; with `split: pairs` these hold every word, which the base must know."""
        return rng("wordle", "fresh", seed).choice(self.tasks("train"))

    def _begin(self, task: Task) -> str:
        self._secret, opening = task.payload
        self._tries = TRIES
        # The expert's own order, so that its demonstrations do not all begin alike.
        self._left = list(self.words)
        rng("wordle", "expert", task.id).shuffle(self._left)
        text = f"Guess the word in {TRIES} tries. Words: {' '.join(self.words)}."
        if opening:
            text += f"\nThe first guess was {opening}: {self._try(opening)}"
        return text

    def _act(self, action: str) -> Observation:
        guess = action.lower().replace(" ", "")  # LMRL-Gym's agents space the letters out
        if guess not in self.words:
            self._tries -= 1
            return Observation("That is not in the list.", 0.0, self._tries == 0)
        marks = self._try(guess)
        if guess == self._secret:
            return Observation(marks, 1.0, True)
        return Observation(marks, 0.0, self._tries == 0)

    def _try(self, guess: str) -> str:
        self._tries -= 1
        marks = feedback(guess, self._secret)
        self._left = [
            word for word in self._left if word != guess and feedback(guess, word) == marks
        ]
        return marks

    def legal(self) -> list[str]:
        """Every word of the list, tried or not."""
        return list(self.words)

    def expert(self) -> str:
        """A word that fits every answer so far."""
        return self._left[0] if self._left else self.words[0]


@cache
def feedback(guess: str, secret: str) -> str:
    """One mark per letter, spaced; a letter is yellow only as often as the secret has it left."""
    marks = ["g" if a == b else "b" for a, b in zip(guess, secret, strict=True)]
    left = [b for a, b in zip(guess, secret, strict=True) if a != b]
    for place, letter in enumerate(guess):
        if marks[place] == "b" and letter in left:
            marks[place] = "y"
            left.remove(letter)
    return " ".join(marks)


@cache
def _tasks(words: tuple[str, ...], opening: bool, by: str, split: Split) -> tuple[Task, ...]:
    def name(secret: str, opened: str) -> str:
        return f"{secret} {opened}".strip()

    openings = words if opening else ("",)
    pairs = [name(secret, opened) for secret in words for opened in openings if secret != opened]
    if by == "pairs":
        chosen = share(pairs, split, "wordle")
    else:
        secrets = set(share(words, split, "wordle"))
        chosen = [pair for pair in sorted(pairs) if pair.split()[0] in secrets]
    return tuple(
        Task(f"wordle-{pair.replace(' ', '-')}", split, (pair.split()[0], pair[6:]))
        for pair in chosen
    )
