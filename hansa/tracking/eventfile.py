"""TensorBoard's event files: records with checksums, in each a protobuf of a few fields.

The format is that of TensorFlow's `event.proto` and `summary.proto`: frozen for a decade, small
enough to be written by hand, and so the same figures are the same bytes.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hansa.core.errors import InputError
from hansa.core.files import replace_file

Key = tuple[str, int]
"""Tag and step."""
_VERSION = "brain.Event:2"
_HEADER = ("", -1)
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")
_TEXT, _STRING = b"text", 7
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def scalar(tag: str, step: int, value: float, time: float) -> bytes:
    """An event with a number; the format has 32 bits for it."""
    return _event(time, step, _bytes(1, tag.encode()) + _field(2, _FLOAT, struct.pack("<f", value)))


def text(tag: str, step: int, words: str, time: float) -> bytes:
    """An event with a text in Markdown, for TensorBoard's page of texts."""
    metadata = _bytes(1, _bytes(1, _TEXT))
    tensor = _field(1, _VARINT, _varint(_STRING)) + _bytes(2, b"") + _bytes(8, words.encode())
    return _event(time, step, _bytes(1, tag.encode()) + _bytes(8, tensor) + _bytes(9, metadata))


def update(path: Path, events: list[bytes]) -> None:
    """Make the file hold these events beside its own, each tag and step once.

    New ones are appended, since TensorBoard reads on where it was. Where one has another value
    than before, the whole file is replaced. Half a record, of a writer that was killed, is cut off.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            _merge(path, file, events)
    except BlockingIOError:
        raise InputError(
            f"--out: got {path.parent}, where another `hansa export` is at work",
            hint="wait for it, or choose another --out",
        ) from None
    except OSError as error:
        raise InputError(f"--out: got {path.parent}: {error.strerror or error}") from None


def _merge(path: Path, file: Any, events: list[bytes]) -> None:
    content = file.read()
    records = list(_records(content))
    whole = sum(len(_frame(data)) for data in records)
    known = {_key(data): data for data in records}
    wanted = {_key(data): data for data in [_header(), *events]}
    if any(key in known and _said(known[key]) != _said(wanted[key]) for key in wanted):
        replace_file(path, b"".join(map(_frame, {**known, **wanted}.values())))
        return
    if whole < len(content):
        file.truncate(whole)
    file.write(b"".join(_frame(data) for key, data in wanted.items() if key not in known))
    file.flush()
    os.fsync(file.fileno())


def _header() -> bytes:
    return _field(1, _DOUBLE, struct.pack("<d", 0.0)) + _bytes(3, _VERSION.encode())


def _said(event: bytes) -> bytes:
    """An event without its time, the first field."""
    return event[9:]


# -- records --------------------------------------------------------------------------------------


def _frame(data: bytes) -> bytes:
    length = _LENGTH.pack(len(data))
    return length + _CHECK.pack(_checksum(length)) + data + _CHECK.pack(_checksum(data))


def _records(content: bytes) -> Iterator[bytes]:
    """The whole records at the beginning of a file."""
    place = 0
    while place + 12 <= len(content):
        [length] = _LENGTH.unpack_from(content, place)
        data = content[place + 12 : place + 12 + length]
        if content[place : place + 16 + length] != _frame(data):
            return
        yield data
        place += 16 + length


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _table()


def _checksum(data: bytes) -> int:
    """CRC-32C, masked as the format wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# -- protobuf -------------------------------------------------------------------------------------


def _event(time: float, step: int, value: bytes) -> bytes:
    when = _field(1, _DOUBLE, struct.pack("<d", time))
    return when + _field(2, _VARINT, _varint(step)) + _bytes(5, _bytes(1, value))


def _field(number: int, kind: int, content: bytes) -> bytes:
    return _varint(number << 3 | kind) + content


def _bytes(number: int, content: bytes) -> bytes:
    return _field(number, _BYTES, _varint(len(content)) + content)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _key(event: bytes) -> Key:
    """Tag and step of an event of ours."""
    fields = _fields(event)
    if 5 not in fields:
        return _HEADER
    tag = _fields(_fields(fields[5])[1])[1]
    return str(tag, "utf-8"), fields.get(2, 0)


def _fields(message: bytes) -> dict[int, Any]:
    """The fields of a message of ours: none is repeated, and their numbers are small."""
    fields: dict[int, Any] = {}
    place = 0
    while place < len(message):
        number, kind = message[place] >> 3, message[place] & 7
        value, place = _value(message, place + 1, kind)
        fields[number] = value
    return fields


def _value(message: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in (_DOUBLE, _FLOAT):
        size = 8 if kind == _DOUBLE else 4
        return message[place : place + size], place + size
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return (message[place : place + value], place + value) if kind == _BYTES else (value, place)
