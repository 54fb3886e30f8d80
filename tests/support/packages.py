"""Strangers' packages, as pip would leave them: modules and entry points on a path of their own."""

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    site: Path,
    name: str,
    code: str,
    points: Mapping[str, Mapping[str, str]],
    patch: pytest.MonkeyPatch | None = None,
) -> Path:
    """A package of one module; `points` are its entry points by group, name and attribute.

    With `patch` this process sees it until the test ends.
    """
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (site / f"{name}.py").write_text(code)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{key} = {name}:{kind}" for key, kind in entries.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    if patch is not None:
        patch.syspath_prepend(str(site))
    return site
