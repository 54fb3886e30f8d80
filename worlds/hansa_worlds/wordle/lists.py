"""Word lists of the wordle world: two of our own, or yours by option or by file."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hansa_worlds.errors import OptionError
from hansa_worlds.options import Options

LENGTH = 5
FEWEST = 4
"""Below that a split would be empty."""
MOST = 2_000
"""The prompt lists every word; more would fill any model's context."""

# fmt: off
WORDS = (
    "apple", "beach", "brave", "bread", "chair", "chess", "cloud", "crane", "dance", "dream",
    "eagle", "earth", "flame", "fruit", "ghost", "grape", "green", "heart", "horse", "house",
    "juice", "knife", "lemon", "light", "money", "music", "night", "ocean", "paint", "piano",
    "plant", "queen", "river", "robot", "snake", "stone", "table", "tiger", "water", "zebra",
)
# fmt: on
"""The default game's forty: an own choice, as hard for chance and for deduction as AgentGym's."""

_COMMON = Path(__file__).with_name("words.txt")


@cache
def load_common() -> tuple[str, ...]:
    """A few hundred everyday words."""
    return tuple(_COMMON.read_text(encoding="ascii").split())


def read_words(options: Mapping[str, object], read: Options) -> tuple[str, ...]:
    """The list that the options ask for: `list` by name, `words` spelled out, or a `file`."""
    given = [name for name in ("list", "words", "file") if name in options]
    named = read.choice("list", "forty", ("forty", "common"))
    words = read.words("words", WORDS, length=LENGTH, least=FEWEST)
    path = read.text("file", "")
    read.check()
    if len(given) > 1:
        raise OptionError(f"options.{given[1]}: got it beside {given[0]}, expected one of the two")
    if "file" in given:
        return read_file(path)
    if len(words) > MOST:
        raise OptionError(f"options.words: got {len(words)}, expected at most {MOST} words")
    return load_common() if named == "common" else words


def read_file(path: str) -> tuple[str, ...]:
    """The words of a file, one per line; empty lines are skipped, anything else is refused."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MOST * 100)
    except (OSError, ValueError) as error:  # UnicodeDecodeError and NUL in the path are ValueErrors
        reason = getattr(error, "strerror", None) or "no UTF-8 text"
        fits = f"a file with one word of {LENGTH} letters per line"
        raise OptionError(f"options.file: got {path!r} ({reason}), expected {fits}") from None
    words: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word:
            continue
        if not re.fullmatch(f"[a-z]{{{LENGTH}}}", word):
            fits = f"a word of {LENGTH} letters a to z"
            raise OptionError(f"options.file: got {word[:40]!r} in line {number}, expected {fits}")
        if word in words:
            fits = "each word once"
            raise OptionError(
                f"options.file: got {word!r} in lines {words[word]} and {number}, expected {fits}"
            )
        words[word] = number
    if not FEWEST <= len(words) <= MOST:
        raise OptionError(f"options.file: got {len(words)} words, expected {FEWEST} to {MOST}")
    return tuple(words)
