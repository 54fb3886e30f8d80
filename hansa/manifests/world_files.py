"""Worlds in files beside a manifest, as `world: ./hanoi.py:Hanoi`, for runs on this machine."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hansa.api.worlds import WORLDS
from hansa.core.errors import InputError

_FILE = re.compile(r"(?P<path>.*\.py):(?P<name>[A-Za-z_]\w*)")


def offer_files(document: Any, folder: Path) -> None:
    """Offer the worlds that a manifest names by files below its folder, and put names there."""
    for where, place in _find_files(document):
        place["world"] = offer_file(place["world"], f"{where}.world", folder)


def refuse_files(document: Any) -> None:
    """Refuse worlds in files, which a cluster does not have."""
    for where, place in _find_files(document):
        raise InputError(
            f"{where}.world: got '{place['world']}', a file of this machine, expected the name of "
            "a world in the client's image",
            hint="a package offers a world by an entry point, see docs/worlds.md; "
            "`hansa run FILE` takes worlds from files",
        )


def offer_file(world: str, field: str, below: Path | None = None) -> str:
    """The name under which a file's class is a world in this process and those it starts."""
    match = _FILE.fullmatch(world)
    path = ((below or Path()) / match["path"]).resolve() if match else Path()
    if match is None or not path.is_file() or (below and not path.is_relative_to(below.resolve())):
        where = f" below {below.resolve()}" if below else ""
        fits = f"expected a file{where} and a class in it, as ./hanoi.py:Hanoi"
        raise InputError(f"{field}: got '{world}', {fits}")
    return offer_class(path, match["name"], field)


def offer_class(path: Path, class_name: str, field: str, name: str = "") -> str:
    """The same for a class, under the given name or its own in lower case."""
    name, target = name or class_name.lower().strip("_"), f"{path}:{class_name}"
    other = WORLDS.find(name)
    if other is not None and other.value != target:
        raise InputError(
            f"{field}: got class {class_name} of {path.name}, but there is a world {name} already "
            f"({WORLDS.find_origin(name)}), expected a class of another name"
        )
    WORLDS.add_file(name, target)
    return name


def _find_files(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where a manifest names a file: in environments, their parts, probes, or a silo's spec."""
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict):
        return
    places = [("spec", spec)]
    for field in ("environments", "probes"):
        for where, item in _list_items(spec.get(field), f"spec.{field}"):
            places.append((where, item))
            options = item.get("options")
            if isinstance(options, dict):
                places += _list_items(options.get("worlds"), f"{where}.options.worlds")
    yield from (
        (where, place) for where, place in places if _FILE.fullmatch(str(place.get("world")))
    )


def _list_items(items: Any, where: str) -> list[tuple[str, dict[str, Any]]]:
    named = (
        [(f"{where}[{i}]", item) for i, item in enumerate(items)] if isinstance(items, list) else []
    )
    return [(name, item) for name, item in named if isinstance(item, dict)]
