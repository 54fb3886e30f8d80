"""`tools/setup` installs what was asked for, and no more; here an interpreter only notes it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
    *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/uv ;;
    -) exit 1 ;;
    *download.pytorch.org*) exit "${INDEX:-0}" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the set-up reads, and an interpreter that only notes how it is called."""
    (tmp_path / "tools").mkdir()
    for name in ("tools/setup", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def set_up(checkout: Path, *arguments: str, **more: str) -> tuple[int, str, list[str]]:
    """Exit code, what was said, and the packages that were asked for."""
    calls = checkout / "calls"
    calls.unlink(missing_ok=True)
    own = {"HANSA_PYTHON": str(checkout / "python"), "CALLS": str(calls)}
    done = subprocess.run(
        [checkout / "tools/setup", *arguments],
        env={"PATH": os.environ["PATH"], **own, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    asked = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, done.stderr, [line for line in asked if "pip install" in line]


def test_the_demo_gets_no_tools_of_developers(checkout: Path) -> None:
    code, _, asked = set_up(checkout, "--demo")
    assert code == 0 and asked[-1].endswith("-e .[client,local,server]")
    assert set_up(checkout, "--demo")[2] == []
    assert set_up(checkout)[2][-1].endswith("-e .[dev]")
    assert set_up(checkout, "--demo")[2] == [], "developers have all that the demo needs"


def test_torch_for_processors_comes_from_its_own_index_and_nothing_else_does(
    checkout: Path,
) -> None:
    code, said, asked = set_up(checkout, "--demo", HANSA_TORCH="cpu")
    [torch] = [line for line in asked if "download.pytorch.org" in line]
    assert code == 0 and torch.endswith("--index-url https://download.pytorch.org/whl/cpu torch")
    assert "--no-deps" in torch and asked.index(torch) < len(asked) - 1
    assert "about 1 GB" in said


def test_an_index_that_does_not_answer_is_named_and_the_usual_build_is_installed(
    checkout: Path,
) -> None:
    code, said, asked = set_up(checkout, "--demo", HANSA_TORCH="cpu", INDEX="1")
    assert code == 0 and asked[-1].endswith("-e .[client,local,server]")
    assert "HANSA_TORCH=cpu: got no torch from https://download.pytorch.org/whl/cpu" in said


def test_another_build_of_torch_is_refused(checkout: Path) -> None:
    code, said, asked = set_up(checkout, HANSA_TORCH="rocm")
    assert (code, asked) == (2, [])
    assert "error: HANSA_TORCH: got 'rocm', expected cpu" in said
