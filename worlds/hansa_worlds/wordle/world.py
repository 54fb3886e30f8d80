"""Wordle of LMRL-Gym: guess the secret among the words that the prompt lists.

`split: secrets` keeps the secret words of the splits apart. `split: pairs` keeps (secret, opening)
pairs apart and shares the secrets: a small word list then still gives hundreds of held-out tasks,
but they measure deduction on known words, not words never seen.
"""

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hansa_worlds.base import Move, Observation, Split, Task, TaskList, World, rng, share
from hansa_worlds.errors import OptionError
from hansa_worlds.wordle import lists
from hansa_worlds.wordle.search import History, choose, explain, filter_consistent, mark_guess

TRIES = 6

RULES = """\
Guess a hidden word of five letters in at most {tries} tries. Each guess is answered with five
marks, one per letter: g means that the letter is right and in its place, y that the word has it
in another place, b that the word does not have it, or not once more. Only the words below are
taken, and the hidden word is one of them; any other guess is answered "invalid word" and costs a
try:
{words}
Answer with your reason and exactly one guess, in this form:
Thought: The third letter is a, the word has no c, r and e, and plant fits that.

Action: plant"""


class Wordle(World):
    """Guess a hidden word in six tries; each letter is answered g (right), y (elsewhere) or b."""

    name = "wordle"
    brief = f"Guess the word in {TRIES} tries."
    max_turns = 8

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.words = lists.read_words(options, read)
        self.opening = read.boolean("opening", False)
        self.split = read.choice("split", "secrets", ("secrets", "pairs"))
        read.finish()
        if self.split == "pairs" and not self.opening:
            raise OptionError("options.split: got 'pairs' without opening, expected opening: true")
        self.rules, self._taken = _build_rules(self.words)
        self._task = ""
        self._secret = ""
        self._tries = 0
        self._history: History = ()

    def tasks(self, split: Split) -> Sequence[Task]:
        """Secrets, or pairs of secret and opening, each in one split."""
        if self.split == "pairs":
            secrets, openings = sorted(self.words), _list_split_openings
        else:
            secrets, openings = share(self.words, split, "wordle"), _list_openings
        if not self.opening:
            return [Task(f"wordle-{secret}", split, (secret, "")) for secret in secrets]
        each = len(openings(self.words, secrets[0], split))

        def build(index: int) -> Task:
            secret = secrets[index // each]
            opening = openings(self.words, secret, split)[index % each]
            return Task(f"wordle-{secret}-{opening}", split, (secret, opening))

        return TaskList(len(secrets) * each, build)

    def group(self, task: Task) -> str:
        """How many letters the opening tells; without one, how many vowels the secret has."""
        secret, opening = task.payload
        if opening:
            count, what = sum(mark in "gy" for mark in mark_guess(opening, secret)), "letters told"
        else:
            count, what = sum(letter in "aeiou" for letter in secret), "vowels"
        return f"{what} {min(count, 3)}" + " or more" * (count >= 3)

    def _begin(self, task: Task) -> str:
        self._task = task.id
        self._secret, opening = task.payload
        self._tries = TRIES
        self._history = ()
        if not opening:
            return "Let's start Wordle!"
        return f"The first guess was {opening}: {self._try(opening)}"

    def _act(self, action: str) -> Observation:
        guess = action.lower().replace(" ", "")  # LMRL-Gym's agents space the letters out
        if guess not in self._taken:
            self._tries -= 1
            return Observation("invalid word", 0.0, self._tries == 0)
        marks = self._try(guess)
        if guess == self._secret:
            return Observation(marks, 1.0, True)
        return Observation(marks, 0.0, self._tries == 0)

    def _try(self, guess: str) -> str:
        self._tries -= 1
        marks = mark_guess(guess, self._secret)
        self._history += ((guess, marks),)
        return marks

    def legal(self) -> list[str]:
        """Every word of the list, tried or not."""
        return list(self.words)

    def greedy(self, draw: random.Random) -> str:
        """Any word that fits every answer so far."""
        return draw.choice(filter_consistent(self.words, self._history))

    def expert(self) -> Move:
        """A word that fits every answer so far and is sure to be in time, if there is one.

        Words are looked at in an order of the task's own, or all demonstrations would begin alike.
        """
        fitting = tuple(filter_consistent(_shuffle_words(self.words, self._task), self._history))
        guess = choose(fitting, self.words, min(self._tries, self.max_turns - self._turns))
        if not self._history:
            return Move("Nothing is known yet, so I begin with any word.", guess)
        clues = explain(self._history)
        known = f"I know that {clues}" if clues else "I know nothing of the letters"
        if guess in fitting:
            return Move(f"{known}, and {guess} fits.", guess)
        return Move(f"{known}, and {guess} tells the words that fit apart.", guess)


@lru_cache(maxsize=16)
def _build_rules(words: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    """The rules and the words to look up, once for all worlds that are played side by side."""
    return RULES.format(tries=TRIES, words=" ".join(words)), frozenset(words)


@lru_cache(maxsize=256)
def _shuffle_words(words: tuple[str, ...], task: str) -> tuple[str, ...]:
    mixed = list(words)
    rng("wordle", "expert", task).shuffle(mixed)
    return tuple(mixed)


@lru_cache(maxsize=128)
def _list_openings(words: tuple[str, ...], secret: str, _split: Split) -> list[str]:
    """First guesses for a secret that only one split has: every other word."""
    return [word for word in words if word != secret]


@lru_cache(maxsize=128)
def _list_split_openings(words: tuple[str, ...], secret: str, split: Split) -> list[str]:
    """First guesses for a secret that all splits have: a share of the other words."""
    return share(_list_openings(words, secret, split), split, "wordle", secret)
