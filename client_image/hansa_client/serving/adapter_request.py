"""Adapter requests: the body of `/v1/load_lora_adapter` and of `/v1/unload_lora_adapter`."""

from __future__ import annotations

import re
from pathlib import Path

from hansa_client.serving.chat_request import parse_object
from hansa_client.serving.errors import reject_field, reject_value

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_LONGEST_PATH = 1000
_FIELDS = ("lora_name", "lora_path", "load_inplace", "lora_int_id")
"""What vLLM's clients send; the last two change nothing here."""


def parse(body: bytes) -> tuple[str, Path]:
    """An adapter's name and folder (unused when unloading); an error names the wrong field."""
    fields = parse_object(body)
    for field in fields:
        if field not in _FIELDS:
            raise reject_field(
                field[:60], f"unknown field, expected one of {', '.join(_FIELDS[:2])}"
            )
    name, path = fields.get("lora_name"), fields.get("lora_path", "/")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise reject_value(
            "lora_name", name, "expected letters, digits, dots and dashes, at most 128"
        )
    is_path = isinstance(path, str) and path.startswith("/") and "\0" not in path
    if not is_path or len(path) > _LONGEST_PATH:
        raise reject_value("lora_path", path, "expected the absolute path of a folder")
    return name, Path(path)
