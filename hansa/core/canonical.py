"""JSON documents: canonical bytes, digests of them, and reading those of strangers."""

import hashlib
import json
from typing import Any


def canonical(document: dict[str, Any]) -> bytes:
    """One byte string per document, from any writer: sorted keys, no spaces, a final newline."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return (text + "\n").encode()


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that anybody may have written, or None."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def sha256(data: bytes) -> str:
    """Hex digest, as all documents name it."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(inputs: dict[str, Any]) -> str:
    """Identity of what a result was computed from; attempts and machines are no part of it."""
    return sha256(canonical(inputs))
