"""Atomic writes of files, and folders that somebody else may have prepared."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hansa.core.errors import InputError


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically: readers never see a part of it, even after a kill."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)  # of a killed writer, or a link that somebody planted
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def explain_os_errors(where: str) -> Iterator[None]:
    """Failures of the system as InputErrors about that option or file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{where}: {error.strerror or error}") from None


def refuse_links(folder: Path) -> None:
    """Raise InputError where a folder has links below it: who made it could name any file."""
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(above, name)
            if path.is_symlink():
                raise InputError(
                    f"{path}: got a link, expected a file or folder of the run's own",
                    hint="remove it, or put in its place what it points to",
                )
