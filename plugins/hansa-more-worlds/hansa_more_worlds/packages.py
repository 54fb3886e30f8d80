"""Packages and programs that a world of others needs: there, or one sentence that says what to do.

Whether a package is there is asked without importing it: that may take seconds, and a world is
made for every episode.
"""

from __future__ import annotations

import shutil
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hansa_worlds.errors import WorldError


def require(world: str, module: str) -> None:
    """Refuse a world whose package is not installed; the extra has the world's name."""
    if find_spec(module) is None:
        raise _absent(world, "the package is not installed here")


def require_program(world: str, program: str, package: str) -> None:
    """Refuse a world whose program is not on this machine."""
    if shutil.which(program) is None:
        raise WorldError(
            f"world: got {world!r}, which needs the program {program}, and there is none here,"
            f" expected one (on Debian: apt-get install {package})"
        )


def load(world: str, module: str) -> Any:
    """A module of the package; what it warns of itself while it is imported is not our user's."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except ImportError as error:
        raise _absent(world, str(error)) from error


def _absent(world: str, why: str) -> WorldError:
    return WorldError(
        f"world: got {world!r}, but {why}, expected pip install 'hansa-more-worlds[{world}]'"
    )
