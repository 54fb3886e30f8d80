"""BM25 over a catalogue: an inverted index with every word's weight worked out in advance."""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

MOST_RESULTS = 50
"""Products that a search lists, as in WebShop."""
MOST_WORDS = 48
"""Distinct words of a query that are looked up; so no query costs more than this many lists."""
LONGEST_WORD = 40

_COMMON = (
    "a an and are as at be but by for from i in is it me my of on or s so some t that the them "
    "then they this to want was which with would you your"
)
STOP_WORDS = frozenset(_COMMON.split())
"""Stop words: they name nothing."""

_K1, _B = 1.2, 0.75
_SCALE = 1_000
_WORD = re.compile(r"\w+")


def split_words(text: str) -> list[str]:
    """The words of a text, in lower case and in order."""
    return _WORD.findall(text.lower())


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The word without a plural's ending; enough to find `boots` with `boot`."""
    word = word[:LONGEST_WORD]
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=16_384)
def list_stems(text: str) -> frozenset[str]:
    """The stems of a short text, for comparing attributes and option values."""
    return frozenset(map(stem, split_words(text)))


def list_terms(query: str) -> tuple[str, ...]:
    """What is looked up for a query; its order and repetitions do not matter."""
    distinct = dict.fromkeys(stem(word) for word in split_words(query))
    return tuple(sorted(list(distinct)[:MOST_WORDS]))


class SearchIndex:
    """Finds the documents that hold the rarest of the words, and the short ones among them.

    For each term: the numbers of the documents that hold it, and what it adds to their scores.
    Weights are whole numbers: sums of floats could order two products differently on another
    machine, and then an episode would.
    """

    def __init__(self, documents: Iterable[str]) -> None:
        lengths: list[int] = []
        self._lists: dict[str, tuple[array[int], array[int]]] = {}
        for number, text in enumerate(documents):
            counted = Counter(map(stem, split_words(text)))
            lengths.append(sum(counted.values()))
            for term, count in counted.items():
                found, counts = self._lists.setdefault(term, (array("I"), array("I")))
                found.append(number)
                counts.append(count)
        self._size = len(lengths)
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        for found, counts in self._lists.values():
            rarity = math.log(1 + (self._size - len(found) + 0.5) / (len(found) + 0.5))
            for place, number in enumerate(found):
                counts[place] = _compute_weight(rarity, counts[place], lengths[number] / mean)

    def find(self, looked_up: tuple[str, ...]) -> list[int]:
        """Numbers of the documents that hold any of the terms, best first, ties in order."""
        size = self._size
        scores = [0] * size
        for term in looked_up:
            if term in self._lists:
                for number, weight in zip(*self._lists[term], strict=True):
                    scores[number] += weight
        # One number sorts faster than two: the score, then the place from the end.
        found = [score * size - number for number, score in enumerate(scores) if score]
        found.sort(reverse=True)
        return [-rank % size for rank in found[:MOST_RESULTS]]


def _compute_weight(rarity: float, count: int, length: float) -> int:
    """A term's part of BM25's sum, at least 1, so that every hit has a score."""
    share = count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length))
    return max(1, round(_SCALE * rarity * share))
