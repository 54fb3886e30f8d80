"""Files that are written whole or not at all."""

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a kill at any moment, never sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
