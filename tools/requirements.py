"""Prints what pip must install for one extra of Hansa, without Hansa itself.

So the images can keep packages, which rarely change, in a layer below the code, which often does.

    python3 tools/requirements.py server
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def requirements(extra: str) -> list[str]:
    """The project's own dependencies and those of the extra, as pyproject.toml spells them."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    if extra not in extras:
        raise SystemExit(f"error: extra: got {extra!r}, expected one of {', '.join(extras)}")
    return [*project["dependencies"], *extras[extra]]


if __name__ == "__main__":
    print(*requirements(sys.argv[1] if len(sys.argv) == 2 else ""), sep="\n")
