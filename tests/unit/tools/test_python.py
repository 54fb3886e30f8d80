"""`tools/python` with an environment of yours, into which nothing is installed."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_folder_of_packages_is_on_the_path_of_an_environment_of_yours() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = project["tool"]["hatch"]["build"]["dev-mode-dirs"]
    done = subprocess.run(
        [str(ROOT / "tools" / "python"), "-c", "import os; print(os.environ['PYTHONPATH'])"],
        env={**os.environ, "HANSA_PYTHON": sys.executable, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    path = {Path(each).resolve() for each in done.stdout.strip().split(":")}
    assert {(ROOT / folder).resolve() for folder in folders} <= path
