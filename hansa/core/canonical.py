"""Canonical bytes of JSON documents, and digests of them."""

import hashlib
import json
from typing import Any


def canonical(document: dict[str, Any]) -> bytes:
    """One byte string per document, from any writer: sorted keys, no spaces, a final newline."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return (text + "\n").encode()


def sha256(data: bytes) -> str:
    """Hex digest, as all documents name it."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(inputs: dict[str, Any]) -> str:
    """Identity of what a result was computed from; attempts and machines are no part of it."""
    return sha256(canonical(inputs))
