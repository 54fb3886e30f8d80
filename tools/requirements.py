"""Prints what must be installed for one extra of Hansa, without Hansa itself, or to build it.

So the images can keep packages, which rarely change, in a layer below the code, which often does.

    python3 tools/requirements.py server
    python3 tools/requirements.py build       what builds its wheel
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements(extra: str) -> list[str]:
    """The project's own dependencies and those of the extra, as pyproject.toml spells them."""
    whole = tomllib.loads(PROJECT.read_text())
    if extra == "build":
        return list(whole["build-system"]["requires"])
    project = whole["project"]
    extras = project["optional-dependencies"]
    if extra not in extras:
        raise SystemExit(f"error: extra: got {extra!r}, expected build, {', '.join(extras)}")
    return [*project["dependencies"], *extras[extra]]


if __name__ == "__main__":
    print(*requirements(sys.argv[1] if len(sys.argv) == 2 else ""), sep="\n")
