"""Atomic writes of files."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically: readers never see a part of it, even after a kill."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
