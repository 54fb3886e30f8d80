"""Bytes as a stranger might send them: random ones, and sound ones with hostile parts."""

import json
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Path = tuple[Any, ...]

DIGITS, DEEP, NO_NUMBER = '"@digits@"', '"@deep@"', '"@no number@"'
_SPELLED = {
    DIGITS.encode(): b"9" * 5000,
    DEEP.encode(): b"[" * 3000 + b"]" * 3000,
    NO_NUMBER.encode(): b"NaN",
}
"""What Python writes in no document, and a stranger in any."""

numbers = st.sampled_from([-1, 0, 1, 2, 8, 2**31, 2**48, 2**53, 2**53 + 1, 2**63, 2**70, -(2**70)])
texts = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["", "maze", "../maze", "\x1b[2J", "\u202e", "\ud800", "0" * 64, "a" * 64, "x" * 5000]
)
leaves = (
    st.none()
    | st.booleans()
    | numbers
    | st.integers()
    | st.floats()
    | texts
    | st.sampled_from([DIGITS.strip('"'), DEEP.strip('"'), NO_NUMBER.strip('"')])
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def written(document: Any) -> bytes:
    """A document as a stranger writes it."""
    data = json.dumps(document).encode()
    for mark, spelled in _SPELLED.items():
        data = data.replace(mark, spelled)
    return data


def changed(document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """The document with some of its fields exchanged, dropped or added, at any depth."""
    paths = list(_paths(document))
    change = st.tuples(st.sampled_from(paths), st.sampled_from(["set", "drop", "add"]), values)
    return st.lists(change, min_size=1, max_size=4).map(lambda made: _applied(document, made))


def damaged(sound: bytes) -> st.SearchStrategy[bytes]:
    """Sound bytes, cut, overwritten, repeated or with something put in between."""
    place, most = st.integers(0, len(sound)), 8
    change = st.tuples(place, st.integers(0, most), st.binary(max_size=most))
    cut = st.just(len(sound)) | place
    return st.builds(_damaged, st.just(sound), st.lists(change, max_size=4), cut)


def documents(sound: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Anything in place of a JSON document."""
    data = written(sound)
    return changed(sound).map(written) | damaged(data) | values.map(written) | st.binary()


def files(sound: bytes) -> st.SearchStrategy[bytes]:
    """Anything in place of a safetensors file."""
    length = struct.unpack("<Q", sound[:8])[0]
    header, body = json.loads(sound[8 : 8 + length]), sound[8 + length :]
    heads = changed(header).map(written)
    bodies = st.just(body) | st.binary(max_size=40)
    lengths: st.SearchStrategy[Callable[[bytes], int]] = st.sampled_from([len]) | st.integers(
        0, 2**64 - 1
    ).map(lambda number: lambda head: number)
    made = st.builds(
        lambda head, rest, count: struct.pack("<Q", count(head)) + head + rest,
        heads,
        bodies,
        lengths,
    )
    return made | damaged(sound) | st.binary(max_size=400)


def _paths(value: Any, at: Path = ()) -> list[Path]:
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    below = [path for key, each in inner for path in _paths(each, (*at, key))]
    return [at, *below] if at else below


def _applied(document: dict[str, Any], changes: list[tuple[Path, str, Any]]) -> Any:
    made = json.loads(json.dumps(document))
    for path, how, value in changes:
        *way, last = path
        place = made
        for part in way:  # an earlier change may have taken the place away
            fits = isinstance(place, dict) or (isinstance(place, list) and isinstance(part, int))
            place = place[part] if fits and part in _parts(place) else None
        if isinstance(place, dict) and how == "add":
            place[f"{last}2"] = value
        elif isinstance(place, dict | list) and last in _parts(place):
            if how == "drop":
                del place[last]
            else:
                place[last] = value
    return made


def _parts(place: Any) -> Any:
    return range(len(place)) if isinstance(place, list) else place


def _damaged(sound: bytes, changes: list[tuple[int, int, bytes]], cut: int) -> bytes:
    for at, length, piece in changes:
        sound = sound[:at] + piece + sound[at + length :]
    return sound[:cut]
