"""README and the guides do what they say: their commands are typed here, in a fresh clone."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hansa.version import __version__
from tests.support.served import ADDRESS, served

ROOT = Path(__file__).parents[2]
ON_A_CLUSTER = ("kubectl", "helm", "make cluster-demo")
"""Commands that tests/cluster types."""
SHORTER = {
    "rounds: 6": "rounds: 1",
    "tasksPerRound: 48,": "tasksPerRound: 8,",
    "maxSteps: 8": "maxSteps: 2",
    "evaluation: {tasks: 100,": "evaluation: {tasks: 5,",
}
"""What the demo's manifest says, and what is run of it where the demo itself is not."""


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(document: str) -> list[str]:
    lines = [line for block in blocks(document, "console") for line in block.splitlines()]
    typed = [line[2:].partition("  #")[0].strip() for line in lines if line.startswith("$ ")]
    return [line for line in typed if not line.startswith(ON_A_CLUSTER)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The committed and uncommitted files of this checkout, as `git clone` would give them."""
    folder = tmp_path_factory.mktemp("clone") / "hansa"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod((ROOT / name).stat().st_mode)
    return folder


def newcomer(clone: Path) -> dict[str, str]:
    """Variables of somebody who works in the clone."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = [clone / each for each in project["tool"]["hatch"]["build"]["dev-mode-dirs"]]
    return {
        **os.environ,
        "PATH": path,
        "HANSA_PYTHON": sys.executable,
        "PYTHONPATH": ":".join(map(str, packages)),
    }


def type_in(clone: Path, command: str) -> str:
    """Type a command as a newcomer would; what it printed."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=clone,
        env=newcomer(clone),
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def macro(success: dict[str, float]) -> float:
    return sum(success.values()) / len(success)


def shorten(manifest: Path) -> None:
    """One round with few tasks shows as much of the commands as six with a hundred."""
    text = manifest.read_text()
    for long, short in SHORTER.items():
        assert long in text
        text = text.replace(long, short)
    manifest.write_text(text)


@pytest.mark.timeout(1800)
def test_the_first_commands_make_an_agent_better(clone):
    typed = ["git clone <this repository> hansa && cd hansa", "make demo"]
    assert commands("README.md")[:2] == typed
    said = type_in(clone, "make demo")
    assert "report:  runs/demo/report.html" in said
    assert re.search(r"^  alone: +\d.*\n  shared: +\d", said, re.MULTILINE), "what joining brings"
    assert (clone / "runs/demo/report.html").stat().st_size > 10_000

    shown = json.loads(type_in(clone, "hansa status runs/demo -o json"))
    history = shown["status"]["history"]
    assert [entry["round"] for entry in history] == list(range(7)), "the base and six rounds"
    first, last = history[0]["success"], history[-1]["success"]
    assert len(first) == len(last) == 5
    assert macro(last) - macro(first) >= 0.2
    assert all(last[world] > first[world] for world in first)


@pytest.mark.timeout(1800)
def test_the_rest_of_the_readme_can_be_typed_in(clone):
    shutil.rmtree(clone / "runs", ignore_errors=True)  # the demo of the test before
    manifest = clone / "federation.yaml"
    type_in(clone, f"hansa demo --print > {manifest.name}")
    shorten(manifest)
    type_in(clone, f"hansa run {manifest.name} --out runs/demo")
    for command in commands("README.md")[2:]:
        if command.startswith("hansa serve"):
            with served(command, clone, newcomer(clone)) as url:
                snippet = blocks("README.md", "python")[0].replace(ADDRESS, url)
                answer = type_in(clone, f"{shlex.quote(sys.executable)} -c {shlex.quote(snippet)}")
            assert answer.strip()
            continue
        type_in(clone, command)
        if "--print" in command:
            shorten(manifest)


def test_the_readme_installs_the_demos_packages_from_a_checkout_and_from_its_wheel() -> None:
    text = (ROOT / "README.md").read_text()
    installed = re.findall(r"^pip install '(\S+)\[(\S+)\]'", text, flags=re.MULTILINE)
    assert [place for place, _ in installed] == [
        ".",
        f"dist/hansa-{__version__}-py3-none-any.whl",
    ]
    demo = re.search(r"extras=(client\S+)", (ROOT / "tools/setup").read_text())
    assert demo and {extras for _, extras in installed} == {demo[1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(demo[1].split(",")) <= set(project["optional-dependencies"])
