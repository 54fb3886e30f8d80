"""Minecraft's recipe files, read from a folder that the user names.

What TextCraft leaves out is left out and counted: smelting and the like, a block taken apart, and
what would close a cycle. A file that is no recipe file is an error that names it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from hansa_worlds.errors import OptionError
from hansa_worlds.textcraft.book import Book, Recipe

MOST_FILES = 5_000
"""Of one folder; Minecraft has about 1,500."""
MOST_BYTES = 64 * 1024
"""Of one file; Minecraft's largest has about 2 KiB."""
_MOST_MADE = 99
_NAME = re.compile(r"[a-z0-9_./-]{1,80}")


class _FileFault(Exception):
    """What is wrong with a file, in words that follow its name."""


def read_folder(folder: str) -> Book:
    """The recipes of every `*.json` in the folder, by file name, so that all machines agree."""
    recipes = []
    skipped: Counter[str] = Counter()
    for file in _list_files(folder):
        try:
            recipe = _parse_recipe(_load(file))
        except _FileFault as odd:
            raise OptionError(f"options.recipes: {file.name}: {odd}") from None
        if isinstance(recipe, str):
            skipped[recipe] += 1
        else:
            recipes.append(recipe)
    return Book(recipes, skipped)


def _list_files(folder: str) -> list[Path]:
    fits = "full, small or the path of a folder of Minecraft's recipe files (*.json)"
    try:
        inside = (file for file in Path(folder).iterdir() if file.suffix == ".json")
        found = sorted(inside, key=lambda file: file.name)
    except (OSError, ValueError):
        raise OptionError(f"options.recipes: got {folder[:200]!r}, expected {fits}") from None
    if not 1 <= len(found) <= MOST_FILES:
        raise OptionError(
            f"options.recipes: {folder[:200]!r} holds {len(found)} *.json files, "
            f"expected 1 to {MOST_FILES}"
        )
    return found


def _load(file: Path) -> dict[str, object]:
    if not file.is_file():
        raise _FileFault("expected a file of JSON")  # a pipe would be waited on for ever
    try:
        with file.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise _FileFault(f"expected at most {MOST_BYTES} bytes")
        found = json.loads(raw)
    except (OSError, ValueError, RecursionError):
        raise _FileFault("expected a file of JSON") from None
    if not isinstance(found, dict):
        raise _FileFault("expected a JSON object")
    return found


def _parse_recipe(entry: dict[str, object]) -> Recipe | str:
    """The recipe, or why it is left out."""
    kind = entry.get("type")
    if not isinstance(kind, str):
        raise _FileFault(f"type: got {_shorten(kind)}, expected text")
    read_needs = _TYPES.get(kind.removeprefix("minecraft:"))
    if read_needs is None:
        return "other type"
    needs = read_needs(entry)
    item, makes = _read_result(entry.get("result"))
    if len(needs) == 1 and needs[0][1].endswith(" block"):
        return "block"
    group = entry.get("group", "")
    if not isinstance(group, str):
        raise _FileFault(f"group: got {_shorten(group)}, expected text")
    return Recipe(item, makes, needs, _read_name("group", group) if group else "")


def _read_shaped(entry: dict[str, object]) -> tuple[tuple[int, str], ...]:
    pattern, key = entry.get("pattern"), entry.get("key")
    if not isinstance(pattern, list) or not all(isinstance(row, str) for row in pattern):
        raise _FileFault(f"pattern: got {_shorten(pattern)}, expected a list of rows")
    if not isinstance(key, dict):
        raise _FileFault(f"key: got {_shorten(key)}, expected an object")
    grid = "".join(pattern)
    if unknown := sorted(set(grid) - {" ", *key}):
        raise _FileFault(f"pattern: got {unknown[0]!r}, which key does not explain")
    return _count_ingredients(
        "key", ((grid.count(sign), key[sign]) for sign in key if sign in grid)
    )


def _read_shapeless(entry: dict[str, object]) -> tuple[tuple[int, str], ...]:
    ingredients = entry.get("ingredients")
    if not isinstance(ingredients, list):
        raise _FileFault(f"ingredients: got {_shorten(ingredients)}, expected a list")
    return _count_ingredients("ingredients", ((1, each) for each in ingredients))


_TYPES = {"crafting_shaped": _read_shaped, "crafting_shapeless": _read_shapeless}


def _count_ingredients(
    field: str, parts: Iterable[tuple[int, object]]
) -> tuple[tuple[int, str], ...]:
    """Amounts and names, equal ones together, in the order of the file."""
    found: Counter[str] = Counter()
    for number, ingredient in parts:
        found[_read_ingredient(field, ingredient)] += number
    if not 1 <= found.total() <= 9:
        raise _FileFault(f"{field}: got {found.total()} ingredients, expected 1 to 9")
    return tuple((number, name) for name, number in found.items())


def _read_ingredient(field: str, entry: object) -> str:
    """An item or a tag, however the game's version writes it; of alternatives the first."""
    if isinstance(entry, list):
        entry = entry[0] if entry else None
    if isinstance(entry, dict):
        entry = entry.get("item", entry.get("tag"))
    if not isinstance(entry, str):
        raise _FileFault(f"{field}: got {_shorten(entry)}, expected an item or a tag")
    return _read_name(field, entry.removeprefix("#"))


def _read_result(entry: object) -> tuple[str, int]:
    makes: object = 1
    if isinstance(entry, dict):
        makes = entry.get("count", 1)
        entry = entry.get("item", entry.get("id"))
    if not isinstance(entry, str):
        raise _FileFault(f"result: got {_shorten(entry)}, expected an item")
    if isinstance(makes, bool) or not isinstance(makes, int) or not 1 <= makes <= _MOST_MADE:
        raise _FileFault(f"result.count: got {_shorten(makes)}, expected 1 to {_MOST_MADE}")
    return _read_name("result", entry), makes


def _read_name(field: str, identifier: str) -> str:
    """`minecraft:oak_log` as TextCraft writes it: oak log."""
    written = identifier.removeprefix("minecraft:")
    name = " ".join(written.replace("_", " ").split())
    if not _NAME.fullmatch(written) or not name or " using " in f" {name} ":
        raise _FileFault(
            f"{field}: got {_shorten(identifier)}, expected a name such as minecraft:oak_log"
        )
    return name


def _shorten(value: object) -> str:
    return "nothing" if value is None else ascii(value)[:60]
