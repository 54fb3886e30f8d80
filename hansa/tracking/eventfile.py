"""TensorBoard's event files: records with checksums, in each a protobuf of a few fields.

The format is that of TensorFlow's `event.proto` and `summary.proto`, which have not changed for a
decade. It is small enough to write here, so that equal figures give equal bytes.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hansa.core.errors import InputError
from hansa.core.files import replace_file

_VERSION = "brain.Event:2"
_HEADER = ("", -1)
_LENGTH = struct.Struct("<Q")
_CHECK = struct.Struct("<I")
_TEXT, _STRING = b"text", 7
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def encode_scalar(tag: str, step: int, value: float, time: float) -> bytes:
    """An event with a number; the format has 32 bits for it."""
    return _encode_event(
        time,
        step,
        _encode_bytes(1, tag.encode()) + _encode_field(2, _FLOAT, struct.pack("<f", value)),
    )


def encode_text(tag: str, step: int, words: str, time: float) -> bytes:
    """An event with a text in Markdown, for TensorBoard's page of texts."""
    metadata = _encode_bytes(1, _encode_bytes(1, _TEXT))
    tensor = (
        _encode_field(1, _VARINT, _encode_varint(_STRING))
        + _encode_bytes(2, b"")
        + _encode_bytes(8, words.encode())
    )
    return _encode_event(
        time,
        step,
        _encode_bytes(1, tag.encode()) + _encode_bytes(8, tensor) + _encode_bytes(9, metadata),
    )


def update_file(path: Path, events: list[bytes]) -> None:
    """Make the file hold these events beside its own, each tag and step once.

    New ones are appended, since TensorBoard continues from its last position. Where one has another
    value than before, the whole file is replaced. Half a record of a killed writer is cut off.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            _merge_events(path, file, events)
    except BlockingIOError:
        raise InputError(
            f"--out: got {path.parent}, where another `hansa export` is running",
            hint="wait for it, or choose another --out",
        ) from None
    except OSError as error:
        raise InputError(f"--out: got {path.parent}: {error.strerror or error}") from None


def _merge_events(path: Path, file: Any, events: list[bytes]) -> None:
    content = file.read()
    records = list(_read_records(content))
    whole = sum(len(_frame_record(data)) for data in records)
    known = {_parse_key(data): data for data in records}
    version = _encode_bytes(3, _VERSION.encode())
    header = _encode_field(1, _DOUBLE, struct.pack("<d", 0.0)) + version
    wanted = {_parse_key(data): data for data in [header, *events]}
    # The first 9 bytes of an event are its time, which may differ.
    if any(key in known and known[key][9:] != wanted[key][9:] for key in wanted):
        replace_file(path, b"".join(map(_frame_record, {**known, **wanted}.values())))
        return
    if whole < len(content):
        file.truncate(whole)
    file.write(b"".join(_frame_record(data) for key, data in wanted.items() if key not in known))
    file.flush()
    os.fsync(file.fileno())


# -- records --------------------------------------------------------------------------------------


def _frame_record(data: bytes) -> bytes:
    length = _LENGTH.pack(len(data))
    return (
        length
        + _CHECK.pack(_compute_checksum(length))
        + data
        + _CHECK.pack(_compute_checksum(data))
    )


def _read_records(content: bytes) -> Iterator[bytes]:
    """The whole records at the beginning of a file."""
    place = 0
    while place + 12 <= len(content):
        [length] = _LENGTH.unpack_from(content, place)
        data = content[place + 12 : place + 12 + length]
        if content[place : place + 16 + length] != _frame_record(data):
            return
        yield data
        place += 16 + length


def _build_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _build_table()


def _compute_checksum(data: bytes) -> int:
    """CRC-32C, masked as the format wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# -- protobuf -------------------------------------------------------------------------------------


def _encode_event(time: float, step: int, value: bytes) -> bytes:
    when = _encode_field(1, _DOUBLE, struct.pack("<d", time))
    return (
        when
        + _encode_field(2, _VARINT, _encode_varint(step))
        + _encode_bytes(5, _encode_bytes(1, value))
    )


def _encode_field(number: int, kind: int, content: bytes) -> bytes:
    return _encode_varint(number << 3 | kind) + content


def _encode_bytes(number: int, content: bytes) -> bytes:
    return _encode_field(number, _BYTES, _encode_varint(len(content)) + content)


def _encode_varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _parse_key(event: bytes) -> tuple[str, int]:
    """Tag and step of an event of ours."""
    fields = _parse_fields(event)
    if 5 not in fields:
        return _HEADER
    tag = _parse_fields(_parse_fields(fields[5])[1])[1]
    return str(tag, "utf-8"), fields.get(2, 0)


def _parse_fields(message: bytes) -> dict[int, Any]:
    """The fields of a message of ours: none is repeated, and their numbers are small."""
    fields: dict[int, Any] = {}
    place = 0
    while place < len(message):
        number, kind = message[place] >> 3, message[place] & 7
        value, place = _parse_value(message, place + 1, kind)
        fields[number] = value
    return fields


def _parse_value(message: bytes, place: int, kind: int) -> tuple[Any, int]:
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
