"""Deduction in the wordle world: what an answer says, which words fit, which guess is safe."""

from collections.abc import Sequence
from functools import lru_cache

History = tuple[tuple[str, str], ...]
"""Guesses with the marks they were answered with."""

WORK = 100_000
"""Most words compared per search; counted, so that every machine stops at the same place."""


@lru_cache(maxsize=1 << 16)
def mark_guess(guess: str, secret: str) -> str:
    """One mark per letter, spaced; a letter is yellow only as often as the secret has it left."""
    marks = ["g" if a == b else "b" for a, b in zip(guess, secret, strict=True)]
    left = [b for a, b in zip(guess, secret, strict=True) if a != b]
    for place, letter in enumerate(guess):
        if marks[place] == "b" and letter in left:
            marks[place] = "y"
            left.remove(letter)
    return " ".join(marks)


def filter_consistent(words: Sequence[str], history: History) -> list[str]:
    """The words that would have been answered as the history says, in their order."""
    fitting = list(words)
    for guess, marks in history:
        fitting = [word for word in fitting if mark_guess(guess, word) == marks]
    return fitting


@lru_cache(maxsize=1024)
def choose(fitting: tuple[str, ...], words: tuple[str, ...], tries: int) -> str:
    """The first fitting word that wins within the tries whatever the secret is.

    Where no fitting word does, one that only tells the rest apart may; where none is found, the
    word that leaves the fewest in the worst case.
    """
    search = _Search(words)
    for guess in _list_guesses(fitting, words, tries):
        if search.is_safe(guess, fitting, tries):
            return guess
        if search.work > WORK:
            break
    some = [*fitting, *words][: 1 + WORK // len(fitting)]
    return min(some, key=lambda guess: len(_split(guess, fitting)[0]))


class _Search:
    """Looks ahead over all answers, within a bound on the work."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.work = 0
        self._words = words
        self._known: dict[tuple[tuple[str, ...], int], bool] = {}

    def is_safe(self, guess: str, fitting: tuple[str, ...], tries: int) -> bool:
        """Whether every word that fits is found within the tries when this guess comes first."""
        self.work += len(fitting)
        parts = _split(guess, fitting)
        if len(parts) == 1 and len(fitting) > 1:
            return False
        return all(self._may_win(part, tries - 1) for part in parts if part != (guess,))

    def _may_win(self, fitting: tuple[str, ...], tries: int) -> bool:
        if len(fitting) <= tries:
            return True
        if tries <= 1 or self.work > WORK:
            return False
        key = (fitting, tries)
        if key not in self._known:
            self._known[key] = any(
                self.is_safe(guess, fitting, tries)
                for guess in _list_guesses(fitting, self._words, tries)
            )
        return self._known[key]


def _list_guesses(fitting: tuple[str, ...], words: tuple[str, ...], tries: int) -> Sequence[str]:
    """Fitting words first; with one try, or so few words, no other is worth it."""
    if len(fitting) <= tries or tries <= 1:
        return fitting
    return [*fitting, *words]


def _split(guess: str, fitting: Sequence[str]) -> list[tuple[str, ...]]:
    """The words that fit, parted by the answer to the guess, the largest part first."""
    parts: dict[str, list[str]] = {}
    for word in fitting:
        parts.setdefault(mark_guess(guess, word), []).append(word)
    return sorted(map(tuple, parts.values()), key=len, reverse=True)


def explain(history: History) -> str:
    """What the answers so far have shown, in words."""
    green, yellow, absent = _collect_letters(history)
    clues = [f"place {place} is {letter}" for place, letter in sorted(green.items())]
    if yellow:
        clues.append(f"it has {', '.join(yellow)}")
    if absent:
        clues.append(f"it has no {', '.join(absent)}")
    return "; ".join(clues)


def _collect_letters(history: History) -> tuple[dict[int, str], list[str], list[str]]:
    """Letters by place, letters that are somewhere else, and letters that are nowhere."""
    green: dict[int, str] = {}
    met: set[str] = set()
    missed: set[str] = set()
    for guess, marks in history:
        for place, (letter, mark) in enumerate(zip(guess, marks.split(), strict=True), 1):
            if mark == "g":
                green[place] = letter
            (missed if mark == "b" else met).add(letter)
    placed = set(green.values())
    return green, sorted(met - placed), sorted(missed - met)
