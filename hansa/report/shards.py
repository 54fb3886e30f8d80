"""The first episode of an experience shard: read from its head alone, whatever the shard's size."""

import io
from collections.abc import Iterator
from typing import Any

import zstandard

from hansa.core.canonical import parse_object
from hansa.report.reading import parse_number
from hansa.report.run_facts import EpisodeMessage, ShownEpisode

HEAD_BYTES = 1 << 20
"""Compressed bytes that are fetched; the first episode lies within them."""
_LARGEST_TEXT = 8 << 20
"""Decompressed bytes that are looked at: a small shard may unfold into gigabytes."""
_LARGEST_WINDOW = 1 << 27
_MOST_LINES = 64
_MOST_TURNS = 400
_LONGEST_TEXT = 20_000
_LONGEST_TASK = 200


def read_first_episode(head: bytes, round_: int) -> ShownEpisode | None:
    """The first episode in a shard's head; None when there is none that can be read."""
    for line in _lines(head):
        document = parse_object(line)
        if document is not None and isinstance(document.get("turns"), list):
            return _episode(document, round_)
    return None


def read_version(head: bytes) -> str:
    """Version of the program that wrote the shard, from its header line."""
    header = parse_object(next(_lines(head), b"")) or {}
    program = header.get("program")
    return program[:_LONGEST_TASK] if isinstance(program, str) else ""


def _lines(head: bytes) -> Iterator[bytes]:
    # A reader at the edge of a cut stream gives what it has; only a garbled one raises.
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    try:
        with unpacker.stream_reader(io.BytesIO(head), read_across_frames=True) as stream:
            text = stream.read(_LARGEST_TEXT)
    except (zstandard.ZstdError, MemoryError):
        return
    yield from text.split(b"\n", _MOST_LINES)[:_MOST_LINES]


def _episode(document: dict[str, Any], round_: int) -> ShownEpisode:
    turns = [turn for given in document["turns"][:_MOST_TURNS] if (turn := _turn(given))]
    return ShownEpisode(
        round=round_,
        task=str(document.get("task", ""))[:_LONGEST_TASK],
        success=document.get("success") is True,
        reward=parse_number(document.get("reward")),
        turns=tuple(turns),
    )


def _turn(given: Any) -> EpisodeMessage | None:
    if not isinstance(given, dict) or not isinstance(given.get("text"), str):
        return None
    role = "agent" if given.get("role") == "agent" else "user"
    return EpisodeMessage(role=role, text=given["text"][:_LONGEST_TEXT])
